#include "api/template/interpreter.h"

#include "api/template/printing.h"

namespace llmd::jinja {
namespace {

constexpr size_t kVariableBytes = sizeof(std::pair<std::string, Value>) + 16;

}  // namespace

TemplateString Interpreter::run(const Program& program) {
  TemplateString out;
  out_ = &out;
  execute(program.body);
  return out;
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  DepthGuard guard(rt_);
  for (const auto& statement : block) {
    const Flow flow = execute(*statement);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  rt_.step();
  line_ = statement.line;
  Flow flow = Flow::kNormal;
  switch (statement.kind) {
    case StatementKind::kText:
      write(statement.text);
      break;
    case StatementKind::kOutput:
      write(evaluate(*statement.value));
      break;
    case StatementKind::kIf:
      return execute_if(statement);
    case StatementKind::kFor:
      return execute_for(statement);
    case StatementKind::kSet:
      assign(*statement.target, evaluate(*statement.value));
      break;
    case StatementKind::kSetBlock:
    case StatementKind::kFilter: {
      Value text = rt_.string(capture(statement.body, scope_, &flow));
      if (statement.value != nullptr) {
        const Value* outer = std::exchange(filter_input_, &text);
        Value filtered_text = evaluate(*statement.value);
        filter_input_ = outer;
        text = std::move(filtered_text);
      }
      if (statement.kind == StatementKind::kFilter) {
        write(text);
      } else {
        assign(*statement.target, text);
      }
      break;
    }
    case StatementKind::kMacro:
      execute_macro(statement);
      break;
    case StatementKind::kBody:
      return execute(statement.body);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return flow;
}

Interpreter::Flow Interpreter::execute_if(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (truthy(evaluate(*branch.condition))) return execute(branch.body);
  }
  return execute(statement.else_body);
}

/// The items for which the loop's condition holds.
const List* Interpreter::filtered(const Statement& statement, const List& items) {
  const Value kept = rt_.list({});
  Scope* const outer = scope_;
  for (size_t i = 0; i < items.items.size(); ++i) {
    const Value item = items.items[i];
    scope_ = open_scope(outer);
    assign(*statement.target, item);
    if (truthy(evaluate(*statement.condition))) rt_.append(&kept.list(), item);
    close_scope(scope_);
    scope_ = outer;
  }
  return &kept.list();
}

Interpreter::Flow Interpreter::execute_for(const Statement& statement) {
  const List* items = &iterate(rt_, evaluate(*statement.value));
  if (statement.condition != nullptr) items = filtered(statement, *items);
  if (items->items.empty()) return execute(statement.else_body);

  LoopState* loop = nullptr;
  if (free_loops_.empty()) {
    loop = rt_.make<LoopState>();
  } else {
    loop = free_loops_.back();
    free_loops_.pop_back();
  }
  loop->items = items;
  loop->length = items->items.size();
  loop->depth = ++loop_depth_;
  Scope* const outer = scope_;
  // A pass ran to its end. With break or continue in every pass Jinja runs the else branch too.
  bool completed = false;
  // By index and by copy: the body may change the list it loops over.
  for (size_t i = 0; i < items->items.size(); ++i) {
    rt_.step();
    loop->index = i;
    const Value item = items->items[i];
    scope_ = open_scope(outer);
    set_variable(scope_, "loop", Value::object(Kind::kLoop, loop));
    assign(*statement.target, item);
    const Flow flow = execute(statement.body);
    close_scope(scope_);
    scope_ = outer;
    completed |= flow == Flow::kNormal;
    if (flow == Flow::kBreak) break;
  }
  --loop_depth_;
  free_loops_.push_back(loop);
  return completed ? Flow::kNormal : execute(statement.else_body);
}

void Interpreter::execute_macro(const Statement& statement) {
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
  auto* function = rt_.make<Function>();
  function->macro = &statement;
  function->scope = scope_;
  function->name = statement.name;
  set_variable(scope_, statement.name, Value::object(Kind::kFunction, function));
}

void Interpreter::write(const Value& value) {
  append_text(rt_, value, out_);
}

TemplateString Interpreter::capture(const Block& block, Scope* parent, Flow* flow) {
  TemplateString text;
  TemplateString* const outer_out = std::exchange(out_, &text);
  Scope* const outer_scope = std::exchange(scope_, open_scope(parent));
  *flow = execute(block);
  close_scope(scope_);
  scope_ = outer_scope;
  out_ = outer_out;
  return text;
}

void Interpreter::assign(const Expression& target, const Value& value) {
  switch (target.kind) {
    case ExpressionKind::kName:
      set_variable(scope_, target.name, value);
      break;
    case ExpressionKind::kAttribute: {
      const Value* object = find_variable(target.children[0]->name);
      if (object == nullptr || !object->is(Kind::kNamespace)) fail("only a namespace has attributes that can be set");
      rt_.set(&object->dict(), rt_.string(target.name, true), value);
      break;
    }
    default:
      assign_many(target, value);
  }
}

void Interpreter::assign_many(const Expression& target, const Value& value) {
  const List& items = iterate(rt_, value);
  if (items.items.size() != target.children.size()) {
    fail("cannot unpack " + std::to_string(items.items.size()) + " values into " +
         std::to_string(target.children.size()) + " names");
  }
  for (size_t i = 0; i < target.children.size(); ++i) assign(*target.children[i], items.items[i]);
}

Scope* Interpreter::open_scope(Scope* parent) {
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    scope = rt_.make<Scope>();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

void Interpreter::close_scope(Scope* scope) {
  if (scope->captured) return;
  rt_.release(scope->variables.size() * kVariableBytes);
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

void Interpreter::set_variable(Scope* scope, const std::string& name, Value value) {
  for (auto& [known, old] : scope->variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  rt_.charge(kVariableBytes);
  scope->variables.emplace_back(name, std::move(value));
}

const Value* Interpreter::find_variable(const std::string& name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

}  // namespace llmd::jinja
