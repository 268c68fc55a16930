#include "api/template/printing.h"

#include <algorithm>
#include <cmath>

#include "api/template/text.h"

namespace llmd::jinja {
namespace {

constexpr bool kPunctuation = false;  // untrusted: see printing.h

std::string hex(char32_t value, int digits) {
  std::string text(static_cast<size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, value >>= 4) text[static_cast<size_t>(i)] = "0123456789abcdef"[value & 15];
  return text;
}

std::string scalar_text(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.as_bool() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.as_int());
    case Kind::kFloat:
      return float_text(value.as_double());
    default:
      return {};
  }
}

/// What repr() writes for a character, or nothing when it stands for itself.
std::string repr_escape(char32_t c, char quote) {
  if (c == '\\' || c == static_cast<char32_t>(quote)) return std::string("\\") + static_cast<char>(c);
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD) return "\\x" + hex(c, 2);
  const bool invisible = (is_space(c) && c != ' ') || (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
                         (c >= 0x2060 && c <= 0x206F) || (c >= 0xE000 && c <= 0xF8FF) || c == 0xFEFF;
  return invisible ? "\\u" + hex(c, 4) : std::string();
}

std::string json_escape(char32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      break;
  }
  if (c < 0x20) return "\\u" + hex(c, 4);
  if (!ensure_ascii || c < 0x7F) return {};
  if (c > 0x10FFFF) return "\\ufffd";  // a byte that is no UTF-8
  if (c < 0x10000) return "\\u" + hex(c, 4);
  const char32_t rest = c - 0x10000;
  return "\\u" + hex(0xD800 + (rest >> 10), 4) + "\\u" + hex(0xDC00 + (rest & 0x3FF), 4);
}

/// Appends `text` with each character for which `escape` returns something replaced by that, at its own trust.
template <typename Escape>
void append_escaped(Runtime& runtime, const TemplateString& text, TemplateString* out, const Escape& escape) {
  runtime.step_bytes(text.size());
  size_t plain = 0, length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length) {
    const std::string replacement = escape(utf8_decode(text.text(), pos, &length));
    if (replacement.empty()) continue;
    out->append(text, plain, pos - plain);
    out->append(replacement, text.trusted_at(pos));
    plain = pos + length;
  }
  out->append(text, plain, text.size() - plain);
  runtime.check_length(out->size());
}

void append_repr_string(Runtime& runtime, const TemplateString& text, TemplateString* out) {
  const bool has_single = text.text().find('\'') != std::string::npos;
  const bool has_double = text.text().find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out->append(std::string_view(&quote, 1), kPunctuation);
  append_escaped(runtime, text, out, [quote](char32_t c) { return repr_escape(c, quote); });
  out->append(std::string_view(&quote, 1), kPunctuation);
}

void append_repr_list(Runtime& runtime, const Value& value, TemplateString* out) {
  const auto& items = value.list().items;
  const bool tuple = value.is(Kind::kTuple);
  out->append(tuple ? "(" : "[", kPunctuation);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out->append(", ", kPunctuation);
    append_repr(runtime, items[i], out);
  }
  if (tuple && items.size() == 1) out->append(",", kPunctuation);
  out->append(tuple ? ")" : "]", kPunctuation);
}

