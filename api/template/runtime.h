// Runtime: one render's memory, limits and clock, and how its code reports failure.
//
// Everything that evaluates takes a Runtime and pays into it: step() for work, charge() for memory, DepthGuard for
// nesting. Past a limit these fail. Failure inside api/template/ is an exception of the private type Failure, because
// an expression fails deep in a recursion; chat_template.cc turns it into an Error and nothing leaves the room. Owned
// by one render, used by one thread. It must outlive the values made with it.
#pragma once

#include <ctime>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/template/chat_template.h"
#include "api/template/value.h"

namespace llmd::jinja {

struct Failure {
  std::string message;
  bool rejected = false;  // by the template's own raise_exception
  int line = 0;           // known to the lexer and parser; the interpreter keeps its own
};

[[noreturn]] void fail(std::string message);

/// Arguments of a call, filter or test.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// By position or by name; null when not given.
  const Value* find(size_t index, std::string_view name) const;
  const Value& require(size_t index, std::string_view name) const;
  bool flag(size_t index, std::string_view name, bool otherwise) const;
  int64_t integer(size_t index, std::string_view name, int64_t otherwise) const;
};

class Runtime {
 public:
  Runtime(const TemplateLimits& limits, const std::tm& now) : limits_(limits), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  void step(uint64_t cost = 1) {
    steps_ += cost;
    if (steps_ > limits_.steps_max)
      fail("the template takes more than " + std::to_string(limits_.steps_max) + " steps");
  }
  /// The work of handling `bytes` of text.
  void step_bytes(size_t bytes) { step(1 + bytes / 64); }
  void charge(size_t bytes);
  void release(size_t bytes) { memory_bytes_ -= bytes; }
  /// Fails when a string of `bytes` would be too long. Call before making it.
  void check_length(size_t bytes) const;
  void enter() {
    if (++depth_ > limits_.depth_max) fail("nested more than " + std::to_string(limits_.depth_max) + " deep");
  }
  void leave() { --depth_; }

  Value string(TemplateString text);
  Value string(std::string text, bool trusted) { return string(TemplateString(std::move(text), trusted)); }
  Value list(std::vector<Value> items) { return sequence(Kind::kList, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::kTuple, std::move(items)); }
  Value dict() { return Value::object(Kind::kDict, make<Dict>()); }
  void set(Dict* dict, const Value& key, Value value);
  void append(List* list, Value value);

  /// A new object, alive until the render ends.
  template <typename T>
  T* make() {
    charge(sizeof(T) + 2 * sizeof(void*));
    auto owned = std::make_unique<T>();
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

  const TemplateLimits& limits() const { return limits_; }
  const std::tm& now() const { return now_; }

 private:
  Value sequence(Kind kind, std::vector<Value> items);

  const TemplateLimits& limits_;
  const std::tm now_;
  uint64_t steps_ = 0;
  size_t memory_bytes_ = 0;
  int depth_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

class DepthGuard {
 public:
  explicit DepthGuard(Runtime& runtime) : runtime_(runtime) { runtime_.enter(); }
  ~DepthGuard() { runtime_.leave(); }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Runtime& runtime_;
};

}  // namespace llmd::jinja
