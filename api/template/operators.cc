#include "api/template/operators.h"

#include <algorithm>
#include <cmath>

#include "api/template/formatting.h"
#include "api/template/printing.h"
#include "api/template/string_functions.h"
#include "api/template/text.h"

namespace llmd::jinja {
namespace {

[[noreturn]] void fail_operands(std::string_view op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) {
      const std::string* name = value->undefined_name();
      fail(name == nullptr ? "an undefined value is used" : "'" + *name + "' is undefined");
    }
  }
  fail("'" + std::string(op) + "' does not go with " + std::string(type_name(a)) + " and " + std::string(type_name(b)));
}

[[noreturn]] void fail_overflow() {
  fail("an integer does not fit 64 bits");
}

Value repeat(Runtime& runtime, const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (value.is_string()) {
    const TemplateString& text = value.string();
    if (text.empty() || count == 0) return runtime.string(TemplateString());
    runtime.check_length(count > SIZE_MAX / text.size() ? SIZE_MAX : count * text.size());
    TemplateString result;
    for (size_t i = 0; i < count; ++i) result.append(text);
    return runtime.string(std::move(result));
  }
  const auto& items = value.list().items;
  const Value result = value.is(Kind::kTuple) ? runtime.tuple({}) : runtime.list({});
  if (items.empty()) return result;
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < items.size(); ++k) runtime.append(&result.list(), items[k]);
  }
  return result;
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) fail("division by zero");
  if (b == -1) {
    if (a == INT64_MIN) fail_overflow();
    return -a;
  }
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (base == 1 || exponent == 0) return 1;
  if (base == 0) return 0;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (int64_t i = 0; i < exponent; ++i) {  // at most 63 rounds before it overflows
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  }
  return result;
}

Value integer_arithmetic(std::string_view op, int64_t a, int64_t b, bool trusted) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (op == "//") {
    result = floor_divide(a, b);
  } else if (op == "%") {
    // The remainder has the sign of the divisor.
    result = b == -1 ? 0 : a - floor_divide(a, b) * b;
  } else {
    result = power(a, b);
  }
  if (overflow) fail_overflow();
  return Value::integer(result, trusted);
}

Value float_arithmetic(std::string_view op, double a, double b, bool trusted) {
  if ((op == "/" || op == "//" || op == "%") && b == 0) fail("division by zero");
  double result = 0;
  if (op == "+") result = a + b;
  if (op == "-") result = a - b;
  if (op == "*") result = a * b;
  if (op == "/") result = a / b;
  if (op == "//") result = std::floor(a / b);
  if (op == "%") {
    result = std::fmod(a, b);
    if (result != 0 && (result < 0) != (b < 0)) result += b;
  }
  if (op == "**") result = std::pow(a, b);
  return Value::number(result, trusted);
}

Value number_arithmetic(std::string_view op, const Value& a, const Value& b) {
  const bool trusted = a.trusted() && b.trusted();
  const bool integral = a.is_integral() && b.is_integral() && op != "/" && !(op == "**" && b.as_int() < 0);
  return integral ? integer_arithmetic(op, a.as_int(), b.as_int(), trusted)
                  : float_arithmetic(op, a.as_double(), b.as_double(), trusted);
}

Value loop_attribute(const LoopState& loop, const std::string& name) {
  const auto integer = [](size_t value) { return Value::integer(static_cast<int64_t>(value)); };
  if (name == "index") return integer(loop.index + 1);
  if (name == "index0") return integer(loop.index);
  if (name == "revindex") return integer(loop.length - loop.index);
  if (name == "revindex0") return integer(loop.length - loop.index - 1);
  if (name == "first") return Value::boolean(loop.index == 0);
  if (name == "last") return Value::boolean(loop.index + 1 >= loop.length);
  if (name == "length") return integer(loop.length);
  if (name == "depth") return Value::integer(loop.depth);
  if (name == "depth0") return Value::integer(loop.depth - 1);
  if (loop.items != nullptr) {
    const auto& items = loop.items->items;
    if (name == "previtem" && loop.index > 0 && loop.index - 1 < items.size()) return items[loop.index - 1];
    if (name == "nextitem" && loop.index + 1 < items.size()) return items[loop.index + 1];
  }
  return Value::undefined(&name);
}

