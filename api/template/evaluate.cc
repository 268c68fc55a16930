// The expressions of the interpreter.
#include "api/template/filters.h"
#include "api/template/interpreter.h"
#include "api/template/methods.h"
#include "api/template/operators.h"
#include "api/template/printing.h"

namespace llmd::jinja {

Value Interpreter::evaluate(const Expression& e) {
  DepthGuard guard(rt_);
  rt_.step();
  line_ = e.line;
  switch (e.kind) {
    case ExpressionKind::kLiteral:
      return e.literal;
    case ExpressionKind::kName:
      return evaluate_name(e);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
    case ExpressionKind::kDict:
      return evaluate_items(e);
    case ExpressionKind::kAttribute:
      return evaluate_attribute(e);
    case ExpressionKind::kSubscript: {
      const Value object = evaluate(*e.children[0]);
      return subscript(rt_, object, evaluate(*e.children[1]));
    }
    case ExpressionKind::kSlice:
      return evaluate_slice(e);
    case ExpressionKind::kCall:
      return evaluate_call(e);
    case ExpressionKind::kFilter:
      return evaluate_filter(e);
    case ExpressionKind::kTest: {
      const Value input = evaluate(*e.children[0]);
      return Value::boolean(apply_test(rt_, e.name, input, evaluate_arguments(e)));
    }
    case ExpressionKind::kNot:
      return Value::boolean(!truthy(evaluate(*e.children[0])));
    case ExpressionKind::kNegate:
      return negate(evaluate(*e.children[0]));
    case ExpressionKind::kPositive:
      return arithmetic(rt_, "*", evaluate(*e.children[0]), Value::integer(1));
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return evaluate_logic(e);
    case ExpressionKind::kAdd:
      return evaluate_add(e);
    case ExpressionKind::kConcat:
      return evaluate_concat(e);
    case ExpressionKind::kBinary: {
      const Value left = evaluate(*e.children[0]);
      return arithmetic(rt_, e.name, left, evaluate(*e.children[1]));
    }
    case ExpressionKind::kCompare:
      return evaluate_compare(e);
    case ExpressionKind::kConditional:
      return evaluate_conditional(e);
  }
  return {};
}

Value Interpreter::evaluate_name(const Expression& e) {
  if (const Value* value = find_variable(e.name)) return *value;
  if (!is_global(e.name)) return Value::undefined(&e.name);
  auto* function = rt_.make<Function>();
  function->name = e.name;
  return Value::object(Kind::kFunction, function);
}

Value Interpreter::evaluate_items(const Expression& e) {
  if (e.kind == ExpressionKind::kDict) {
    const Value dict = rt_.dict();
    for (size_t i = 0; i + 1 < e.children.size(); i += 2) {
      const Value key = evaluate(*e.children[i]);
      rt_.set(&dict.dict(), key, evaluate(*e.children[i + 1]));
    }
    return dict;
  }
  std::vector<Value> items;
  for (const auto& child : e.children) items.push_back(evaluate(*child));
  return e.kind == ExpressionKind::kList ? rt_.list(std::move(items)) : rt_.tuple(std::move(items));
}

Value Interpreter::evaluate_attribute(const Expression& e) {
  const Value object = evaluate(*e.children[0]);
  if (!has_method(object, e.name)) return attribute(rt_, object, e.name);
  auto* function = rt_.make<Function>();
  function->name = e.name;
  function->self = object;
  function->bound = true;
  return Value::object(Kind::kFunction, function);
}

Value Interpreter::evaluate_slice(const Expression& e) {
  const Value object = evaluate(*e.children[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (e.children[i + 1] != nullptr) bounds[i] = evaluate(*e.children[i + 1]);
  }
  return slice(rt_, object, bounds[0], bounds[1], bounds[2]);
}

Args Interpreter::evaluate_arguments(const Expression& e) {
  Args args;
  for (size_t i = 1; i < e.children.size(); ++i) args.positional.push_back(evaluate(*e.children[i]));
  for (const auto& [name, value] : e.arguments) args.named.emplace_back(name, evaluate(*value));
  return args;
}

Value Interpreter::evaluate_call(const Expression& e) {
  const Expression& callee = *e.children[0];
  if (callee.kind == ExpressionKind::kAttribute) {  // a method without making a bound function of it
    const Value object = evaluate(*callee.children[0]);
    if (has_method(object, callee.name)) {
      const Args args = evaluate_arguments(e);
      line_ = e.line;
      return call_method(rt_, object, callee.name, args);
    }
    const Value function = attribute(rt_, object, callee.name);
    return call(function, evaluate_arguments(e));
  }
  if (callee.kind == ExpressionKind::kName && is_global(callee.name) && find_variable(callee.name) == nullptr) {
    const Args args = evaluate_arguments(e);
    line_ = e.line;
    return call_global(rt_, callee.name, args);
  }
  const Value function = evaluate(callee);
  return call(function, evaluate_arguments(e));
}

Value Interpreter::call(const Value& callee, const Args& args) {
  if (!callee.is(Kind::kFunction)) {
    const std::string* name = callee.undefined_name();
    if (callee.is_undefined() && name != nullptr) fail("'" + *name + "' is undefined");
    fail("a " + std::string(type_name(callee)) + " cannot be called");
  }
  const Function& function = callee.function();
  if (function.macro != nullptr) return call_macro(function, args);
  return function.bound ? call_method(rt_, function.self, function.name, args) : call_global(rt_, function.name, args);
}

Value Interpreter::call_macro(const Function& function, const Args& args) {
  DepthGuard guard(rt_);
  const auto& parameters = function.macro->parameters;
  if (args.positional.size() > parameters.size()) {
    fail("macro '" + function.name + "' takes at most " + std::to_string(parameters.size()) + " arguments");
  }
  for (const auto& argument : args.named) {
    bool known = false;
    for (const auto& parameter : parameters) known = known || parameter.first == argument.first;
    if (!known) fail("macro '" + function.name + "' has no parameter '" + argument.first + "'");
  }
  Scope* const outer = std::exchange(scope_, open_scope(function.scope));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, otherwise] = parameters[i];
    const Value* given = args.find(i, name);
    Value value = Value::undefined(&name);
    if (given != nullptr) {
      value = *given;
    } else if (otherwise != nullptr) {
      value = evaluate(*otherwise);
    }
    set_variable(scope_, name, std::move(value));
  }
  Flow flow = Flow::kNormal;
  Value result = rt_.string(capture(function.macro->body, scope_, &flow));
  close_scope(scope_);
  scope_ = outer;
  return result;
}

