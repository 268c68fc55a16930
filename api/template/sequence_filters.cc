// The filters that work on lists and dicts.
#include <algorithm>

#include "api/template/filters.h"
#include "api/template/operators.h"
#include "api/template/printing.h"
#include "api/template/string_functions.h"
#include "api/template/text.h"

namespace llmd::jinja {
namespace {

/// value.a.b for the path "a.b", where a part of digits is an index; undefined stays undefined.
Value at_path(Runtime& rt, Value value, const Value& path) {
  if (!path.is_string()) return value.is_undefined() ? value : subscript(rt, value, path);
  const Value parts = split(rt, path.string(), &Value::literal(".").string(), -1, false);
  for (const Value& part : parts.list().items) {
    if (value.is_undefined()) break;
    const std::string& name = part.text();
    const bool digits = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos && name.size() < 10;
    value = subscript(rt, value, digits ? Value::integer(std::stoll(name)) : part);
  }
  return value;
}

/// What sort, unique, min and max compare: the item or its attribute, without case unless asked.
Value comparison_key(Runtime& rt, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = attribute == nullptr || attribute->is_none() ? item : at_path(rt, item, *attribute);
  if (!case_sensitive && key.is_string()) key = rt.string(change_case(rt, key.string(), Case::kLower));
  return key;
}

std::vector<std::pair<Value, Value>> keyed(Runtime& rt, const Value& input, const Value* attribute, bool sensitive) {
  const List& items = iterate(rt, input);
  rt.charge(items.items.size() * 2 * sizeof(Value));
  std::vector<std::pair<Value, Value>> result;
  for (const Value& item : items.items) result.emplace_back(comparison_key(rt, item, attribute, sensitive), item);
  return result;
}

void sort_keyed(Runtime& rt, std::vector<std::pair<Value, Value>>* items, bool reverse) {
  std::stable_sort(items->begin(), items->end(), [&](const auto& a, const auto& b) {
    return reverse ? compare(rt, b.first, a.first) < 0 : compare(rt, a.first, b.first) < 0;
  });
}

Value list_of_values(Runtime& rt, std::vector<std::pair<Value, Value>> items) {
  const Value result = rt.list({});
  for (auto& item : items) rt.append(&result.list(), std::move(item.second));
  return result;
}

Value sort_filter(Runtime& rt, const Value& input, const Args& args) {
  auto items = keyed(rt, input, args.find(2, "attribute"), args.flag(1, "case_sensitive", false));
  sort_keyed(rt, &items, args.flag(0, "reverse", false));
  return list_of_values(rt, std::move(items));
}

Value dictsort_filter(Runtime& rt, const Value& input, const Args& args) {
  if (!input.is_dict()) fail("dictsort of a " + std::string(type_name(input)));
  const Value* by = args.find(1, "by");
  const bool by_value = by != nullptr && by->is_string() && by->text() == "value";
  const bool sensitive = args.flag(0, "case_sensitive", false);
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, value] : input.dict().entries) {
    items.emplace_back(comparison_key(rt, by_value ? value : key, nullptr, sensitive), rt.tuple({key, value}));
  }
  sort_keyed(rt, &items, args.flag(2, "reverse", false));
  return list_of_values(rt, std::move(items));
}

Value unique_filter(Runtime& rt, const Value& input, const Args& args) {
  const auto items = keyed(rt, input, args.find(1, "attribute"), args.flag(0, "case_sensitive", false));
  const Value seen = rt.dict(), result = rt.list({});
  for (const auto& [key, item] : items) {
    if (seen.dict().find(key) != nullptr) continue;
    rt.set(&seen.dict(), key, Value::none());
    rt.append(&result.list(), item);
  }
  return result;
}

template <bool kMax>
Value extreme_filter(Runtime& rt, const Value& input, const Args& args) {
  const auto items = keyed(rt, input, args.find(1, "attribute"), args.flag(0, "case_sensitive", false));
  const std::pair<Value, Value>* best = nullptr;
  for (const auto& item : items) {
    if (best == nullptr ||
        (kMax ? compare(rt, item.first, best->first) > 0 : compare(rt, item.first, best->first) < 0)) {
      best = &item;
    }
  }
  return best == nullptr ? Value() : best->second;
}

Value sum_filter(Runtime& rt, const Value& input, const Args& args) {
  const Value* attribute = args.find(0, "attribute");
  const Value* start = args.find(1, "start");
  Value sum = start == nullptr ? Value::integer(0) : *start;
  for (const Value& item : iterate(rt, input).items) {
    sum = add(rt, sum, attribute == nullptr || attribute->is_none() ? item : at_path(rt, item, *attribute));
  }
  return sum;
}

Value length_filter(Runtime& rt, const Value& input, const Args&) {
  return Value::integer(length_of(rt, input));
}