/// The place of a Python index in `size` items, or `size` when outside.
size_t place(int64_t index, size_t size) {
  const auto count = static_cast<int64_t>(size);
  if (index < 0) index = index < -count ? count : index + count;
  return index < count ? static_cast<size_t>(index) : size;
}

Value character_at(Runtime& runtime, const TemplateString& text, int64_t index) {
  runtime.step_bytes(text.size());
  const size_t count = utf8_count(text.text());
  size_t at = place(index, count);
  if (at == count) return {};
  size_t pos = 0, length = 0;
  for (utf8_decode(text.text(), pos, &length); at > 0; --at) {
    pos += length;
    utf8_decode(text.text(), pos, &length);
  }
  return runtime.string(text.substr(pos, length));
}

struct Range {
  int64_t start, stop, step;
  size_t count;
};

/// Python's slice.indices().
Range resolve(const Value& start, const Value& stop, const Value& step, size_t size) {
  const auto count = static_cast<int64_t>(size);
  const auto bound = [](const Value& value, int64_t otherwise) {
    if (value.is_undefined() || value.is_none()) return otherwise;
    if (!value.is_integral()) fail("the bounds of a slice must be integers");
    return value.as_int();
  };
  Range range{0, 0, bound(step, 1), 0};
  if (range.step == 0) fail("the step of a slice must not be zero");
  const bool forward = range.step > 0;
  const int64_t least = forward ? 0 : -1, most = forward ? count : count - 1;
  const auto clamp = [&](const Value& value, int64_t otherwise) {
    if (value.is_undefined() || value.is_none()) return otherwise;
    int64_t index = bound(value, 0);
    if (index < 0) index = index < -count ? least : index + count;
    return std::clamp(index, least, most);
  };
  range.start = clamp(start, forward ? least : most);
  range.stop = clamp(stop, forward ? most : least);
  const int64_t distance = forward ? range.stop - range.start : range.start - range.stop;
  if (distance <= 0) return range;
  const uint64_t stride = forward ? static_cast<uint64_t>(range.step) : uint64_t{0} - static_cast<uint64_t>(range.step);
  range.count = static_cast<size_t>((static_cast<uint64_t>(distance) - 1) / stride + 1);
  return range;
}

Value slice_string(Runtime& runtime, const TemplateString& text, const Value& start, const Value& stop,
                   const Value& step) {
  runtime.step(1 + text.size() / 8);
  std::vector<size_t> starts;  // of each character, and the end
  size_t charged = 0;
  if (!is_ascii(text.text())) {
    charged = utf8_count(text.text()) * sizeof(size_t);
    runtime.charge(charged);
    size_t length = 0;
    for (size_t pos = 0; pos < text.size(); pos += length) {
      utf8_decode(text.text(), pos, &length);
      starts.push_back(pos);
    }
    starts.push_back(text.size());
  }
  const auto offset = [&](size_t index) { return starts.empty() ? index : starts[index]; };
  const size_t characters = starts.empty() ? text.size() : starts.size() - 1;
  const Range range = resolve(start, stop, step, characters);
  TemplateString result;
  int64_t index = range.start;
  if (range.step == 1 && range.count > 0) {
    const size_t begin = offset(static_cast<size_t>(range.start));
    result = text.substr(begin, offset(static_cast<size_t>(range.stop)) - begin);
  }
  for (size_t i = 0; i < range.count && range.step != 1; ++i) {
    const size_t begin = offset(static_cast<size_t>(index));
    result.append(text, begin, offset(static_cast<size_t>(index) + 1) - begin);
    if (i + 1 < range.count) index += range.step;
  }
  runtime.release(charged);
  return runtime.string(std::move(result));
}

}  // namespace

void StringSum::add(const Value& value) {
  if (value.is_markup() == markup_) {
    append(value.string());
  } else if (markup_) {
    append(escape_html(runtime_, value.string()));
  } else {
    text_ = escape_html(runtime_, text_);
    markup_ = true;
    append(value.string());
  }
}

void StringSum::append(const TemplateString& text) {
  runtime_.check_length(text_.size() + text.size());
  text_.append(text);
}

Value StringSum::take() {
  const Value sum = runtime_.string(std::move(text_));
  return markup_ ? sum.as_markup() : sum;
}

