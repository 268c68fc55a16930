// The page that `llmd inspect` prints for people: a heading, where the bytes are, then the details, tensors last.
#include <algorithm>
#include <cstdio>

#include "daemon/inspect.h"
#include "daemon/log.h"

namespace llmd {
namespace {

constexpr size_t kTextShown = 60;  // of a string value, and of a name

std::string pad_right(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string pad_left(std::string text, size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fixed(value, value < 10 ? 2 : 1) + " " + kUnits[unit];
}

std::string human_count(uint64_t count) {
  double value = static_cast<double>(count);
  if (count >= 1000000000) return fixed(value / 1e9, 1) + " billion";
  if (count >= 1000000) return fixed(value / 1e6, 1) + " million";
  return std::to_string(count);
}

std::string percent(uint64_t part, uint64_t whole) {
  return fixed(whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) + " %";
}

// Text from the file for a terminal: one line of bounded length.
std::string shown(std::string_view text) {
  if (text.size() <= kTextShown) return escape_controls(text);
  size_t end = kTextShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return escape_controls(text.substr(0, end)) + "...";
}

std::string number_text(GgufValueType type, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", shortest_double(type, value));
  return text;
}

std::string array_text(const GgufArray& array) {
  constexpr size_t kItems = 6;
  std::string out = "[";
  for (size_t i = 0; i < std::min(array.size(), kItems); ++i) {
    if (i > 0) out += ", ";
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&array.items)) {
      out += std::to_string((*integers)[i]);
    } else if (const auto* numbers = std::get_if<std::vector<double>>(&array.items)) {
      out += number_text(array.element_type, (*numbers)[i]);
    } else {
      out += "\"" + shown(std::get<std::vector<std::string>>(array.items)[i]) + "\"";
    }
  }
  return out + (array.size() > kItems ? ", ... " + std::to_string(array.size()) + " in all]" : "]");
}

std::string value_text(const GgufValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value.value)) {
    bool large = value.type == GgufValueType::kU64;
    return large ? std::to_string(static_cast<uint64_t>(*integer)) : std::to_string(*integer);
  }
  if (const auto* number = std::get_if<double>(&value.value)) return number_text(value.type, *number);
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value.value)) return shown(*text);
  return array_text(std::get<GgufArray>(value.value));
}

// The keys with `prefix`, without it, in two columns.
std::string keys_text(const GgufModel& model, const std::string& prefix) {
  size_t width = 0;
  auto each = [&](auto use) {
    for (const auto& [key, value] : model.metadata()) {
      if (key.starts_with(prefix)) use(shown(key.substr(prefix.size())), value);
    }
  };
  each([&](const std::string& key, const GgufValue&) { width = std::max(width, key.size()); });
  std::string out;
  each([&](const std::string& key, const GgufValue& value) {
    out += "  " + pad_right(key, width + 2) + value_text(value) + "\n";
  });
  return out.empty() ? "  none\n" : out;
}

std::string heading_text(const GgufModel& model, const ModelSummary& summary) {
  std::string out = summary.name.empty() ? "A model without a name" : shown(summary.name);
  out += "\n  " + (summary.architecture.empty() ? "unknown architecture" : shown(summary.architecture));
  if (!summary.file_type.empty()) out += ", " + summary.file_type;
  out += ", " + human_count(summary.parameters) + " parameters\n";
  size_t files = model.shards().size();
  out +=
      "  " + human_bytes(summary.file_bytes) + " in " + std::to_string(files) + (files == 1 ? " file, " : " files, ");
  return out + std::to_string(model.tensors().size()) + " tensors\n";
}

std::string size_line(const std::string& name, const SizeCount& size, uint64_t whole) {
  return "  " + pad_right(name, 16) + pad_left(human_bytes(size.bytes), 11) + pad_left(percent(size.bytes, whole), 9) +
         pad_left(std::to_string(size.tensors), 7) + (size.tensors == 1 ? " tensor\n" : " tensors\n");
}

