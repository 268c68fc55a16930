#include "daemon/inspect.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/commands.h"
#include "daemon/log.h"

namespace llmd {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kTokenizer = "tokenizer.ggml.";
constexpr std::string_view kChatTemplate = "tokenizer.chat_template";

// general.file_type: the recipe, by convention "mostly this type". Bit 1024 means that it was guessed.
std::string file_type_name(uint64_t id) {
  static constexpr std::pair<uint64_t, std::string_view> kNames[] = {
      {0, "F32"},     {1, "F16"},     {2, "Q4_0"},       {3, "Q4_1"},    {7, "Q8_0"},     {8, "Q5_0"},
      {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"},    {12, "Q3_K_M"}, {13, "Q3_K_L"},  {14, "Q4_K_S"},
      {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},    {18, "Q6_K"},   {19, "IQ2_XXS"}, {20, "IQ2_XS"},
      {21, "Q2_K_S"}, {22, "IQ3_XS"}, {23, "IQ3_XXS"},   {24, "IQ1_S"},  {25, "IQ4_NL"},  {26, "IQ3_S"},
      {27, "IQ3_M"},  {28, "IQ2_S"},  {29, "IQ2_M"},     {30, "IQ4_XS"}, {31, "IQ1_M"},   {32, "BF16"},
      {36, "TQ1_0"},  {37, "TQ2_0"},  {38, "MXFP4_MOE"}, {39, "NVFP4"},  {40, "Q1_0"},    {41, "Q2_0"},
  };
  for (const auto& [number, name] : kNames) {
    if (number == (id & ~uint64_t{1024})) return std::string(name);
  }
  return "type " + std::to_string(id);
}

// N and the rest of "blk.N.rest".
std::optional<std::pair<uint64_t, std::string_view>> split_block_name(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  uint64_t layer = 0;
  const char* end = name.data() + name.size();
  auto parsed = std::from_chars(name.data() + 4, end, layer);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '.') return std::nullopt;
  return std::pair(layer, name.substr(static_cast<size_t>(parsed.ptr - name.data()) + 1));
}

// ffn_up_exps.weight and the like; also ffn_up.7.weight, one tensor an expert, of files before April 2024.
bool is_routed_expert(std::string_view name) {
  for (std::string_view matrix : {"ffn_gate_up", "ffn_gate", "ffn_up", "ffn_down"}) {
    if (!name.starts_with(matrix)) continue;
    std::string_view rest = name.substr(matrix.size());
    if (rest.starts_with("_exps.")) return true;
    if (rest.size() > 2 && rest[0] == '.' && rest[1] >= '0' && rest[1] <= '9') return true;
  }
  return false;
}

TensorRole role_of(std::string_view name, uint64_t mtp_begin) {
  if (auto block = split_block_name(name)) {
    if (block->first >= mtp_begin || block->second.starts_with("nextn.")) return TensorRole::kMtp;
    return is_routed_expert(block->second) ? TensorRole::kRoutedExperts : TensorRole::kCore;
  }
  if (name.starts_with("nextn.")) return TensorRole::kMtp;
  if (name.starts_with("token_embd.") || name.starts_with("output.")) return TensorRole::kEmbeddings;
  if (name.starts_with("output_") || name.starts_with("token_")) return TensorRole::kCore;
  return TensorRole::kOther;
}

std::optional<ExpertSummary> summarize_experts(const GgufModel& model, const ModelSummary& summary) {
  std::map<uint64_t, uint64_t> layer_bytes;
  uint64_t last_dim = 0;
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    const GgufTensor& tensor = model.tensors()[i];
    auto block = split_block_name(tensor.name);
    if (summary.roles[i] != TensorRole::kRoutedExperts || !block) continue;
    layer_bytes[block->first] += tensor.bytes;
    last_dim = std::max(last_dim, tensor.n_dims == 3 ? tensor.dims[2] : 0);
  }
  ExpertSummary experts;
  auto key = [&](const char* name) { return model.get_u64(summary.architecture + "." + name).value_or(0); };
  experts.count = key("expert_count");
  if (experts.count == 0) experts.count = last_dim;
  if (layer_bytes.empty() || experts.count == 0) return std::nullopt;
  experts.used = key("expert_used_count");
  experts.shared = key("expert_shared_count");
  experts.layers = layer_bytes.size();
  experts.bytes_each_min = UINT64_MAX;
  for (const auto& [layer, bytes] : layer_bytes) {
    experts.bytes_each_min = std::min(experts.bytes_each_min, bytes / experts.count);
    experts.bytes_each_max = std::max(experts.bytes_each_max, bytes / experts.count);
    experts.bytes_per_token += bytes / experts.count * std::min(experts.used, experts.count);
  }
  return experts;
}