Value add(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) {
    StringSum sum(runtime, a);
    sum.add(b);
    return sum.take();
  }
  if (a.is_number() && b.is_number()) return number_arithmetic("+", a, b);
  if (a.is_sequence() && a.kind() == b.kind()) {
    const Value result = a.is(Kind::kTuple) ? runtime.tuple({}) : runtime.list({});
    for (const Value* part : {&a, &b}) {
      for (const Value& item : part->list().items) runtime.append(&result.list(), item);
    }
    return result;
  }
  fail_operands("+", a, b);
}

Value arithmetic(Runtime& runtime, std::string_view op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return number_arithmetic(op, a, b);
  if (op == "*") {
    if ((a.is_string() || a.is_sequence()) && b.is_integral()) return repeat(runtime, a, b.as_int());
    if ((b.is_string() || b.is_sequence()) && a.is_integral()) return repeat(runtime, b, a.as_int());
  }
  if (op == "%" && a.is_string()) return percent_format(runtime, a.string(), b);
  fail_operands(op, a, b);
}

Value negate(const Value& value) {
  if (value.is(Kind::kFloat)) return Value::number(-value.as_double(), value.trusted());
  if (!value.is_integral()) fail_operands("-", Value::integer(0), value);
  if (value.as_int() == INT64_MIN) fail_overflow();
  return Value::integer(-value.as_int(), value.trusted());
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  runtime.step();
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.is_string()) fail_operands("in", item, container);
      runtime.step_bytes(container.string().size());
      return container.text().find(item.text()) != std::string::npos;
    case Kind::kDict:
      return container.dict().find(item) != nullptr;
    case Kind::kList:
    case Kind::kTuple: {
      const auto& items = container.list().items;
      for (size_t i = 0; i < items.size(); ++i) {
        if (equal(runtime, items[i], item)) return true;
      }
      return false;
    }
    default:
      fail_operands("in", item, container);
  }
}

bool compare_with(Runtime& runtime, std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return equal(runtime, a, b);
  if (op == "!=") return !equal(runtime, a, b);
  if (op == "in") return contains(runtime, b, a);
  if (op == "not in") return !contains(runtime, b, a);
  if (a.is_undefined() || b.is_undefined()) fail_operands(op, a, b);
  const int order = compare(runtime, a, b);
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

Value attribute(Runtime& runtime, const Value& object, const std::string& name) {
  runtime.step();
  switch (object.kind()) {
    case Kind::kUndefined:
      fail_operands(".", object, object);
    case Kind::kDict:
    case Kind::kNamespace: {
      const Value* value = object.dict().find(name);
      return value == nullptr ? Value::undefined(&name) : *value;
    }
    case Kind::kLoop:
      return loop_attribute(object.loop(), name);
    default:
      return Value::undefined(&name);
  }
}

Value subscript(Runtime& runtime, const Value& object, const Value& key) {
  runtime.step();
  switch (object.kind()) {
    case Kind::kUndefined:
      fail_operands("[]", object, object);
    case Kind::kDict: {
      const Value* value = key.is_undefined() ? nullptr : object.dict().find(key);
      return value == nullptr ? Value() : *value;
    }
    case Kind::kList:
    case Kind::kTuple: {
      const auto& items = object.list().items;
      if (!key.is_integral()) return {};
      const size_t at = place(key.as_int(), items.size());
      return at == items.size() ? Value() : items[at];
    }
    case Kind::kString:
      return key.is_integral() ? character_at(runtime, object.string(), key.as_int()) : Value();
    case Kind::kNamespace:
      if (key.is_string()) {
        const Value* value = object.dict().find(key);
        if (value != nullptr) return *value;
      }
      return {};
    default:
      return {};
  }
}

Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_string()) return slice_string(runtime, object.string(), start, stop, step);
  if (!object.is_sequence()) fail_operands("[:]", object, object);
  const auto& items = object.list().items;
  const Range range = resolve(start, stop, step, items.size());
  const Value result = object.is(Kind::kTuple) ? runtime.tuple({}) : runtime.list({});
  int64_t index = range.start;
  for (size_t i = 0; i < range.count; ++i) {
    runtime.append(&result.list(), items[static_cast<size_t>(index)]);
    if (i + 1 < range.count) index += range.step;
  }
  return result;
}

}  // namespace llmd::jinja