Value Interpreter::evaluate_filter(const Expression& e) {
  const Value input = e.children[0] == nullptr ? *filter_input_ : evaluate(*e.children[0]);
  const Args args = evaluate_arguments(e);
  line_ = e.line;
  return apply_filter(rt_, e.name, input, args);
}

Value Interpreter::evaluate_add(const Expression& e) {
  Value sum = evaluate(*e.children[0]);
  for (size_t i = 1; i < e.children.size();) {
    if (!sum.is_string()) {
      const Value right = evaluate(*e.children[i++]);
      sum = add(rt_, sum, right);
      continue;
    }
    StringSum text(rt_, sum);
    for (; i < e.children.size(); ++i) {
      const Value right = evaluate(*e.children[i]);
      if (!right.is_string()) return add(rt_, text.take(), right);  // fails with the reason
      text.add(right);
    }
    sum = text.take();
  }
  return sum;
}

Value Interpreter::evaluate_concat(const Expression& e) {
  TemplateString text;
  for (const auto& child : e.children) append_text(rt_, evaluate(*child), &text);
  return rt_.string(std::move(text));
}

Value Interpreter::evaluate_logic(const Expression& e) {
  const bool stop_at = e.kind == ExpressionKind::kOr;
  Value value;
  for (const auto& child : e.children) {
    value = evaluate(*child);
    if (truthy(value) == stop_at) break;
  }
  return value;
}

Value Interpreter::evaluate_compare(const Expression& e) {
  Value left = evaluate(*e.children[0]);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    Value right = evaluate(*e.children[i + 1]);
    if (!compare_with(rt_, e.operators[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_conditional(const Expression& e) {
  if (truthy(evaluate(*e.children[1]))) return evaluate(*e.children[0]);
  return e.children[2] == nullptr ? Value() : evaluate(*e.children[2]);
}

}  // namespace llmd::jinja
