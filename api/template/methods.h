// Methods: what str, list, dict and loop objects can be asked with a dot and parentheses.
//
// call_method fails (Failure) on a method's wrong arguments. Lists and dicts change in place, as in Python. One thread
// per Runtime.
#pragma once

#include <string>

#include "api/template/runtime.h"

namespace llmd::jinja {

/// Whether `object.name` is a method (which hides a dict's key of that name, as in Jinja).
bool has_method(const Value& object, const std::string& name);
Value call_method(Runtime& runtime, const Value& object, const std::string& name, const Args& args);

}  // namespace llmd::jinja