std::string sizes_text(const ModelSummary& summary) {
  if (summary.by_type.empty()) return "";
  std::string out = "\nBytes by role\n";
  for (size_t i = 0; i < kTensorRoles; ++i) {
    std::string name(tensor_role_name(static_cast<TensorRole>(i)));
    std::replace(name.begin(), name.end(), '_', ' ');
    out += size_line(name, summary.by_role[i], summary.tensor_bytes);
  }
  out += "\nBytes by type\n";
  for (const auto& [name, size] : summary.by_type) out += size_line(name, size, summary.tensor_bytes);
  return out;
}

std::string experts_text(const ModelSummary& summary) {
  if (!summary.experts) return "\nExperts\n  none\n";
  const ExpertSummary& experts = *summary.experts;
  std::string each = human_bytes(experts.bytes_each_min);
  if (experts.bytes_each_max != experts.bytes_each_min) each += " to " + human_bytes(experts.bytes_each_max);
  return "\nExperts\n  " + std::to_string(experts.count) + " in each of " + std::to_string(experts.layers) +
         " layers, " + std::to_string(experts.used) + " used by a token, " + std::to_string(experts.shared) +
         " shared\n  one expert " + each + "; the routed experts of one token " + human_bytes(experts.bytes_per_token) +
         "\n";
}

std::string template_text(const ModelSummary& summary) {
  if (summary.chat_template.empty()) return "\nChat template\n  none\n";
  return "\nChat template\n  " + std::to_string(summary.chat_template.size()) + " bytes; --json prints it whole\n";
}

std::string shards_text(const GgufModel& model) {
  std::string out = "\nFiles\n";
  for (size_t i = 0; i < model.shards().size(); ++i) {
    const GgufShard& shard = model.shards()[i];
    out += pad_left(std::to_string(i), 5) + "  " + pad_left(human_bytes(shard.file_bytes), 11) + "  version " +
           std::to_string(shard.version) + ", data from byte " + std::to_string(shard.data_start) + "  " +
           escape_controls(shard.path) + "\n";
  }
  return out;
}

std::string tensors_text(const GgufModel& model, const ModelSummary& summary) {
  if (model.tensors().empty()) return "\nTensors\n  none\n";
  std::vector<std::string> dims;
  size_t name_width = 6, dims_width = 6;
  for (const GgufTensor& tensor : model.tensors()) {
    std::string text;
    for (uint32_t i = 0; i < tensor.n_dims; ++i) text += (i > 0 ? " x " : "") + std::to_string(tensor.dims[i]);
    dims_width = std::max(dims_width, text.size());
    name_width = std::max(name_width, escape_controls(tensor.name).size());
    dims.push_back(std::move(text));
  }
  std::string out = "\n" + pad_right("Tensors", name_width + 4) + pad_right("type", 9) +
                    pad_right("dims", dims_width + 2) + pad_left("bytes", 14) + pad_left("file", 6) +
                    pad_left("offset", 16) + "  role\n";
  for (size_t i = 0; i < dims.size(); ++i) {
    const GgufTensor& tensor = model.tensors()[i];
    out += "  " + pad_right(escape_controls(tensor.name), name_width + 2) +
           pad_right(std::string(tensor_type_name(tensor.type)), 9) + pad_right(dims[i], dims_width + 2) +
           pad_left(std::to_string(tensor.bytes), 14) + pad_left(std::to_string(tensor.shard), 6) +
           pad_left(std::to_string(tensor.file_offset), 16) + "  " + std::string(tensor_role_name(summary.roles[i])) +
           "\n";
  }
  return out;
}

}  // namespace

std::string inspect_text(const GgufModel& model, const ModelSummary& summary) {
  std::string out = heading_text(model, summary) + sizes_text(summary) + experts_text(summary);
  if (!summary.architecture.empty()) {
    out += "\nHyperparameters (" + shown(summary.architecture) + ".*)\n" + keys_text(model, summary.architecture + ".");
  }
  out += "\nTokenizer (tokenizer.ggml.*)\n" + keys_text(model, "tokenizer.ggml.") + template_text(summary);
  out += "\nAbout the file (general.*)\n" + keys_text(model, "general.");
  return out + shards_text(model) + tensors_text(model, summary);
}

}  // namespace llmd
