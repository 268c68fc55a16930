#include "api/template/expression_parser.h"

#include <algorithm>

#include "api/template/runtime.h"

namespace llmd::jinja {
namespace {

// Precedence levels, loosest first.
constexpr int kOrLevel = 1, kAndLevel = 2, kNotLevel = 3, kCompareLevel = 4, kAddLevel = 5, kConcatLevel = 6,
              kMultiplyLevel = 7, kPowerLevel = 8;

}  // namespace

bool ExpressionParser::accept_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  next();
  return true;
}

bool ExpressionParser::accept_name(std::string_view text) {
  if (!at_name(text)) return false;
  next();
  return true;
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!accept_operator(text)) unexpected();
}

void ExpressionParser::expect_name(std::string_view text) {
  if (!accept_name(text)) unexpected();
}

void ExpressionParser::expect(TokenKind kind) {
  if (peek().kind != kind) unexpected();
  next();
}

std::string ExpressionParser::take_name() {
  if (peek().kind != TokenKind::kName) unexpected();
  return next().text;
}

void ExpressionParser::error(std::string message) const {
  throw Failure{std::move(message), false, peek().line};
}

void ExpressionParser::unexpected() const {
  switch (peek().kind) {
    case TokenKind::kText:
    case TokenKind::kEnd:
      error("unexpected end of the template");
    case TokenKind::kOutputEnd:
    case TokenKind::kBlockEnd:
      error("unexpected end of a tag");
    default:
      error("unexpected '" + peek().text.substr(0, 40) + "'");
  }
}

ExpressionPtr ExpressionParser::make(ExpressionKind kind) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = peek().line;
  return node;
}

/// Every complete node passes here: a tree is never deeper than the limit.
ExpressionPtr ExpressionParser::finish(ExpressionPtr node) const {
  int height = 0;
  for (const auto& child : node->children) {
    if (child != nullptr) height = std::max(height, child->height);
  }
  for (const auto& argument : node->arguments) height = std::max(height, argument.second->height);
  node->height = height + 1;
  if (node->height > depth_max_) error("nested too deep");
  return node;
}

bool ExpressionParser::at_tuple_end() const {
  const TokenKind kind = peek().kind;
  return kind == TokenKind::kOutputEnd || kind == TokenKind::kBlockEnd || kind == TokenKind::kEnd || at_operator(")") ||
         at_operator("=") || at_name("in");
}

