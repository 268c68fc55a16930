#include "api/template/methods.h"

#include <algorithm>
#include <unordered_map>

#include "api/template/formatting.h"
#include "api/template/string_functions.h"
#include "api/template/text.h"

namespace llmd::jinja {
namespace {

using Method = Value (*)(Runtime&, const Value&, const Args&);
using Methods = std::unordered_map<std::string, Method>;

const TemplateString& string_argument(const Args& args, size_t index, std::string_view name) {
  const Value& value = args.require(index, name);
  if (!value.is_string())
    fail("argument '" + std::string(name) + "' must be a str, not " + std::string(type_name(value)));
  return value.string();
}

/// The string at `index`, or null when it is absent or None.
const TemplateString* optional_string(const Args& args, size_t index, std::string_view name) {
  const Value* value = args.find(index, name);
  if (value == nullptr || value->is_none()) return nullptr;
  return &string_argument(args, index, name);
}

template <Side kSide>
Value strip_method(Runtime& rt, const Value& self, const Args& args) {
  return rt.string(strip(rt, self.string(), kSide, optional_string(args, 0, "chars")));
}

template <Case kCase>
Value case_method(Runtime& rt, const Value& self, const Args&) {
  return rt.string(change_case(rt, self.string(), kCase));
}

template <bool kFromRight>
Value split_method(Runtime& rt, const Value& self, const Args& args) {
  return split(rt, self.string(), optional_string(args, 0, "sep"), args.integer(1, "maxsplit", -1), kFromRight);
}

bool has_affix(const std::string& text, const std::string& affix, bool at_end) {
  if (affix.size() > text.size()) return false;
  return text.compare(at_end ? text.size() - affix.size() : 0, affix.size(), affix) == 0;
}

/// startswith, endswith: of one string, or any of a tuple.
template <bool kAtEnd>
Value affix_method(Runtime& rt, const Value& self, const Args& args) {
  const Value& wanted = args.require(0, "prefix");
  if (!wanted.is(Kind::kTuple)) {
    return Value::boolean(has_affix(self.text(), string_argument(args, 0, "prefix").text(), kAtEnd));
  }
  for (const Value& item : wanted.list().items) {
    rt.step();
    if (item.is_string() && has_affix(self.text(), item.text(), kAtEnd)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

template <bool kAtEnd>
Value remove_affix_method(Runtime& rt, const Value& self, const Args& args) {
  const TemplateString& affix = string_argument(args, 0, "prefix");
  if (!has_affix(self.text(), affix.text(), kAtEnd)) return self;
  const size_t rest = self.string().size() - affix.size();
  return rt.string(self.string().substr(kAtEnd ? 0 : affix.size(), rest));
}

/// find, rfind, index: in characters.
template <bool kFromRight, bool kMust>
Value find_method(Runtime& rt, const Value& self, const Args& args) {
  const std::string& wanted = string_argument(args, 0, "sub").text();
  rt.step_bytes(self.string().size());
  const size_t at = kFromRight ? self.text().rfind(wanted) : self.text().find(wanted);
  if (at == std::string::npos && kMust) fail("index(): the text is not there");
  if (at == std::string::npos) return Value::integer(-1);
  return Value::integer(static_cast<int64_t>(utf8_count(std::string_view(self.text()).substr(0, at))));
}

Value count_method(Runtime& rt, const Value& self, const Args& args) {
  const std::string& wanted = string_argument(args, 0, "sub").text();
  rt.step_bytes(self.string().size());
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(utf8_count(self.text())) + 1);
  int64_t count = 0;
  for (size_t pos = 0; (pos = self.text().find(wanted, pos)) != std::string::npos; pos += wanted.size()) ++count;
  return Value::integer(count);
}

/// True when there are characters and all of them satisfy the test.
template <bool (*kTest)(char32_t)>
Value all_method(Runtime& rt, const Value& self, const Args&) {
  rt.step_bytes(self.string().size());
  size_t length = 0;
  for (size_t pos = 0; pos < self.string().size(); pos += length) {
    if (!kTest(utf8_decode(self.text(), pos, &length))) return Value::boolean(false);
  }
  return Value::boolean(!self.string().empty());
}

bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}
bool is_alpha(char32_t c) {
  return c > 0x7F ? to_upper(c) != to_lower(c) : to_lower(c) >= 'a' && to_lower(c) <= 'z';
}
bool is_alnum(char32_t c) {
  return is_digit(c) || is_alpha(c);
}

/// isupper, islower: some letter has case, and none the other.
template <bool kUpper>
Value is_case_method(Runtime& rt, const Value& self, const Args&) {
  rt.step_bytes(self.string().size());
  bool found = false;
  size_t length = 0;
  for (size_t pos = 0; pos < self.string().size(); pos += length) {
    const char32_t c = utf8_decode(self.text(), pos, &length);
    if (to_upper(c) == to_lower(c)) continue;
    if ((kUpper ? to_upper(c) : to_lower(c)) != c) return Value::boolean(false);
    found = true;
  }
  return Value::boolean(found);
}

Value replace_method(Runtime& rt, const Value& self, const Args& args) {
  return rt.string(replace(rt, self.string(), string_argument(args, 0, "old").text(), string_argument(args, 1, "new"),
                           args.integer(2, "count", -1)));
}

const Methods& string_methods() {
  static const Methods methods = {
      {"strip", strip_method<Side::kBoth>},
      {"lstrip", strip_method<Side::kLeft>},
      {"rstrip", strip_method<Side::kRight>},
      {"upper", case_method<Case::kUpper>},
      {"lower", case_method<Case::kLower>},
      {"capitalize", case_method<Case::kCapitalize>},
      {"title", case_method<Case::kTitle>},
      {"split", split_method<false>},
      {"rsplit", split_method<true>},
      {"splitlines", [](Runtime& rt, const Value& self,
                        const Args& args) { return split_lines(rt, self.string(), args.flag(0, "keepends", false)); }},
      {"startswith", affix_method<false>},
      {"endswith", affix_method<true>},
      {"removeprefix", remove_affix_method<false>},
      {"removesuffix", remove_affix_method<true>},
      {"find", find_method<false, false>},
      {"rfind", find_method<true, false>},
      {"index", find_method<false, true>},
      {"count", count_method},
      {"replace", replace_method},
      {"format", [](Runtime& rt, const Value& self, const Args& args) { return format(rt, self.string(), args); }},
      {"join",
       [](Runtime& rt, const Value& self, const Args& args) {
         const List& items = iterate(rt, args.require(0, "iterable"));
         for (const Value& item : items.items) {
           if (!item.is_string()) fail("join() of a " + std::string(type_name(item)));
         }
         return rt.string(join(rt, items, self.string()));
       }},
      {"isdigit", all_method<is_digit>},
      {"isalpha", all_method<is_alpha>},
      {"isalnum", all_method<is_alnum>},
      {"isspace", all_method<is_space>},
      {"isupper", is_case_method<true>},
      {"islower", is_case_method<false>},
  };
  return methods;
}

/// The place of a Python index among the items; fails outside.
size_t list_index(const List& list, int64_t index) {
  const auto count = static_cast<int64_t>(list.items.size());
  if (index < -count || index >= count) fail("list index out of range");
  return static_cast<size_t>(index < 0 ? index + count : index);
}

Value pop_item(Runtime& rt, const Value& self, const Args& args) {
  List& list = self.list();
  const size_t at = list_index(list, args.integer(0, "index", -1));
  rt.step(list.items.size() - at);
  Value item = list.items[at];
  list.items.erase(list.items.begin() + static_cast<std::ptrdiff_t>(at));
  return item;
}

Value insert_item(Runtime& rt, const Value& self, const Args& args) {
  List& list = self.list();
  const auto count = static_cast<int64_t>(list.items.size());
  const int64_t index = args.integer(0, "index", 0);
  const int64_t at = std::clamp<int64_t>(index < 0 && index >= -count ? index + count : index, 0, count);
  rt.step(1 + static_cast<uint64_t>(count - at));
  rt.append(&list, args.require(1, "object"));
  std::rotate(list.items.begin() + at, list.items.end() - 1, list.items.end());
  return Value::none();
}

Value extend_list(Runtime& rt, const Value& self, const Args& args) {
  const List& more = iterate(rt, args.require(0, "iterable"));
  const size_t count = more.items.size();  // of now: a list may extend itself
  for (size_t i = 0; i < count; ++i) {
    Value item = more.items[i];
    rt.append(&self.list(), std::move(item));
  }
  return Value::none();
}

Value index_of(Runtime& rt, const Value& self, const Args& args) {
  const auto& items = self.list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(rt, items[i], args.require(0, "value"))) return Value::integer(static_cast<int64_t>(i));
  }
  fail("index(): the value is not in the list");
}

Value count_of(Runtime& rt, const Value& self, const Args& args) {
  int64_t count = 0;
  const auto& items = self.list().items;
  for (size_t i = 0; i < items.size(); ++i) count += equal(rt, items[i], args.require(0, "value")) ? 1 : 0;
  return Value::integer(count);
}

const Methods& tuple_methods() {
  static const Methods methods = {{"index", index_of}, {"count", count_of}};
  return methods;
}

const Methods& list_methods() {
  static const Methods methods = {
      {"append",
       [](Runtime& rt, const Value& self, const Args& args) {
         rt.append(&self.list(), args.require(0, "object"));
         return Value::none();
       }},
      {"pop", pop_item},
      {"insert", insert_item},
      {"extend", extend_list},
      {"index", index_of},
      {"count", count_of},
  };
  return methods;
}

Value dict_get(Runtime&, const Value& self, const Args& args) {
  const Value* value = self.dict().find(args.require(0, "key"));
  if (value != nullptr) return *value;
  const Value* otherwise = args.find(1, "default");
  return otherwise == nullptr ? Value::none() : *otherwise;
}

Value dict_items(Runtime& rt, const Value& self, const Args&) {
  const Value result = rt.list({});
  for (const auto& [key, value] : self.dict().entries) rt.append(&result.list(), rt.tuple({key, value}));
  return result;
}

template <bool kKeys>
Value dict_column(Runtime& rt, const Value& self, const Args&) {
  const Value result = rt.list({});
  for (const auto& [key, value] : self.dict().entries) rt.append(&result.list(), kKeys ? key : value);
  return result;
}

Value dict_update(Runtime& rt, const Value& self, const Args& args) {
  if (!args.positional.empty()) {
    if (!args.positional[0].is_dict()) fail("update() needs a dict");
    const auto entries = args.positional[0].dict().entries;  // a copy: a dict may update itself
    for (const auto& [key, value] : entries) rt.set(&self.dict(), key, value);
  }
  for (const auto& [key, value] : args.named) rt.set(&self.dict(), rt.string(key, true), value);
  return Value::none();
}

Value dict_pop(Runtime& rt, const Value& self, const Args& args) {
  const Value& key = args.require(0, "key");
  const Value* found = self.dict().find(key);
  if (found == nullptr) return args.require(1, "default");
  const Value value = *found;
  rt.step(self.dict().entries.size());
  self.dict().erase(key);
  return value;
}

Value dict_setdefault(Runtime& rt, const Value& self, const Args& args) {
  const Value& key = args.require(0, "key");
  if (const Value* found = self.dict().find(key)) return *found;
  const Value* otherwise = args.find(1, "default");
  const Value value = otherwise == nullptr ? Value::none() : *otherwise;
  rt.set(&self.dict(), key, value);
  return value;
}

const Methods& dict_methods() {
  static const Methods methods = {
      {"get", dict_get},       {"items", dict_items}, {"keys", dict_column<true>},     {"values", dict_column<false>},
      {"update", dict_update}, {"pop", dict_pop},     {"setdefault", dict_setdefault},
  };
  return methods;
}

const Methods& loop_methods() {
  static const Methods methods = {
      {"cycle",
       [](Runtime&, const Value& self, const Args& args) {
         if (args.positional.empty()) fail("cycle() needs arguments");
         return args.positional[self.loop().index % args.positional.size()];
       }},
  };
  return methods;
}

const Methods& methods_of(Kind kind) {
  static const Methods none;
  switch (kind) {
    case Kind::kString:
      return string_methods();
    case Kind::kList:
      return list_methods();
    case Kind::kTuple:
      return tuple_methods();
    case Kind::kDict:
      return dict_methods();
    case Kind::kLoop:
      return loop_methods();
    default:
      return none;
  }
}

}  // namespace

bool has_method(const Value& object, const std::string& name) {
  return methods_of(object.kind()).count(name) != 0;
}

Value call_method(Runtime& runtime, const Value& object, const std::string& name, const Args& args) {
  const Methods& methods = methods_of(object.kind());
  const auto found = methods.find(name);
  if (found == methods.end()) fail("a " + std::string(type_name(object)) + " has no method '" + name + "'");
  runtime.step();
  return found->second(runtime, object, args);
}

}  // namespace llmd::jinja