ordered_json value_json(const GgufValue& value);

ordered_json array_json(const GgufArray& array) {
  ordered_json out = ordered_json::array();
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&array.items)) {
    for (int64_t item : *integers) out.push_back(value_json({array.element_type, item}));
  } else if (const auto* numbers = std::get_if<std::vector<double>>(&array.items)) {
    for (double item : *numbers) out.push_back(shortest_double(array.element_type, item));
  } else {
    for (const std::string& item : std::get<std::vector<std::string>>(array.items)) out.push_back(item);
  }
  return out;
}

ordered_json value_json(const GgufValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value.value)) {
    if (value.type == GgufValueType::kBool) return *integer != 0;
    if (value.type == GgufValueType::kU64) return static_cast<uint64_t>(*integer);
    return *integer;
  }
  if (const auto* number = std::get_if<double>(&value.value)) return shortest_double(value.type, *number);
  if (const auto* flag = std::get_if<bool>(&value.value)) return *flag;
  if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
  return array_json(std::get<GgufArray>(value.value));
}

// Lists longer than any per-layer one (tokens, merges, scores) are shown by their length.
ordered_json short_value_json(const GgufValue& value) {
  constexpr size_t kLayersMax = 1024;
  const auto* array = std::get_if<GgufArray>(&value.value);
  if (array && array->size() > kLayersMax) return {{"length", array->size()}};
  return value_json(value);
}

ordered_json tokenizer_json(const GgufModel& model, const ModelSummary& summary) {
  ordered_json out, special = ordered_json::object();
  auto text = [&](std::string_view key) -> ordered_json {
    const std::string* found = model.get_string(key);
    return found ? ordered_json(*found) : ordered_json(nullptr);
  };
  out["model"] = text("tokenizer.ggml.model");
  out["pre"] = text("tokenizer.ggml.pre");
  out["vocab_size"] = summary.vocabulary ? ordered_json(*summary.vocabulary) : ordered_json(nullptr);
  for (const auto& [key, value] : model.metadata()) {
    if (!key.starts_with(kTokenizer) || key == "tokenizer.ggml.model" || key == "tokenizer.ggml.pre") continue;
    std::string name = key.substr(kTokenizer.size());
    size_t suffix = name.find("_token_id");
    if (suffix != std::string::npos) {
      special[name.substr(0, suffix) + name.substr(suffix + std::string_view("_token_id").size())] =
          short_value_json(value);
    } else {
      out[name] = short_value_json(value);
    }
  }
  out["special_ids"] = special;
  return out;
}

ordered_json tensors_json(const GgufModel& model, const ModelSummary& summary) {
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    const GgufTensor& tensor = model.tensors()[i];
    std::vector<uint64_t> dims(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims);
    out.push_back({{"name", tensor.name},
                   {"type", tensor_type_name(tensor.type)},
                   {"dims", dims},
                   {"bytes", tensor.bytes},
                   {"shard", tensor.shard},
                   {"offset", tensor.file_offset},
                   {"role", tensor_role_name(summary.roles[i])}});
  }
  return out;
}

ordered_json shards_json(const GgufModel& model) {
  std::vector<uint64_t> tensors(model.shards().size());
  for (const GgufTensor& tensor : model.tensors()) ++tensors[tensor.shard];
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i < model.shards().size(); ++i) {
    const GgufShard& shard = model.shards()[i];
    out.push_back({{"path", shard.path},
                   {"bytes", shard.file_bytes},
                   {"version", shard.version},
                   {"data_start", shard.data_start},
                   {"tensors", tensors[i]}});
  }
  return out;
}

ordered_json sizes_json(const ModelSummary& summary, ordered_json& by_type) {
  ordered_json by_role;
  for (size_t i = 0; i < kTensorRoles; ++i) {
    by_role[std::string(tensor_role_name(static_cast<TensorRole>(i)))] = summary.by_role[i].bytes;
  }
  by_type = ordered_json::object();
  for (const auto& [name, size] : summary.by_type) by_type[name] = {{"tensors", size.tensors}, {"bytes", size.bytes}};
  return by_role;
}

