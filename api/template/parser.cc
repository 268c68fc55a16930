#include "api/template/parser.h"

#include <initializer_list>

#include "api/template/expression_parser.h"
#include "api/template/runtime.h"

namespace llmd::jinja {
namespace {

class StatementParser {
 public:
  StatementParser(const std::string& source, int depth_max) : in_(tokenize(source), depth_max) {}

  Block run() {
    Block body = parse_block({});
    if (in_.peek().kind != TokenKind::kEnd) in_.unexpected();
    return body;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  /// Statements up to a tag with one of the names (its `{%` is consumed, the name is at the cursor), or to the end of
  /// the source when there are no names.
  Block parse_block(Names ends) {
    NestingGuard guard(in_);
    Block block;
    while (true) {
      switch (in_.peek().kind) {
        case TokenKind::kText: {
          auto statement = make(StatementKind::kText);
          statement->text = Value::literal(in_.next().text);
          block.push_back(std::move(statement));
          break;
        }
        case TokenKind::kOutputBegin: {
          in_.next();
          auto statement = make(StatementKind::kOutput);
          statement->value = in_.parse_tuple();
          in_.expect(TokenKind::kOutputEnd);
          block.push_back(std::move(statement));
          break;
        }
        case TokenKind::kBlockBegin:
          in_.next();
          for (const std::string_view end : ends) {
            if (in_.at_name(end)) return block;
          }
          block.push_back(parse_statement());
          break;
        case TokenKind::kEnd:
          if (ends.size() != 0) in_.error("'" + std::string(*ends.begin()) + "' is missing at the end of the template");
          return block;
        default:
          in_.unexpected();
      }
    }
  }

  std::unique_ptr<Statement> make(StatementKind kind) const {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = in_.peek().line;
    return statement;
  }

  /// The body of a block statement up to and including `{% end %}`.
  Block parse_body(std::string_view end) {
    in_.expect(TokenKind::kBlockEnd);
    Block body = parse_block({end});
    close(end);
    return body;
  }

  void close(std::string_view end) {
    in_.expect_name(end);
    in_.expect(TokenKind::kBlockEnd);
  }

  std::unique_ptr<Statement> parse_statement() {
    if (in_.at_name("if")) return parse_if();
    if (in_.at_name("for")) return parse_for();
    if (in_.at_name("set")) return parse_set();
    if (in_.at_name("macro")) return parse_macro();
    if (in_.at_name("filter")) return parse_filter();
    if (in_.at_name("break")) return parse_jump(StatementKind::kBreak);
    if (in_.at_name("continue")) return parse_jump(StatementKind::kContinue);
    if (in_.at_name("generation")) {
      auto statement = make(StatementKind::kBody);
      in_.next();
      statement->body = parse_body("endgeneration");
      return statement;
    }
    if (in_.peek().kind != TokenKind::kName) in_.unexpected();
    in_.error("unknown or unsupported tag '" + in_.peek().text.substr(0, 40) + "'");
  }

  std::unique_ptr<Statement> parse_if() {
    auto statement = make(StatementKind::kIf);
    while (in_.accept_name("if") || in_.accept_name("elif")) {
      Branch branch;
      branch.condition = in_.parse_tuple(false);
      in_.expect(TokenKind::kBlockEnd);
      branch.body = parse_block({"endif", "elif", "else"});
      statement->branches.push_back(std::move(branch));
    }
    if (in_.accept_name("else")) {
      in_.expect(TokenKind::kBlockEnd);
      statement->else_body = parse_block({"endif"});
    }
    close("endif");
    return statement;
  }

  std::unique_ptr<Statement> parse_for() {
    auto statement = make(StatementKind::kFor);
    in_.next();
    statement->target = in_.parse_target(false);
    in_.expect_name("in");
    statement->value = in_.parse_tuple(false);
    if (in_.accept_name("if")) statement->condition = in_.parse_expression();
    if (in_.at_name("recursive")) in_.error("recursive loops are not supported");
    in_.expect(TokenKind::kBlockEnd);
    ++loops_;
    statement->body = parse_block({"endfor", "else"});
    --loops_;
    if (in_.accept_name("else")) {
      in_.expect(TokenKind::kBlockEnd);
      statement->else_body = parse_block({"endfor"});
    }
    close("endfor");
    return statement;
  }

  std::unique_ptr<Statement> parse_set() {
    auto statement = make(StatementKind::kSet);
    in_.next();
    statement->target = in_.parse_target(true);
    if (in_.accept_operator("=")) {
      statement->value = in_.parse_tuple();
      in_.expect(TokenKind::kBlockEnd);
      return statement;
    }
    statement->kind = StatementKind::kSetBlock;
    if (in_.accept_operator("|")) statement->value = in_.parse_filters(nullptr, false);
    statement->body = parse_body("endset");
    return statement;
  }

  std::unique_ptr<Statement> parse_macro() {
    auto statement = make(StatementKind::kMacro);
    in_.next();
    statement->name = in_.take_name();
    in_.expect_operator("(");
    while (!in_.at_operator(")")) {
      std::string name = in_.take_name();
      ExpressionPtr otherwise;
      if (in_.accept_operator("=")) {
        otherwise = in_.parse_expression();
      } else if (!statement->parameters.empty() && statement->parameters.back().second != nullptr) {
        in_.error("a parameter without a default after one with a default");
      }
      statement->parameters.emplace_back(std::move(name), std::move(otherwise));
      if (!in_.accept_operator(",")) break;
    }
    in_.expect_operator(")");
    const int outer_loops = std::exchange(loops_, 0);  // a macro's body is outside the loop it stands in
    statement->body = parse_body("endmacro");
    loops_ = outer_loops;
    return statement;
  }

  std::unique_ptr<Statement> parse_filter() {
    auto statement = make(StatementKind::kFilter);
    in_.next();
    statement->value = in_.parse_filters(nullptr, false);
    statement->body = parse_body("endfilter");
    return statement;
  }

  std::unique_ptr<Statement> parse_jump(StatementKind kind) {
    auto statement = make(kind);
    if (loops_ == 0) in_.error("'" + in_.peek().text + "' outside a loop");
    in_.next();
    in_.expect(TokenKind::kBlockEnd);
    return statement;
  }

  ExpressionParser in_;
  int loops_ = 0;
};

}  // namespace

std::unique_ptr<Program> parse_program(const std::string& source, int depth_max) {
  auto program = std::make_unique<Program>();
  program->body = StatementParser(source, depth_max).run();
  return program;
}

}  // namespace llmd::jinja
