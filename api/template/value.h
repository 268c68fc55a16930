// Value: what a template expression evaluates to. Python's types, as far as chat templates use them.
//
// Scalars and strings are values; strings are immutable, shared, and counted against the render's memory while alive.
// Containers (list, dict, namespace, function, loop) are references, as in Python, to objects that the Runtime owns
// until the render ends: a cycle or a chain of any depth then costs nothing to free. Scalars carry trust too, so that
// a client's number prints as untrusted digits. One render's values belong to the thread that renders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/template/template_string.h"

namespace llmd::jinja {

class Runtime;
struct Scope;
struct Statement;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kNamespace,
  kLoop,
  kFunction
};

/// Something with identity, owned by the Runtime.
struct Object {
  virtual ~Object() = default;
};
struct List;
struct Dict;
struct Function;
struct LoopState;

/// A string and the memory it is charged for; a literal of the template is charged to nobody.
struct StringCell {
  StringCell(TemplateString text, Runtime* owner, size_t bytes);
  ~StringCell();
  StringCell(const StringCell&) = delete;
  StringCell& operator=(const StringCell&) = delete;

  const TemplateString value;
  Runtime* const runtime;
  const size_t charged;
};

class Value {
 public:
  Value() = default;  // undefined
  /// Undefined, with the name to complain about; `name` outlives the render (it belongs to the parsed template).
  static Value undefined(const std::string* name);
  static Value none(bool trusted = true) { return Value(Kind::kNone, trusted); }
  static Value boolean(bool value, bool trusted = true);
  static Value integer(int64_t value, bool trusted = true);
  static Value number(double value, bool trusted = true);
  static Value string(std::shared_ptr<const StringCell> cell);
  /// A literal of the template.
  static Value literal(std::string text);
  /// The same string as markup: what the safe filter gives. Adding other text to it escapes that text for HTML.
  Value as_markup() const;
  static Value object(Kind kind, Object* object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_markup() const { return markup_; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  /// bool, int or float, as in Python where True is 1.
  bool is_number() const { return kind_ >= Kind::kBool && kind_ <= Kind::kFloat; }
  bool is_integral() const { return kind_ == Kind::kBool || kind_ == Kind::kInt; }

  /// No client byte in a scalar or string; containers answer for themselves, item by item.
  bool trusted() const { return is_string() ? string().all_trusted() : trusted_; }
  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }
  double as_double() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }
  const TemplateString& string() const { return cell_->value; }
  const std::string& text() const { return cell_->value.text(); }
  List& list() const;
  Dict& dict() const;  // also of a namespace
  Function& function() const;
  LoopState& loop() const;
  const Object* identity() const { return object_; }
  const std::string* undefined_name() const { return name_; }

 private:
  Value(Kind kind, bool trusted) : kind_(kind), trusted_(trusted) {}

  Kind kind_ = Kind::kUndefined;
  bool trusted_ = true;
  bool markup_ = false;
  union {
    int64_t int_ = 0;
    double float_;
    Object* object_;
    const std::string* name_;
  };
  std::shared_ptr<const StringCell> cell_;
};

struct List : Object {
  std::vector<Value> items;
};

/// Keeps the order of insertion. Keys are strings, numbers, booleans and None; 1, 1.0 and True are one key.
struct Dict : Object {
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  /// An existing key stays as it was (with its trust) and gets the value. True if the key is new.
  bool set(const Value& key, Value value);
  void erase(const Value& key);

  std::vector<std::pair<Value, Value>> entries;

 private:
  static std::string hash_key(const Value& key);
  size_t position(const std::string& key) const;

  std::unordered_map<std::string, size_t> index_;
};

/// A macro, a global function or a method bound to its object.
struct Function : Object {
  const Statement* macro = nullptr;
  Scope* scope = nullptr;  // where the macro was defined
  std::string name;        // global function or method
  Value self;
  bool bound = false;
};

/// `loop` inside a for.
struct LoopState : Object {
  const List* items = nullptr;
  size_t index = 0;
  size_t length = 0;
  int depth = 0;
};

/// Python's name of the type, for messages.
std::string_view type_name(const Value& value);
bool truthy(const Value& value);
/// ==, as in Python.
bool equal(Runtime& runtime, const Value& a, const Value& b);
/// Negative, zero or positive; fails when Python has no order between the two.
int compare(Runtime& runtime, const Value& a, const Value& b);
/// Items, keys or characters; fails on what Python cannot iterate. Undefined is empty.
const List& iterate(Runtime& runtime, const Value& value);
/// len(); fails on what has none.
int64_t length_of(Runtime& runtime, const Value& value);

}  // namespace llmd::jinja
