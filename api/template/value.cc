#include "api/template/value.h"

#include <cmath>

#include "api/template/runtime.h"
#include "api/template/text.h"

namespace llmd::jinja {

StringCell::StringCell(TemplateString text, Runtime* owner, size_t bytes)
    : value(std::move(text)), runtime(owner), charged(bytes) {}

StringCell::~StringCell() {
  if (runtime != nullptr) runtime->release(charged);
}

Value Value::undefined(const std::string* name) {
  Value value;
  value.name_ = name;
  return value;
}

Value Value::boolean(bool value, bool trusted) {
  Value result(Kind::kBool, trusted);
  result.int_ = value ? 1 : 0;
  return result;
}

Value Value::integer(int64_t value, bool trusted) {
  Value result(Kind::kInt, trusted);
  result.int_ = value;
  return result;
}

Value Value::number(double value, bool trusted) {
  Value result(Kind::kFloat, trusted);
  result.float_ = value;
  return result;
}

Value Value::string(std::shared_ptr<const StringCell> cell) {
  Value result(Kind::kString, true);
  result.cell_ = std::move(cell);
  return result;
}

Value Value::literal(std::string text) {
  return string(std::make_shared<const StringCell>(TemplateString(std::move(text), true), nullptr, 0));
}

Value Value::as_markup() const {
  Value result = *this;
  result.markup_ = is_string();
  return result;
}

Value Value::object(Kind kind, Object* object) {
  Value result(kind, true);
  result.object_ = object;
  return result;
}

List& Value::list() const {
  return *static_cast<List*>(object_);
}
Dict& Value::dict() const {
  return *static_cast<Dict*>(object_);
}
Function& Value::function() const {
  return *static_cast<Function*>(object_);
}
LoopState& Value::loop() const {
  return *static_cast<LoopState*>(object_);
}

std::string Dict::hash_key(const Value& key) {
  switch (key.kind()) {
    case Kind::kNone:
      return "n";
    case Kind::kBool:
    case Kind::kInt:
      return "i" + std::to_string(key.as_int());
    case Kind::kFloat: {
      const double number = key.as_double();
      if (number == std::floor(number) && std::fabs(number) < 9e18) {
        return "i" + std::to_string(static_cast<int64_t>(number));
      }
      return "f" + float_text(number);
    }
    case Kind::kString:
      return "s" + key.text();
    default:
      fail("a " + std::string(type_name(key)) + " cannot be the key of a dict");
  }
}

size_t Dict::position(const std::string& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? entries.size() : found->second;
}

const Value* Dict::find(const Value& key) const {
  const size_t at = position(hash_key(key));
  return at < entries.size() ? &entries[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const size_t at = position("s" + std::string(key));
  return at < entries.size() ? &entries[at].second : nullptr;
}

bool Dict::set(const Value& key, Value value) {
  std::string hashed = hash_key(key);
  const size_t at = position(hashed);
  if (at < entries.size()) {
    entries[at].second = std::move(value);
    return false;
  }
  index_.emplace(std::move(hashed), entries.size());
  entries.emplace_back(key, std::move(value));
  return true;
}

void Dict::erase(const Value& key) {
  const std::string hashed = hash_key(key);
  const size_t at = position(hashed);
  if (at == entries.size()) return;
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(at));
  index_.erase(hashed);
  for (auto& [name, place] : index_) {
    if (place > at) --place;
  }
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kLoop:
      return "loop";
    case Kind::kFunction:
      return "function";
  }
  return "";
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0;
    case Kind::kString:
      return !value.string().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !value.list().items.empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    default:
      return true;
  }
}

namespace {

bool equal_lists(Runtime& runtime, const List& a, const List& b) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(runtime, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(runtime, value, *other)) return false;
  }
  return true;
}

/// Exact for an int against a float too large to be one.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int() ? 1 : 0;
  return a.as_double() < b.as_double() ? -1 : a.as_double() > b.as_double() ? 1 : 0;
}

}  // namespace

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  DepthGuard guard(runtime);
  runtime.step();
  if (a.is_number() && b.is_number()) {
    const bool nan = std::isnan(a.as_double()) || std::isnan(b.as_double());
    return !nan && compare_numbers(a, b) == 0;
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (a.string().size() != b.string().size()) return false;
      runtime.step_bytes(a.string().size());
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return a.identity() == b.identity() || equal_lists(runtime, a.list(), b.list());
    case Kind::kDict:
      return a.identity() == b.identity() || equal_dicts(runtime, a.dict(), b.dict());
    default:
      return a.identity() == b.identity();
  }
}

int compare(Runtime& runtime, const Value& a, const Value& b) {
  DepthGuard guard(runtime);
  runtime.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_string() && b.is_string()) {
    runtime.step_bytes(std::min(a.string().size(), b.string().size()));
    return a.text().compare(b.text());  // UTF-8 sorts as its code points do
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto &left = a.list().items, &right = b.list().items;
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (!equal(runtime, left[i], right[i])) return compare(runtime, left[i], right[i]);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  }
  fail("cannot order " + std::string(type_name(a)) + " and " + std::string(type_name(b)));
}

const List& iterate(Runtime& runtime, const Value& value) {
  if (value.is_sequence()) return value.list();
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kDict:
      runtime.step(value.dict().entries.size());
      for (const auto& entry : value.dict().entries) items.push_back(entry.first);
      break;
    case Kind::kString: {
      const TemplateString& text = value.string();
      size_t length = 0;
      for (size_t pos = 0; pos < text.size(); pos += length) {
        utf8_decode(text.text(), pos, &length);
        items.push_back(runtime.string(text.substr(pos, length)));
      }
      break;
    }
    default:
      fail("a " + std::string(type_name(value)) + " cannot be iterated");
  }
  return runtime.list(std::move(items)).list();
}

int64_t length_of(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      runtime.step_bytes(value.string().size());
      return static_cast<int64_t>(utf8_count(value.text()));
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.list().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries.size());
    default:
      fail("a " + std::string(type_name(value)) + " has no length");
  }
}

}  // namespace llmd::jinja
