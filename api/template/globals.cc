// The global functions of interpreter.h.
#include <array>
#include <unordered_map>

#include "api/template/interpreter.h"
#include "api/template/printing.h"

namespace llmd::jinja {
namespace {

constexpr size_t kTimeFormatMax = 256;

Value make_dict(Runtime& rt, const Args& args, Kind kind) {
  auto* dict = rt.make<Dict>();
  for (const Value& value : args.positional) {
    if (!value.is_dict()) fail("a dict is made of dicts and names");
    for (const auto& [key, item] : value.dict().entries) rt.set(dict, key, item);
  }
  for (const auto& [name, value] : args.named) rt.set(dict, rt.string(name, true), value);
  return Value::object(kind, dict);
}

Value make_namespace(Runtime& rt, const Args& args) {
  return make_dict(rt, args, Kind::kNamespace);
}
Value make_plain_dict(Runtime& rt, const Args& args) {
  return make_dict(rt, args, Kind::kDict);
}

Value range(Runtime& rt, const Args& args) {
  if (args.positional.empty() || args.positional.size() > 3) fail("range() takes one to three integers");
  std::array<int64_t, 3> bounds = {0, 0, 1};
  bool trusted = true;
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (!args.positional[i].is_integral()) fail("range() takes integers");
    bounds[args.positional.size() == 1 ? 1 : i] = args.positional[i].as_int();
    trusted = trusted && args.positional[i].trusted();
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) fail("range() with a step of zero");
  const auto low = static_cast<uint64_t>(step > 0 ? start : stop),
             high = static_cast<uint64_t>(step > 0 ? stop : start);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const uint64_t count = empty ? 0 : (high - low - 1) / stride + 1;
  if (count > static_cast<uint64_t>(rt.limits().range_items_max)) {
    fail("range() of more than " + std::to_string(rt.limits().range_items_max) + " items");
  }
  const Value list = rt.list({});
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t value = static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step);  // modulo 2^64, exact
    rt.append(&list.list(), Value::integer(static_cast<int64_t>(value), trusted));
  }
  return list;
}

Value raise_exception(Runtime& rt, const Args& args) {
  throw Failure{to_text(rt, args.require(0, "message")).text(), true, 0};
}

Value strftime_now(Runtime& rt, const Args& args) {
  const Value& format = args.require(0, "format");
  if (!format.is_string() || format.string().size() > kTimeFormatMax) fail("strftime_now() needs a short format");
  if (format.string().empty()) return format;
  std::array<char, 4096> buffer;
  const std::tm now = rt.now();
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.text().c_str(), &now);
  return rt.string(std::string(buffer.data(), size), format.trusted());
}

using Global = Value (*)(Runtime&, const Args&);

const std::unordered_map<std::string, Global>& globals() {
  static const std::unordered_map<std::string, Global> table = {
      {"namespace", make_namespace},        {"dict", make_plain_dict},      {"range", range},
      {"raise_exception", raise_exception}, {"strftime_now", strftime_now},
  };
  return table;
}

}  // namespace

bool is_global(const std::string& name) {
  return globals().count(name) != 0;
}

Value call_global(Runtime& runtime, const std::string& name, const Args& args) {
  const auto found = globals().find(name);
  if (found == globals().end()) fail("there is no function '" + name + "'");
  runtime.step();
  return found->second(runtime, args);
}

}  // namespace llmd::jinja
