// Formatting: str.format and the % operator of strings, as far as templates use them.
//
// The format's text and every argument keep their trust. format() knows {}, {0}, {name}, !r and !s, and refuses a
// format specification; % knows s, r, d, i, x, X, f, F, e, g, % with flags, width and precision. Both fail (Failure) on
// anything else, or when arguments are missing. One thread per Runtime.
#pragma once

#include "api/template/runtime.h"

namespace llmd::jinja {

Value format(Runtime& runtime, const TemplateString& pattern, const Args& args);
Value percent_format(Runtime& runtime, const TemplateString& pattern, const Value& arguments);

}  // namespace llmd::jinja