Value join_filter(Runtime& rt, const Value& input, const Args& args) {
  const Value* separator = args.find(0, "d");
  const Value* attribute = args.find(1, "attribute");
  const TemplateString between = separator == nullptr ? TemplateString() : to_text(rt, *separator);
  const List* items = &iterate(rt, input);
  if (attribute != nullptr && !attribute->is_none()) {
    const Value mapped = rt.list({});
    for (const Value& item : items->items) rt.append(&mapped.list(), at_path(rt, item, *attribute));
    items = &mapped.list();
  }
  return rt.string(join(rt, *items, between));
}

Value items_filter(Runtime& rt, const Value& input, const Args&) {
  const Value result = rt.list({});
  if (input.is_undefined()) return result;
  if (!input.is_dict()) fail("items of a " + std::string(type_name(input)));
  for (const auto& [key, value] : input.dict().entries) rt.append(&result.list(), rt.tuple({key, value}));
  return result;
}

Value list_filter(Runtime& rt, const Value& input, const Args&) {
  const Value result = rt.list({});
  for (const Value& item : iterate(rt, input).items) rt.append(&result.list(), item);
  return result;
}

Value reverse_filter(Runtime& rt, const Value& input, const Args&) {
  return slice(rt, input.is_string() ? input : list_filter(rt, input, {}), Value(), Value(), Value::integer(-1));
}

Value first_filter(Runtime& rt, const Value& input, const Args&) {
  const auto& items = iterate(rt, input).items;
  return items.empty() ? Value() : items.front();
}

Value last_filter(Runtime& rt, const Value& input, const Args&) {
  const auto& items = iterate(rt, input).items;
  return items.empty() ? Value() : items.back();
}

Value attr_filter(Runtime& rt, const Value& input, const Args& args) {
  return subscript(rt, input, args.require(0, "name"));
}

/// The arguments from `first` on, and the names.
Args rest(const Args& args, size_t first) {
  Args result;
  for (size_t i = first; i < args.positional.size(); ++i) result.positional.push_back(args.positional[i]);
  result.named = args.named;
  return result;
}

Value map_filter(Runtime& rt, const Value& input, const Args& args) {
  const Value result = rt.list({});
  if (!truthy(input)) return result;  // None too, as in Jinja
  const List& items = iterate(rt, input);
  if (args.positional.empty()) {
    const Value& path = args.require(SIZE_MAX, "attribute");
    const Value* otherwise = args.find(SIZE_MAX, "default");
    for (const Value& item : items.items) {
      Value value = at_path(rt, item, path);
      if (value.is_undefined() && otherwise != nullptr) value = *otherwise;
      rt.append(&result.list(), std::move(value));
    }
    return result;
  }
  if (!args.positional[0].is_string()) fail("map needs the name of a filter");
  const std::string name = args.positional[0].text();
  const Args others = rest(args, 1);
  DepthGuard guard(rt);
  for (const Value& item : items.items) rt.append(&result.list(), apply_filter(rt, name, item, others));
  return result;
}

/// select, reject, selectattr, rejectattr: keeps items for which the test (or truth) of the item, or of its attribute,
/// is kKeep.
template <bool kKeep, bool kAttribute>
Value select_filter(Runtime& rt, const Value& input, const Args& args) {
  const Value result = rt.list({});
  if (!truthy(input)) return result;  // None too, as in Jinja
  const size_t test_at = kAttribute ? 1 : 0;
  const Value* path = kAttribute ? &args.require(0, "attribute") : nullptr;
  const bool tested = args.positional.size() > test_at;
  if (tested && !args.positional[test_at].is_string()) fail("select needs the name of a test");
  const std::string test = tested ? args.positional[test_at].text() : std::string();
  const Args others = rest(args, test_at + 1);
  for (const Value& item : iterate(rt, input).items) {
    const Value value = path == nullptr ? item : at_path(rt, item, *path);
    const bool holds = tested ? apply_test(rt, test, value, others) : truthy(value);
    if (holds == kKeep) rt.append(&result.list(), item);
  }
  return result;
}

}  // namespace

const Filters& sequence_filters() {
  static const Filters filters = {
      {"attr", attr_filter},
      {"count", length_filter},
      {"dictsort", dictsort_filter},
      {"first", first_filter},
      {"items", items_filter},
      {"join", join_filter},
      {"last", last_filter},
      {"length", length_filter},
      {"list", list_filter},
      {"map", map_filter},
      {"max", extreme_filter<true>},
      {"min", extreme_filter<false>},
      {"reject", select_filter<false, false>},
      {"rejectattr", select_filter<false, true>},
      {"reverse", reverse_filter},
      {"select", select_filter<true, false>},
      {"selectattr", select_filter<true, true>},
      {"sort", sort_filter},
      {"sum", sum_filter},
      {"unique", unique_filter},
  };
  return filters;
}

}  // namespace llmd::jinja