void append_repr_dict(Runtime& runtime, const Dict& dict, TemplateString* out) {
  out->append("{", kPunctuation);
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out->append(", ", kPunctuation);
    append_repr(runtime, dict.entries[i].first, out);
    out->append(": ", kPunctuation);
    append_repr(runtime, dict.entries[i].second, out);
  }
  out->append("}", kPunctuation);
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style, TemplateString* out)
      : runtime_(runtime), style_(style), out_(out) {}

  void write(const Value& value) {
    DepthGuard guard(runtime_);
    runtime_.step();
    switch (value.kind()) {
      case Kind::kNone:
        out_->append("null", value.trusted());
        break;
      case Kind::kBool:
        out_->append(value.as_bool() ? "true" : "false", value.trusted());
        break;
      case Kind::kInt:
      case Kind::kFloat:
        out_->append(number(value), value.trusted());
        break;
      case Kind::kString:
        write_string(value.string());
        break;
      case Kind::kList:
      case Kind::kTuple:
        write_list(value.list());
        break;
      case Kind::kDict:
        write_dict(value.dict());
        break;
      default:
        fail("a " + std::string(type_name(value)) + " cannot be written as JSON");
    }
    runtime_.check_length(out_->size());
  }

 private:
  static std::string number(const Value& value) {
    if (value.is(Kind::kInt)) return std::to_string(value.as_int());
    const double number = value.as_double();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  void write_string(const TemplateString& text) {
    out_->append("\"", kPunctuation);
    append_escaped(runtime_, text, out_, [this](char32_t c) { return json_escape(c, style_.ensure_ascii); });
    out_->append("\"", kPunctuation);
  }

  void write_key(const Value& key) {
    if (key.is_string()) {
      write_string(key.string());
      return;
    }
    out_->append("\"", kPunctuation);
    write(key);
    out_->append("\"", kPunctuation);
  }

  /// The separator before item `i`, or before the closing bracket (`last`) of a container that has items.
  void separate(size_t i, bool last) {
    if (!last && i > 0) out_->append(style_.item_separator, kPunctuation);
    if (style_.indent < 0) return;
    const size_t width = static_cast<size_t>(style_.indent) * level_;
    runtime_.check_length(width);
    runtime_.step_bytes(width);
    out_->append("\n" + std::string(width, ' '), kPunctuation);
  }

  void write_list(const List& list) {
    out_->append("[", kPunctuation);
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      separate(i, false);
      write(list.items[i]);
    }
    --level_;
    if (!list.items.empty()) separate(0, true);
    out_->append("]", kPunctuation);
  }

  void write_dict(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [this](const auto* a, const auto* b) { return compare(runtime_, a->first, b->first) < 0; });
    }
    out_->append("{", kPunctuation);
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i, false);
      write_key(entries[i]->first);
      out_->append(style_.key_separator, kPunctuation);
      write(entries[i]->second);
    }
    --level_;
    if (!entries.empty()) separate(0, true);
    out_->append("}", kPunctuation);
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TemplateString* const out_;
  size_t level_ = 0;
};

}  // namespace

void append_repr(Runtime& runtime, const Value& value, TemplateString* out) {
  DepthGuard guard(runtime);
  runtime.step();
  switch (value.kind()) {
    case Kind::kUndefined:
      out->append("Undefined", kPunctuation);
      break;
    case Kind::kString:
      append_repr_string(runtime, value.string(), out);
      break;
    case Kind::kList:
    case Kind::kTuple:
      append_repr_list(runtime, value, out);
      break;
    case Kind::kDict:
      append_repr_dict(runtime, value.dict(), out);
      break;
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kFunction:
      out->append("<" + std::string(type_name(value)) + ">", kPunctuation);
      break;
    default:
      out->append(scalar_text(value), value.trusted());
  }
  runtime.check_length(out->size());
}

void append_text(Runtime& runtime, const Value& value, TemplateString* out) {
  if (value.is_string()) {
    runtime.check_length(out->size() + value.string().size());
    runtime.step_bytes(value.string().size());
    out->append(value.string());
  } else if (!value.is_undefined()) {
    append_repr(runtime, value, out);
  }
}

TemplateString to_text(Runtime& runtime, const Value& value) {
  TemplateString text;
  append_text(runtime, value, &text);
  return text;
}

TemplateString to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  TemplateString text;
  JsonWriter(runtime, style, &text).write(value);
  return text;
}

Value from_json(Runtime& runtime, const nlohmann::ordered_json& json, bool trusted) {
  DepthGuard guard(runtime);
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::boolean:
      return Value::boolean(json.get<bool>(), trusted);
    case Type::number_integer:
      return Value::integer(json.get<int64_t>(), trusted);
    case Type::number_unsigned:
      // Python's integers have no end; past 64 bits (signed) ours are floats, as JSON readers have it.
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return Value::number(json.get<double>(), trusted);
      return Value::integer(json.get<int64_t>(), trusted);
    case Type::number_float:
      return Value::number(json.get<double>(), trusted);
    case Type::string:
      return runtime.string(json.get_ref<const std::string&>(), trusted);
    case Type::array: {
      const Value list = runtime.list({});
      list.list().items.reserve(json.size());
      for (const auto& item : json) runtime.append(&list.list(), from_json(runtime, item, trusted));
      return list;
    }
    case Type::object: {
      const Value dict = runtime.dict();
      for (const auto& [key, item] : json.items()) {
        runtime.set(&dict.dict(), runtime.string(key, trusted), from_json(runtime, item, trusted));
      }
      return dict;
    }
    default:
      return Value::none(trusted);
  }
}

Value parse_json(Runtime& runtime, const TemplateString& text) {
  runtime.step(1 + text.size() / 8);
  const auto json = nlohmann::ordered_json::parse(text.text(), nullptr, false);
  if (json.is_discarded()) fail("a text that should be JSON is not");
  return from_json(runtime, json, text.all_trusted());
}

}  // namespace llmd::jinja
