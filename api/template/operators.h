// Operators: arithmetic, membership, subscripts, slices and attributes, as Python defines them.
//
// Free functions over values; results keep the provenance of their operands. They fail (Failure) with a sentence for
// types that do not go together, for division by zero, and where an integer no longer fits 64 bits. One thread per
// Runtime.
#pragma once

#include <string>
#include <string_view>

#include "api/template/runtime.h"

namespace llmd::jinja {

Value add(Runtime& runtime, const Value& a, const Value& b);
/// - * / // % **
Value arithmetic(Runtime& runtime, std::string_view op, const Value& a, const Value& b);
Value negate(const Value& value);
/// item in container
bool contains(Runtime& runtime, const Value& container, const Value& item);
/// == != < <= > >= in "not in"
bool compare_with(Runtime& runtime, std::string_view op, const Value& a, const Value& b);

/// object.name without methods: a dict's key, a namespace's or the loop's attribute; undefined when there is none.
/// `name` outlives the render.
Value attribute(Runtime& runtime, const Value& object, const std::string& name);
/// object[key]: undefined when there is none.
Value subscript(Runtime& runtime, const Value& object, const Value& key);
/// object[start:stop:step], undefined or None for an absent bound.
Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

}  // namespace llmd::jinja
