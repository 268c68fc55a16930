// Interpreter: one render of a parsed template.
//
// Statements run in a chain of scopes: the root holds the request's variables; each iteration of a for, each macro call
// and each captured block has its own scope below the one it stands in, so what is set there is gone afterwards, as in
// Jinja. Scopes are reused unless a macro was defined in them. Output goes to the current buffer: the result, or the
// text of a macro, set block or filter block while one runs. Throws Failure; line() then says where. One thread.
#pragma once

#include <string>
#include <vector>

#include "api/template/ast.h"
#include "api/template/runtime.h"

namespace llmd::jinja {

struct Scope : Object {
  Scope* parent = nullptr;
  bool captured = false;  // a macro may look here after the scope has ended
  std::vector<std::pair<std::string, Value>> variables;
};

class Interpreter {
 public:
  explicit Interpreter(Runtime& runtime) : rt_(runtime), root_(runtime.make<Scope>()), scope_(root_) {}

  void define(const std::string& name, Value value) { set_variable(root_, name, std::move(value)); }
  TemplateString run(const Program& program);
  /// The line being worked on.
  int line() const { return line_; }

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  // interpreter.cc: statements
  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow execute_if(const Statement& statement);
  Flow execute_for(const Statement& statement);
  const List* filtered(const Statement& statement, const List& items);
  void execute_macro(const Statement& statement);
  void write(const Value& value);
  /// Runs a block in a scope of its own and takes its output.
  TemplateString capture(const Block& block, Scope* parent, Flow* flow);
  void assign(const Expression& target, const Value& value);
  void assign_many(const Expression& target, const Value& value);

  Scope* open_scope(Scope* parent);
  void close_scope(Scope* scope);
  void set_variable(Scope* scope, const std::string& name, Value value);
  const Value* find_variable(const std::string& name) const;

  // evaluate.cc: expressions
  Value evaluate(const Expression& expression);
  Value evaluate_name(const Expression& expression);
  Value evaluate_items(const Expression& expression);
  Value evaluate_attribute(const Expression& expression);
  Value evaluate_slice(const Expression& expression);
  Value evaluate_call(const Expression& expression);
  Value evaluate_filter(const Expression& expression);
  Value evaluate_add(const Expression& expression);
  Value evaluate_concat(const Expression& expression);
  Value evaluate_logic(const Expression& expression);
  Value evaluate_compare(const Expression& expression);
  Value evaluate_conditional(const Expression& expression);
  Args evaluate_arguments(const Expression& expression);
  Value call(const Value& callee, const Args& args);
  Value call_macro(const Function& function, const Args& args);

  Runtime& rt_;
  Scope* const root_;
  Scope* scope_;
  TemplateString* out_ = nullptr;
  const Value* filter_input_ = nullptr;  // what a filter block's chain starts from
  std::vector<Scope*> free_scopes_;
  std::vector<LoopState*> free_loops_;
  int loop_depth_ = 0;
  int line_ = 0;
};

/// Global functions: namespace, range, dict, raise_exception, strftime_now.
bool is_global(const std::string& name);
Value call_global(Runtime& runtime, const std::string& name, const Args& args);

}  // namespace llmd::jinja
