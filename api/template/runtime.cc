#include "api/template/runtime.h"

namespace llmd::jinja {

void fail(std::string message) {
  throw Failure{std::move(message)};
}

const Value* Args::find(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Value& Args::require(size_t index, std::string_view name) const {
  const Value* value = find(index, name);
  if (value == nullptr) fail("missing argument '" + std::string(name) + "'");
  return *value;
}

bool Args::flag(size_t index, std::string_view name, bool otherwise) const {
  const Value* value = find(index, name);
  return value == nullptr ? otherwise : truthy(*value);
}

int64_t Args::integer(size_t index, std::string_view name, int64_t otherwise) const {
  const Value* value = find(index, name);
  if (value == nullptr || value->is_none()) return otherwise;
  if (!value->is_integral()) fail("argument '" + std::string(name) + "' must be an integer");
  return value->as_int();
}

void Runtime::charge(size_t bytes) {
  memory_bytes_ += bytes;
  if (memory_bytes_ > limits_.memory_bytes_max) {
    fail("the template needs more than " + std::to_string(limits_.memory_bytes_max) + " bytes of memory");
  }
}

void Runtime::check_length(size_t bytes) const {
  if (bytes > limits_.output_bytes_max) {
    fail("a text longer than " + std::to_string(limits_.output_bytes_max) + " bytes");
  }
}

Value Runtime::string(TemplateString text) {
  check_length(text.size());
  step_bytes(text.size());
  const size_t bytes = text.memory_bytes() + sizeof(StringCell);
  charge(bytes);
  return Value::string(std::make_shared<const StringCell>(std::move(text), this, bytes));
}

Value Runtime::sequence(Kind kind, std::vector<Value> items) {
  step(1 + items.size());
  charge(items.size() * sizeof(Value));
  List* list = make<List>();
  list->items = std::move(items);
  return Value::object(kind, list);
}

void Runtime::append(List* list, Value value) {
  step();
  charge(sizeof(Value));
  list->items.push_back(std::move(value));
}

void Runtime::set(Dict* dict, const Value& key, Value value) {
  step();
  if (dict->set(key, std::move(value))) {
    charge(2 * sizeof(Value) + 128 + (key.is_string() ? key.text().size() : 0));  // entry, index node and its key
  }
}

}  // namespace llmd::jinja
