// The parsed template: expressions and statements as two kinds of node.
//
// A node is one struct with the few fields any kind needs; `kind` says which are set. Trees are no deeper than
// TemplateLimits::depth_max, so recursion over them (evaluation, destruction) is bounded. Immutable after parsing; any
// thread may read.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/template/value.h"

namespace llmd::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
  kLiteral,      // literal
  kName,         // name
  kList,         // children
  kTuple,        // children
  kDict,         // children: key, value, key, value, ...
  kAttribute,    // children[0] . name
  kSubscript,    // children[0] [ children[1] ]
  kSlice,        // children[0] [ 1 : 2 : 3 ], each may be null
  kCall,         // children[0] ( the rest, arguments )
  kFilter,       // children[0] | name ( the rest, arguments ); children[0] is null in a filter block
  kTest,         // children[0] is name ( the rest, arguments )
  kNot,          // not children[0]
  kNegate,       // - children[0]
  kPositive,     // + children[0]
  kAnd,          // children
  kOr,           // children
  kAdd,          // children, from the left
  kConcat,       // children
  kBinary,       // children[0] name children[1]
  kCompare,      // children[0] operators[0] children[1] operators[1] ...
  kConditional,  // children[0] if children[1] else children[2] (may be null)
};

struct Expression {
  ExpressionKind kind;
  int line = 0;
  int height = 1;
  std::string name;
  Value literal;
  std::vector<ExpressionPtr> children;
  std::vector<std::pair<std::string, ExpressionPtr>> arguments;  // by name
  std::vector<std::string> operators;
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

enum class StatementKind {
  kText,      // text
  kOutput,    // value
  kIf,        // branches, else_body
  kFor,       // target in value if condition: body, else_body
  kSet,       // target = value
  kSetBlock,  // target = body, through the filter in value (may be null)
  kMacro,     // name(parameters): body
  kFilter,    // body through value
  kBody,      // body (generation)
  kBreak,
  kContinue
};

struct Branch {
  ExpressionPtr condition;
  Block body;
};

struct Statement {
  StatementKind kind;
  int line = 0;
  Value text;
  std::string name;
  ExpressionPtr target, value, condition;
  std::vector<Branch> branches;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with default, or null
  Block body, else_body;
};

struct Program {
  Block body;
};

}  // namespace llmd::jinja
