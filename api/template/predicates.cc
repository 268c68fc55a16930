// The tests of filters.h: `value is name(...)`.
#include "api/template/filters.h"
#include "api/template/operators.h"
#include "api/template/text.h"

namespace llmd::jinja {
namespace {

using Test = bool (*)(Runtime&, const Value&, const Args&);
using Tests = std::unordered_map<std::string, Test>;

template <Kind kKind>
bool is_kind(Runtime&, const Value& value, const Args&) {
  return value.is(kKind);
}

template <bool kTruth>
bool is_truth(Runtime&, const Value& value, const Args&) {
  return value.is(Kind::kBool) && value.as_bool() == kTruth;
}

const char* operator_of(const std::string& name) {
  static const std::unordered_map<std::string, const char*> operators = {
      {"eq", "=="},      {"equalto", "=="}, {"==", "=="}, {"ne", "!="}, {"!=", "!="}, {"lt", "<"},
      {"lessthan", "<"}, {"<", "<"},        {"le", "<="}, {"<=", "<="}, {"gt", ">"},  {"greaterthan", ">"},
      {">", ">"},        {"ge", ">="},      {">=", ">="}, {"in", "in"},
  };
  const auto found = operators.find(name);
  return found == operators.end() ? nullptr : found->second;
}

int64_t integer_of(const Value& value) {
  if (!value.is_integral()) fail("an integer is needed, not a " + std::string(type_name(value)));
  return value.as_int();
}

bool is_divisible(Runtime& rt, const Value& value, const Args& args) {
  return !truthy(
      arithmetic(rt, "%", Value::integer(integer_of(value)), Value::integer(integer_of(args.require(0, "num")))));
}

bool is_iterable(Runtime&, const Value& value, const Args&) {
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is_dict() || value.is(Kind::kLoop);
}

bool is_sequence(Runtime&, const Value& value, const Args&) {
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is_dict();
}

bool is_same(Runtime& rt, const Value& value, const Args& args) {
  const Value& other = args.require(0, "other");
  if (value.kind() != other.kind()) return false;
  const bool object = value.kind() >= Kind::kList;
  return object ? value.identity() == other.identity() : equal(rt, value, other);
}

/// lower, upper: as str.islower and str.isupper.
template <bool kUpper>
bool is_case(Runtime& rt, const Value& value, const Args&) {
  if (!value.is_string()) return false;
  rt.step_bytes(value.string().size());
  bool found = false;
  size_t length = 0;
  for (size_t pos = 0; pos < value.string().size(); pos += length) {
    const char32_t c = utf8_decode(value.text(), pos, &length);
    if (to_upper(c) == to_lower(c)) continue;
    if ((kUpper ? to_upper(c) : to_lower(c)) != c) return false;
    found = true;
  }
  return found;
}

const Tests& tests() {
  static const Tests table = {
      {"defined", [](Runtime&, const Value& value, const Args&) { return !value.is_undefined(); }},
      {"undefined", is_kind<Kind::kUndefined>},
      {"none", is_kind<Kind::kNone>},
      {"string", is_kind<Kind::kString>},
      {"boolean", is_kind<Kind::kBool>},
      {"integer", is_kind<Kind::kInt>},
      {"float", is_kind<Kind::kFloat>},
      {"number", [](Runtime&, const Value& value, const Args&) { return value.is_number(); }},
      {"mapping", is_kind<Kind::kDict>},
      {"iterable", is_iterable},
      {"sequence", is_sequence},
      {"callable",  // Jinja's undefined values have a call operator, if only to fail
       [](Runtime&, const Value& value, const Args&) {
         return value.kind() == Kind::kFunction || value.is_undefined();
       }},
      {"true", is_truth<true>},
      {"false", is_truth<false>},
      {"odd", [](Runtime&, const Value& value, const Args&) { return integer_of(value) % 2 != 0; }},
      {"even", [](Runtime&, const Value& value, const Args&) { return integer_of(value) % 2 == 0; }},
      {"divisibleby", is_divisible},
      {"sameas", is_same},
      {"lower", is_case<false>},
      {"upper", is_case<true>},
      {"filter",
       [](Runtime&, const Value& value, const Args&) { return value.is_string() && has_filter(value.text()); }},
      {"test", [](Runtime&, const Value& value, const Args&) { return value.is_string() && has_test(value.text()); }},
  };
  return table;
}

}  // namespace

bool has_test(const std::string& name) {
  return operator_of(name) != nullptr || tests().count(name) != 0;
}

bool apply_test(Runtime& runtime, const std::string& name, const Value& input, const Args& args) {
  runtime.step();
  if (const char* op = operator_of(name)) return compare_with(runtime, op, input, args.require(0, "other"));
  const auto found = tests().find(name);
  if (found == tests().end()) fail("there is no test '" + name + "'");
  return found->second(runtime, input, args);
}

}  // namespace llmd::jinja
