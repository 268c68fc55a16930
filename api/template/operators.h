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

/// A sum of strings, put together once and not term by term.
class StringSum {
 public:
  StringSum(Runtime& runtime, const Value& first)
      : runtime_(runtime), text_(first.string()), markup_(first.is_markup()) {}
  /// `value` is a string. Where only one side is markup, the other is escaped.
  void add(const Value& value);
  Value take();

 private:
  void append(const TemplateString& text);

  Runtime& runtime_;
  TemplateString text_;
  bool markup_;
};

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
