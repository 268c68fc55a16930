// Printing: values to text as Python does it (str, repr, json.dumps), and JSON to values.
//
// Bytes of strings keep their trust, through escapes too. Numbers, True, False and None have the trust of their value;
// the punctuation between the items of a container is the interpreter's own and untrusted. Depth and length are
// bounded by the Runtime; the functions fail (Failure) past them, or on what JSON cannot hold. One thread per Runtime.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "api/template/runtime.h"

namespace llmd::jinja {

/// str(value)
TemplateString to_text(Runtime& runtime, const Value& value);
void append_text(Runtime& runtime, const Value& value, TemplateString* out);
/// repr(value)
void append_repr(Runtime& runtime, const Value& value, TemplateString* out);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  int64_t indent = -1;  // < 0: all on one line
  std::string item_separator = ", ", key_separator = ": ";
};
/// json.dumps(value)
TemplateString to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

/// The value of parsed JSON; its strings and scalars get `trusted`.
Value from_json(Runtime& runtime, const nlohmann::ordered_json& json, bool trusted);
/// json.loads(text)
Value parse_json(Runtime& runtime, const TemplateString& text);

}  // namespace llmd::jinja
