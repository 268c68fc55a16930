#include "model/gguf/gguf.h"

#include <charconv>
#include <cmath>

#include "model/gguf/gguf_cursor.h"

namespace llmd {
namespace {

std::optional<uint64_t> u64_of(GgufValueType type, int64_t integer) {
  if (integer < 0 && type != GgufValueType::kU64) return std::nullopt;
  return static_cast<uint64_t>(integer);
}

std::optional<uint64_t> u64_of(double number) {
  if (!(number >= 0) || number >= 0x1p53 || number != std::floor(number)) return std::nullopt;
  return static_cast<uint64_t>(number);
}

// `text` as a whole is an integer, or nothing. Values above 2^63-1 become u64.
std::optional<GgufValue> parse_integer(std::string_view text) {
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  auto parsed = std::from_chars(text.data(), end, integer);
  if (parsed.ec == std::errc() && parsed.ptr == end) return GgufValue{GgufValueType::kI64, integer};
  uint64_t large = 0;
  parsed = std::from_chars(text.data(), end, large);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return GgufValue{GgufValueType::kU64, static_cast<int64_t>(large)};
}

std::optional<GgufValue> parse_float(std::string_view text) {
  const char* end = text.data() + text.size();
  double number = 0;
  auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(number)) return std::nullopt;
  return GgufValue{GgufValueType::kF64, number};
}

std::optional<GgufValue> parse_bool(std::string_view text) {
  if (text != "true" && text != "false") return std::nullopt;
  return GgufValue{GgufValueType::kBool, text == "true"};
}

std::optional<GgufValue> parse_override_value(std::string_view text) {
  auto after = [&](std::string_view prefix) { return text.substr(prefix.size()); };
  if (text.starts_with("int:")) return parse_integer(after("int:"));
  if (text.starts_with("float:")) return parse_float(after("float:"));
  if (text.starts_with("bool:")) return parse_bool(after("bool:"));
  if (text.starts_with("str:")) return GgufValue{GgufValueType::kString, std::string(after("str:"))};
  std::optional<GgufValue> value = parse_bool(text);
  if (!value) value = parse_integer(text);
  if (!value) value = parse_float(text);
  return value ? value : GgufValue{GgufValueType::kString, std::string(text)};
}

}  // namespace

const GgufTensor* GgufModel::find_tensor(std::string_view name) const {
  auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* GgufModel::find(std::string_view key) const {
  auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

std::optional<uint64_t> GgufModel::get_u64(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* integer = std::get_if<int64_t>(&value->value)) return u64_of(value->type, *integer);
  if (const auto* number = std::get_if<double>(&value->value)) return u64_of(*number);
  if (const auto* flag = std::get_if<bool>(&value->value)) return *flag ? 1 : 0;
  return std::nullopt;
}

std::optional<double> GgufModel::get_f64(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value->value)) return *number;
  const auto* integer = std::get_if<int64_t>(&value->value);
  if (!integer) return std::nullopt;
  bool is_unsigned = value->type == GgufValueType::kU64;
  return is_unsigned ? static_cast<double>(static_cast<uint64_t>(*integer)) : static_cast<double>(*integer);
}

std::optional<bool> GgufModel::get_bool(std::string_view key) const {
  std::optional<uint64_t> number = get_u64(key);
  if (!number || *number > 1) return std::nullopt;
  return *number == 1;
}

const std::string* GgufModel::get_string(std::string_view key) const {
  const GgufValue* value = find(key);
  return value ? std::get_if<std::string>(&value->value) : nullptr;
}

const GgufArray* GgufModel::get_array(std::string_view key) const {
  const GgufValue* value = find(key);
  return value ? std::get_if<GgufArray>(&value->value) : nullptr;
}

std::optional<uint64_t> GgufModel::get_u64_at(std::string_view key, size_t layer) const {
  const GgufArray* array = get_array(key);
  if (!array) return get_u64(key);
  if (layer >= array->size()) return std::nullopt;
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&array->items)) {
    return u64_of(array->element_type, (*integers)[layer]);
  }
  if (const auto* numbers = std::get_if<std::vector<double>>(&array->items)) return u64_of((*numbers)[layer]);
  return std::nullopt;
}

Status GgufModel::override_kv(std::string_view assignment) {
  size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return client_error("invalid_override", "an override is written KEY=VALUE, not " + gguf::quoted(assignment));
  }
  std::string_view key = assignment.substr(0, equals);
  std::string_view text = assignment.substr(equals + 1);
  if (!gguf::is_clean_utf8(key))
    return client_error("invalid_override", "the key " + gguf::quoted(key) + " is not clean UTF-8");
  if (key == "general.alignment" || key.starts_with("split.")) {
    return client_error("invalid_override",
                        "the key " + gguf::quoted(key) + " describes the layout of the files and cannot be overridden");
  }
  std::optional<GgufValue> value = parse_override_value(text);
  if (!value) {
    return client_error("invalid_override", "the value " + gguf::quoted(text) + " of the key " + gguf::quoted(key) +
                                                " is not of the type that its prefix asks for");
  }
  metadata_.insert_or_assign(std::string(key), std::move(*value));
  return {};
}

}  // namespace llmd
