// Filters and tests: `value | name(...)` and `value is name(...)`.
//
// apply_filter and apply_test fail (Failure) on an unknown name and on wrong arguments. Filters that Python makes lazy
// (map, select, items, ...) give lists. Provenance follows the bytes; a count is a new, trusted number. One thread per
// Runtime.
#pragma once

#include <string>
#include <unordered_map>

#include "api/template/runtime.h"

namespace llmd::jinja {

using Filter = Value (*)(Runtime&, const Value&, const Args&);
using Filters = std::unordered_map<std::string, Filter>;

/// The filters of filters.cc and of sequence_filters.cc.
const Filters& text_filters();
const Filters& sequence_filters();

bool has_filter(const std::string& name);
Value apply_filter(Runtime& runtime, const std::string& name, const Value& input, const Args& args);

bool has_test(const std::string& name);
bool apply_test(Runtime& runtime, const std::string& name, const Value& input, const Args& args);

}  // namespace llmd::jinja