ExpressionPtr ExpressionParser::parse_tuple(bool conditional) {
  ExpressionPtr first = parse_conditional(conditional);
  if (!at_operator(",")) return first;
  ExpressionPtr tuple = make(ExpressionKind::kTuple);
  tuple->children.push_back(std::move(first));
  while (accept_operator(",") && !at_tuple_end()) tuple->children.push_back(parse_conditional(conditional));
  return finish(std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_target(bool attributes) {
  NestingGuard guard(*this);
  const auto one = [&] {
    if (accept_operator("(")) {
      ExpressionPtr inner = parse_target(attributes);
      expect_operator(")");
      return inner;
    }
    ExpressionPtr name = make(ExpressionKind::kName);
    name->name = take_name();
    if (!attributes || !accept_operator(".")) return name;
    ExpressionPtr attribute = make(ExpressionKind::kAttribute);
    attribute->name = take_name();
    attribute->children.push_back(std::move(name));
    return finish(std::move(attribute));
  };
  ExpressionPtr first = one();
  if (!at_operator(",")) return first;
  ExpressionPtr tuple = make(ExpressionKind::kTuple);
  tuple->children.push_back(std::move(first));
  while (accept_operator(",") && !at_tuple_end()) tuple->children.push_back(one());
  return finish(std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_conditional(bool conditional) {
  NestingGuard guard(*this);
  ExpressionPtr value = parse_binary(kOrLevel);
  while (conditional && at_name("if")) {
    ExpressionPtr node = make(ExpressionKind::kConditional);
    next();
    node->children.push_back(std::move(value));
    node->children.push_back(parse_binary(kOrLevel));
    node->children.push_back(accept_name("else") ? parse_conditional(true) : nullptr);
    value = finish(std::move(node));
  }
  return value;
}

/// The level and name of the operator at the cursor; level 0 when there is none.
std::pair<int, std::string> ExpressionParser::binary_operator() const {
  const Token& token = peek();
  if (token.kind == TokenKind::kName) {
    if (token.text == "or") return {kOrLevel, token.text};
    if (token.text == "and") return {kAndLevel, token.text};
  } else if (token.kind == TokenKind::kOperator) {
    if (token.text == "+" || token.text == "-") return {kAddLevel, token.text};
    if (token.text == "~") return {kConcatLevel, token.text};
    if (token.text == "*" || token.text == "/" || token.text == "//" || token.text == "%") {
      return {kMultiplyLevel, token.text};
    }
    if (token.text == "**") return {kPowerLevel, token.text};
  }
  return {comparison().empty() ? 0 : kCompareLevel, {}};
}

ExpressionPtr ExpressionParser::parse_binary(int level) {
  NestingGuard guard(*this);
  ExpressionPtr left;
  if (level <= kNotLevel && at_name("not")) {
    left = make(ExpressionKind::kNot);
    next();
    left->children.push_back(parse_binary(kNotLevel));
    left = finish(std::move(left));
  } else {
    left = parse_unary(true);
  }
  while (true) {
    auto [found, op] = binary_operator();
    if (found == 0 || found < level) return left;
    if (found == kCompareLevel) {
      left = parse_comparison(std::move(left));
    } else {
      next();
      ExpressionPtr right = parse_binary(found + 1);
      left = join(found, std::move(op), std::move(left), std::move(right));
    }
  }
}

ExpressionPtr ExpressionParser::join(int level, std::string op, ExpressionPtr left, ExpressionPtr right) const {
  ExpressionKind kind = ExpressionKind::kBinary;
  if (level == kOrLevel) kind = ExpressionKind::kOr;
  if (level == kAndLevel) kind = ExpressionKind::kAnd;
  if (level == kConcatLevel) kind = ExpressionKind::kConcat;
  if (op == "+") kind = ExpressionKind::kAdd;
  if (kind != ExpressionKind::kBinary && left->kind == kind) {  // (a + b) + c is a + b + c
    left->children.push_back(std::move(right));
    return finish(std::move(left));
  }
  ExpressionPtr node = make(kind);
  node->name = std::move(op);
  node->line = left->line;
  node->children.push_back(std::move(left));
  node->children.push_back(std::move(right));
  return finish(std::move(node));
}

/// The comparison at the cursor, or nothing.
std::string ExpressionParser::comparison() const {
  const Token& token = peek();
  if (token.kind == TokenKind::kOperator) {
    for (const char* op : {"==", "!=", "<", "<=", ">", ">="}) {
      if (token.text == op) return op;
    }
  }
  if (at_name("in")) return "in";
  if (at_name("not") && tokens_[pos_ + 1].kind == TokenKind::kName && tokens_[pos_ + 1].text == "in") return "not in";
  return {};
}

ExpressionPtr ExpressionParser::parse_comparison(ExpressionPtr left) {
  ExpressionPtr node = make(ExpressionKind::kCompare);
  node->children.push_back(std::move(left));
  for (std::string op = comparison(); !op.empty(); op = comparison()) {
    next();
    if (op == "not in") next();
    node->operators.push_back(std::move(op));
    node->children.push_back(parse_binary(kAddLevel));
  }
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  NestingGuard guard(*this);
  ExpressionPtr node;
  if (at_operator("-") || at_operator("+")) {
    node = make(at_operator("-") ? ExpressionKind::kNegate : ExpressionKind::kPositive);
    next();
    node->children.push_back(parse_unary(false));
    node = finish(std::move(node));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters(std::move(node), true) : std::move(node);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = peek();
  switch (token.kind) {
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kInt:
    case TokenKind::kFloat: {
      ExpressionPtr node = make(ExpressionKind::kLiteral);
      node->literal = token.kind == TokenKind::kInt ? Value::integer(token.integer) : Value::number(token.number);
      next();
      return node;
    }
    case TokenKind::kName: {
      ExpressionPtr node = make(ExpressionKind::kLiteral);
      if (token.text == "true" || token.text == "True") {
        node->literal = Value::boolean(true);
      } else if (token.text == "false" || token.text == "False") {
        node->literal = Value::boolean(false);
      } else if (token.text == "none" || token.text == "None") {
        node->literal = Value::none();
      } else {
        node->kind = ExpressionKind::kName;
        node->name = token.text;
      }
      next();
      return node;
    }
    default:
      if (at_operator("(")) return parse_parentheses();
      if (at_operator("[")) return parse_list();
      if (at_operator("{")) return parse_dict();
      unexpected();
  }
}

ExpressionPtr ExpressionParser::parse_parentheses() {
  next();
  if (accept_operator(")")) return make(ExpressionKind::kTuple);
  ExpressionPtr inner = parse_tuple();
  expect_operator(")");
  return inner;
}

/// Adjacent literals are one string.
ExpressionPtr ExpressionParser::parse_string() {
  ExpressionPtr node = make(ExpressionKind::kLiteral);
  std::string text;
  while (peek().kind == TokenKind::kString) text += next().text;
  node->literal = Value::literal(std::move(text));
  return node;
}

ExpressionPtr ExpressionParser::parse_list() {
  ExpressionPtr node = make(ExpressionKind::kList);
  next();
  while (!at_operator("]")) {
    node->children.push_back(parse_expression());
    if (!accept_operator(",")) break;
  }
  expect_operator("]");
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_dict() {
  ExpressionPtr node = make(ExpressionKind::kDict);
  next();
  while (!at_operator("}")) {
    node->children.push_back(parse_expression());
    expect_operator(":");
    node->children.push_back(parse_expression());
    if (!accept_operator(",")) break;
  }
  expect_operator("}");
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr value) {
  while (true) {
    if (accept_operator(".")) {
      const bool by_number = peek().kind == TokenKind::kInt;
      ExpressionPtr node = make(by_number ? ExpressionKind::kSubscript : ExpressionKind::kAttribute);
      node->children.push_back(std::move(value));
      if (by_number) {
        node->children.push_back(parse_primary());
      } else {
        node->name = take_name();
      }
      value = finish(std::move(node));
    } else if (at_operator("[")) {
      value = parse_subscript(std::move(value));
    } else if (at_operator("(")) {
      ExpressionPtr node = make(ExpressionKind::kCall);
      node->children.push_back(std::move(value));
      parse_arguments(node.get());
      value = finish(std::move(node));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr value) {
  ExpressionPtr node = make(ExpressionKind::kSubscript);
  node->children.push_back(std::move(value));
  next();
  const auto at_bound = [&] { return !at_operator(":") && !at_operator("]"); };
  ExpressionPtr index = at_bound() ? parse_expression() : nullptr;
  if (!at_operator(":")) {
    if (index == nullptr) unexpected();
    node->children.push_back(std::move(index));
  } else {
    node->kind = ExpressionKind::kSlice;
    node->children.push_back(std::move(index));
    for (int i = 0; i < 2; ++i) {
      const bool given = accept_operator(":");
      node->children.push_back(given && at_bound() ? parse_expression() : nullptr);
    }
  }
  expect_operator("]");
  return finish(std::move(node));
}

void ExpressionParser::parse_arguments(Expression* call) {
  expect_operator("(");
  while (!at_operator(")")) {
    const Token& after = tokens_[std::min(pos_ + 1, tokens_.size() - 1)];
    if (peek().kind == TokenKind::kName && after.kind == TokenKind::kOperator && after.text == "=") {
      std::string name = take_name();
      next();
      call->arguments.emplace_back(std::move(name), parse_expression());
    } else {
      if (!call->arguments.empty()) error("an argument without a name after one with a name");
      call->children.push_back(parse_expression());
    }
    if (!accept_operator(",")) break;
  }
  expect_operator(")");
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr value, bool first_has_bar) {
  if (!first_has_bar) value = parse_filter(std::move(value));
  while (true) {
    if (accept_operator("|")) {
      value = parse_filter(std::move(value));
    } else if (value != nullptr && at_name("is")) {
      next();
      value = parse_test(std::move(value));
    } else if (at_operator("(")) {
      ExpressionPtr node = make(ExpressionKind::kCall);
      node->children.push_back(std::move(value));
      parse_arguments(node.get());
      value = finish(std::move(node));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr input) {
  ExpressionPtr node = make(ExpressionKind::kFilter);
  node->name = take_name();
  node->children.push_back(std::move(input));
  if (at_operator("(")) parse_arguments(node.get());
  return finish(std::move(node));
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr input) {
  const bool negated = accept_name("not");
  ExpressionPtr node = make(ExpressionKind::kTest);
  node->name = take_name();
  node->children.push_back(std::move(input));
  const TokenKind kind = peek().kind;
  const bool keyword = at_name("else") || at_name("or") || at_name("and") || at_name("if") || at_name("is") ||
                       at_name("in") || at_name("not");
  if (at_operator("(")) {
    parse_arguments(node.get());
  } else if ((kind == TokenKind::kName && !keyword) || kind == TokenKind::kString || kind == TokenKind::kInt ||
             kind == TokenKind::kFloat || at_operator("[") || at_operator("{")) {
    node->children.push_back(parse_postfix(parse_primary()));
  }
  node = finish(std::move(node));
  if (!negated) return node;
  ExpressionPtr inverse = make(ExpressionKind::kNot);
  inverse->children.push_back(std::move(node));
  return finish(std::move(inverse));
}

}  // namespace llmd::jinja
