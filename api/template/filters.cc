#include "api/template/filters.h"

#include <charconv>
#include <cmath>

#include "api/template/formatting.h"
#include "api/template/operators.h"
#include "api/template/printing.h"
#include "api/template/string_functions.h"

namespace llmd::jinja {
namespace {

constexpr int64_t kIndentMax = 1000;

template <Case kCase>
Value case_filter(Runtime& rt, const Value& input, const Args&) {
  return rt.string(change_case(rt, to_text(rt, input), kCase));
}

Value default_filter(Runtime& rt, const Value& input, const Args& args) {
  const bool absent = input.is_undefined() || (args.flag(1, "boolean", false) && !truthy(input));
  if (!absent) return input;
  const Value* otherwise = args.find(0, "default_value");
  return otherwise == nullptr ? rt.string(TemplateString()) : *otherwise;
}

Value trim_filter(Runtime& rt, const Value& input, const Args& args) {
  const Value* characters = args.find(0, "chars");
  if (characters == nullptr || characters->is_none()) {
    return rt.string(strip(rt, to_text(rt, input), Side::kBoth, nullptr));
  }
  const TemplateString set = to_text(rt, *characters);
  return rt.string(strip(rt, to_text(rt, input), Side::kBoth, &set));
}

Value string_filter(Runtime& rt, const Value& input, const Args&) {
  return input.is_string() ? input : rt.string(to_text(rt, input));
}

Value replace_filter(Runtime& rt, const Value& input, const Args& args) {
  const TemplateString from = to_text(rt, args.require(0, "old")), to = to_text(rt, args.require(1, "new"));
  return rt.string(replace(rt, to_text(rt, input), from.text(), to, args.integer(2, "count", -1)));
}

Value indent_filter(Runtime& rt, const Value& input, const Args& args) {
  TemplateString prefix;
  const Value* width = args.find(0, "width");
  if (width != nullptr && width->is_string()) {
    prefix = width->string();
  } else {
    const int64_t blanks = args.integer(0, "width", 4);
    if (blanks > kIndentMax) fail("an indent over " + std::to_string(kIndentMax));
    prefix.append(std::string(static_cast<size_t>(std::max<int64_t>(blanks, 0)), ' '), true);
  }
  return rt.string(indent(rt, to_text(rt, input), prefix, args.flag(1, "first", false), args.flag(2, "blank", false)));
}

/// The blanks around a number's text do not count.
std::string_view number_text(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n\f\v");
  if (begin == std::string::npos) return {};
  std::string_view view(text);
  view = view.substr(begin, text.find_last_not_of(" \t\r\n\f\v") - begin + 1);
  if (view.size() > 1 && view[0] == '+' && view[1] != '-') view.remove_prefix(1);
  return view;
}

template <typename T>
bool read_number(std::string_view text, T* number) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

Value truncate_to_int(double number, bool trusted, const Value& otherwise) {
  if (!(number > -9.2e18 && number < 9.2e18)) return otherwise;
  return Value::integer(static_cast<int64_t>(number), trusted);
}

Value int_filter(Runtime&, const Value& input, const Args& args) {
  const Value* given = args.find(0, "default");
  const Value otherwise = given == nullptr ? Value::integer(0) : *given;
  if (input.is_integral()) return Value::integer(input.as_int(), input.trusted());
  if (input.is(Kind::kFloat)) return truncate_to_int(input.as_double(), input.trusted(), otherwise);
  if (!input.is_string()) return otherwise;
  const std::string_view text = number_text(input.text());
  int64_t integer = 0;
  if (read_number(text, &integer)) return Value::integer(integer, input.trusted());
  double number = 0;
  return read_number(text, &number) ? truncate_to_int(number, input.trusted(), otherwise) : otherwise;
}

Value float_filter(Runtime&, const Value& input, const Args& args) {
  const Value* given = args.find(0, "default");
  const Value otherwise = given == nullptr ? Value::number(0) : *given;
  if (input.is_number()) return Value::number(input.as_double(), input.trusted());
  double number = 0;
  if (!input.is_string() || !read_number(number_text(input.text()), &number)) return otherwise;
  return Value::number(number, input.trusted());
}

Value abs_filter(Runtime&, const Value& input, const Args&) {
  if (!input.is_number()) fail("abs of a " + std::string(type_name(input)));
  return input.as_double() < 0 ? negate(input) : input;
}

Value round_filter(Runtime&, const Value& input, const Args& args) {
  if (!input.is_number()) fail("round of a " + std::string(type_name(input)));
  const int64_t precision = args.integer(0, "precision", 0);
  if (precision < -300 || precision > 300) fail("a precision beyond 300");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_double() * scale;
  const Value* method = args.find(1, "method");
  double rounded = std::nearbyint(scaled);  // to even at a half, as Python
  if (method != nullptr && method->is_string() && method->text() == "ceil") rounded = std::ceil(scaled);
  if (method != nullptr && method->is_string() && method->text() == "floor") rounded = std::floor(scaled);
  return Value::number(std::isfinite(rounded) ? rounded / scale : input.as_double(), input.trusted());
}

Value format_filter(Runtime& rt, const Value& input, const Args& args) {
  if (!args.named.empty()) fail("the format filter takes no names");
  return percent_format(rt, to_text(rt, input), rt.tuple(args.positional));
}

Value tojson_filter(Runtime& rt, const Value& input, const Args& args) {
  JsonStyle style;
  style.ensure_ascii = args.flag(0, "ensure_ascii", false);
  style.indent = args.integer(1, "indent", -1);
  if (style.indent > kIndentMax) fail("an indent over " + std::to_string(kIndentMax));
  // Python's default separator has no blank before a newline.
  if (style.indent >= 0) style.item_separator = ",";
  const Value* separators = args.find(2, "separators");
  if (separators != nullptr && !separators->is_none()) {
    const bool pair = separators->is_sequence() && separators->list().items.size() == 2;
    if (!pair || !separators->list().items[0].is_string() || !separators->list().items[1].is_string()) {
      fail("separators must be two strings");
    }
    style.item_separator = separators->list().items[0].text();
    style.key_separator = separators->list().items[1].text();
  }
  style.sort_keys = args.flag(3, "sort_keys", false);
  return rt.string(to_json(rt, input, style));
}

Value from_json_filter(Runtime& rt, const Value& input, const Args&) {
  if (!input.is_string()) fail("from_json of a " + std::string(type_name(input)));
  return parse_json(rt, input.string());
}

Value escape_filter(Runtime& rt, const Value& input, const Args&) {
  return input.is_markup() ? input : rt.string(escape_html(rt, to_text(rt, input))).as_markup();
}

Value safe_filter(Runtime& rt, const Value& input, const Args& args) {
  return string_filter(rt, input, args).as_markup();
}

}  // namespace

const Filters& text_filters() {
  static const Filters filters = {
      {"upper", case_filter<Case::kUpper>},
      {"lower", case_filter<Case::kLower>},
      {"capitalize", case_filter<Case::kCapitalize>},
      {"title", case_filter<Case::kTitleWords>},
      {"default", default_filter},
      {"d", default_filter},
      {"trim", trim_filter},
      {"string", string_filter},
      {"replace", replace_filter},
      {"indent", indent_filter},
      {"int", int_filter},
      {"float", float_filter},
      {"abs", abs_filter},
      {"round", round_filter},
      {"format", format_filter},
      {"tojson", tojson_filter},
      {"from_json", from_json_filter},
      {"escape", escape_filter},
      {"e", escape_filter},
      {"safe", safe_filter},
  };
  return filters;
}

namespace {

Filter find_filter(const std::string& name) {
  for (const Filters* filters : {&text_filters(), &sequence_filters()}) {
    const auto found = filters->find(name);
    if (found != filters->end()) return found->second;
  }
  return nullptr;
}

}  // namespace

bool has_filter(const std::string& name) {
  return find_filter(name) != nullptr;
}

Value apply_filter(Runtime& runtime, const std::string& name, const Value& input, const Args& args) {
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail("there is no filter '" + name + "'");
  runtime.step();
  return filter(runtime, input, args);
}

}  // namespace llmd::jinja
