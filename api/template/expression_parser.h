// ExpressionParser: the expression half of the parser, and the token cursor both halves share.
//
// Operators are parsed by climbing their precedences in one function, which keeps the recursion shallow. Chains of one
// left-associative operator become one node with many children, so a long sum is not a deep tree. Throws Failure with
// the line. Called by one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/template/ast.h"
#include "api/template/lexer.h"

namespace llmd::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, int depth_max) : tokens_(std::move(tokens)), depth_max_(depth_max) {}

  const Token& peek() const { return tokens_[pos_]; }
  const Token& next() { return tokens_[peek().kind == TokenKind::kEnd ? pos_ : pos_++]; }
  bool at_operator(std::string_view text) const { return peek().kind == TokenKind::kOperator && peek().text == text; }
  bool at_name(std::string_view text) const { return peek().kind == TokenKind::kName && peek().text == text; }
  bool accept_operator(std::string_view text);
  bool accept_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  void expect(TokenKind kind);
  std::string take_name();
  [[noreturn]] void error(std::string message) const;
  [[noreturn]] void unexpected() const;

  /// a if b else c
  ExpressionPtr parse_expression() { return parse_conditional(true); }
  /// An expression, or several with commas: a tuple. Without `conditional`, no inline if at the top.
  ExpressionPtr parse_tuple(bool conditional = true);
  /// What a for or set assigns to: names, tuples of them; with `attributes` also namespace.name.
  ExpressionPtr parse_target(bool attributes);
  /// name(arguments) | name(arguments) ..., applied to `input` (null in a filter block).
  ExpressionPtr parse_filters(ExpressionPtr input, bool first_has_bar);

  void enter() {
    if (++depth_ > depth_max_) error("nested too deep");
  }
  void leave() { --depth_; }

 private:
  ExpressionPtr make(ExpressionKind kind) const;
  ExpressionPtr finish(ExpressionPtr node) const;
  ExpressionPtr parse_conditional(bool conditional);
  ExpressionPtr parse_binary(int level);
  ExpressionPtr join(int level, std::string op, ExpressionPtr left, ExpressionPtr right) const;
  ExpressionPtr parse_comparison(ExpressionPtr left);
  std::string comparison() const;
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_parentheses();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_string();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_subscript(ExpressionPtr node);
  ExpressionPtr parse_filter(ExpressionPtr input);
  ExpressionPtr parse_test(ExpressionPtr input);
  void parse_arguments(Expression* call);
  std::pair<int, std::string> binary_operator() const;
  bool at_tuple_end() const;

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int depth_ = 0;
  const int depth_max_;
};

class NestingGuard {
 public:
  explicit NestingGuard(ExpressionParser& parser) : parser_(parser) { parser_.enter(); }
  ~NestingGuard() { parser_.leave(); }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;

 private:
  ExpressionParser& parser_;
};

}  // namespace llmd::jinja
