// Lexer: template source to tokens, with Jinja's white-space rules already applied.
//
// Text between tags becomes kText tokens after trimming: `-` beside a delimiter eats all white space there; a block tag
// or comment also eats the newline after it (trim_blocks) and the blanks before it when it is first on its line
// (lstrip_blocks), which `+` prevents; one newline at the end of the source is dropped. Comments disappear, raw blocks
// are text. Throws Failure with the line. Called once per template, by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmd::jinja {

enum class TokenKind {
  kText,
  kOutputBegin,
  kOutputEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInt,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // text, name, operator, or string with its escapes resolved
  int64_t integer = 0;
  double number = 0;
  int line = 0;
};

/// The last token is kEnd.
std::vector<Token> tokenize(const std::string& source);

}  // namespace llmd::jinja