ordered_json experts_json(const std::optional<ExpertSummary>& experts) {
  if (!experts) return nullptr;
  return {{"count", experts->count},
          {"used", experts->used},
          {"shared", experts->shared},
          {"layers", experts->layers},
          {"bytes_each_min", experts->bytes_each_min},
          {"bytes_each_max", experts->bytes_each_max},
          {"bytes_per_token", experts->bytes_per_token}};
}

}  // namespace

std::string_view tensor_role_name(TensorRole role) {
  constexpr std::string_view kNames[kTensorRoles] = {"core", "routed_experts", "embeddings", "mtp", "other"};
  return kNames[static_cast<size_t>(role)];
}

double shortest_double(GgufValueType type, double value) {
  if (type != GgufValueType::kF32 || !std::isfinite(value)) return value;
  std::array<char, 32> text{};
  auto printed = std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value));
  std::from_chars(text.data(), printed.ptr, value);
  return value;
}

ModelSummary inspect_model(const GgufModel& model) {
  ModelSummary summary;
  auto text = [&](std::string_view key) {
    const std::string* found = model.get_string(key);
    return found ? *found : std::string();
  };
  summary.architecture = text("general.architecture");
  summary.name = text("general.name");
  summary.chat_template = text(kChatTemplate);
  if (auto id = model.get_u64("general.file_type")) summary.file_type = file_type_name(*id);
  auto blocks = model.get_u64(summary.architecture + ".block_count");
  uint64_t mtp_blocks = model.get_u64(summary.architecture + ".nextn_predict_layers").value_or(0);
  uint64_t mtp_begin = blocks && mtp_blocks > 0 && mtp_blocks < *blocks ? *blocks - mtp_blocks : UINT64_MAX;
  for (const GgufTensor& tensor : model.tensors()) {
    TensorRole role = role_of(tensor.name, mtp_begin);
    summary.roles.push_back(role);
    for (SizeCount* size :
         {&summary.by_role[static_cast<size_t>(role)], &summary.by_type[std::string(tensor_type_name(tensor.type))]}) {
      ++size->tensors;
      size->bytes += tensor.bytes;
    }
    summary.parameters += tensor.element_count();
    summary.tensor_bytes += tensor.bytes;
  }
  for (const GgufShard& shard : model.shards()) summary.file_bytes += shard.file_bytes;
  summary.experts = summarize_experts(model, summary);
  const GgufArray* tokens = model.get_array("tokenizer.ggml.tokens");
  summary.vocabulary = tokens ? tokens->size() : model.get_u64(summary.architecture + ".vocab_size");
  return summary;
}

std::string inspect_json(const GgufModel& model, const ModelSummary& summary) {
  auto text_or_null = [](const std::string& text) { return text.empty() ? ordered_json(nullptr) : ordered_json(text); };
  ordered_json out, by_type, hyperparameters = ordered_json::object(), metadata = ordered_json::object();
  std::string prefix = summary.architecture + ".";
  for (const auto& [key, value] : model.metadata()) {
    if (key.starts_with(prefix)) {
      hyperparameters[key.substr(prefix.size())] = short_value_json(value);
    } else if (!key.starts_with(kTokenizer) && key != kChatTemplate) {
      metadata[key] = short_value_json(value);
    }
  }
  out["architecture"] = text_or_null(summary.architecture);
  out["name"] = text_or_null(summary.name);
  out["file_type"] = text_or_null(summary.file_type);
  out["parameters"] = summary.parameters;
  out["file_bytes"] = summary.file_bytes;
  out["tensor_bytes"] = summary.tensor_bytes;
  out["bytes_by_role"] = sizes_json(summary, by_type);
  out["by_type"] = by_type;
  out["experts"] = experts_json(summary.experts);
  out["hyperparameters"] = hyperparameters;
  out["tokenizer"] = tokenizer_json(model, summary);
  out["chat_template"] = nullptr;
  if (!summary.chat_template.empty()) {
    out["chat_template"] = {{"bytes", summary.chat_template.size()}, {"text", summary.chat_template}};
  }
  out["metadata"] = metadata;
  out["shards"] = shards_json(model);
  out["tensors"] = tensors_json(model, summary);
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int run_inspect(const std::string& path, bool json) {
  Result<GgufModel> model = GgufModel::open(path);
  if (!model.ok()) {
    std::fprintf(stderr, "llmd: %s\n", escape_controls(model.error().to_string()).c_str());
    return 1;
  }
  ModelSummary summary = inspect_model(*model);
  std::string out = json ? inspect_json(*model, summary) : inspect_text(*model, summary);
  bool written = std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0;
  if (!written) std::perror("llmd: standard output");
  return written ? 0 : 1;
}

}  // namespace llmd
