#include "api/template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "api/template/runtime.h"
#include "api/template/text.h"

namespace llmd::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

/// \r\n and \r become \n; one newline at the end goes.
std::string normalise(const std::string& source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      result.push_back(source[i]);
    } else {
      result.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(normalise(source)), view_(source_) {}

  std::vector<Token> run() {
    while (pos_ < view_.size()) next_section();
    add(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(std::string message) const { throw Failure{std::move(message), false, line_}; }

  bool at(std::string_view text, size_t pos) const { return view_.substr(pos, text.size()) == text; }

  void add(TokenKind kind, std::string text) {
    tokens_.emplace_back();
    tokens_.back().kind = kind;
    tokens_.back().text = std::move(text);
    tokens_.back().line = line_;
  }

  /// Moves to `pos`, counting lines.
  void advance(size_t pos) {
    line_ += static_cast<int>(std::count(view_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                         view_.begin() + static_cast<std::ptrdiff_t>(pos), '\n'));
    pos_ = pos;
  }

  size_t skip_space(size_t pos) const {
    size_t length = 0;
    while (pos < view_.size() && is_space(utf8_decode(view_, pos, &length))) pos += length;
    return pos;
  }

  /// Text up to the next tag, then the tag.
  void next_section() {
    size_t begin = view_.find('{', pos_);
    while (begin != std::string_view::npos && !at("{%", begin) && !at("{#", begin) && !at("{{", begin)) {
      begin = view_.find('{', begin + 1);
    }
    if (begin == std::string_view::npos) {
      add(TokenKind::kText, std::string(view_.substr(pos_)));
      advance(view_.size());
      return;
    }
    add_text(begin, begin + 2, !at("{{", begin));
    const char kind = view_[begin + 1];
    if (kind == '#') {
      comment(begin);
    } else if (kind == '%' && raw_begin(begin) != 0) {
      raw(raw_begin(begin));
    } else {
      tag(begin, kind == '%');
    }
  }

  /// The text [pos_, begin), trimmed for the tag whose sign, if any, is at `sign`.
  void add_text(size_t begin, size_t sign, bool block) {
    std::string_view text = view_.substr(pos_, begin - pos_);
    const char mark = sign < view_.size() ? view_[sign] : '\0';
    if (mark == '-') {
      text = rstrip(text);
    } else if (mark != '+' && block) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && rstrip(text.substr(start)).empty()) text = text.substr(0, start);
    }
    if (!text.empty()) add(TokenKind::kText, std::string(text));
    advance(begin);
  }

  static std::string_view rstrip(std::string_view text) {
    size_t end = 0, length = 0;
    for (size_t pos = 0; pos < text.size(); pos += length) {
      if (!is_space(utf8_decode(text, pos, &length))) end = pos + length;
    }
    return text.substr(0, end);
  }

  /// Past the end of a tag: `sign` is the character before the delimiter, `pos` the place after it.
  void close(char sign, size_t pos, bool block) {
    if (sign == '-') {
      pos = skip_space(pos);
    } else if (sign != '+' && block && pos < view_.size() && view_[pos] == '\n') {
      ++pos;
    }
    advance(pos);
    line_starting_ = pos > 0 && view_[pos - 1] == '\n';
  }

  void comment(size_t begin) {
    const size_t end = view_.find("#}", begin + 2);
    if (end == std::string_view::npos) error("a comment without an end");
    const char sign = end > begin + 2 ? view_[end - 1] : '\0';
    close(sign, end + 2, true);
  }

  /// The place after `{% raw %}` at `begin`, or 0 when it is another tag.
  size_t raw_begin(size_t begin) const { return keyword_tag(begin, "raw", nullptr); }

  /// The place after `{% word %}` at `begin`, or 0; `sign` receives the sign before the closing delimiter.
  size_t keyword_tag(size_t begin, std::string_view word, char* sign) const {
    size_t pos = begin + 2;
    if (pos < view_.size() && (view_[pos] == '-' || view_[pos] == '+')) ++pos;
    pos = skip_space(pos);
    if (!at(word, pos)) return 0;
    pos = skip_space(pos + word.size());
    char mark = '\0';
    if (pos < view_.size() && (view_[pos] == '-' || view_[pos] == '+')) mark = view_[pos++];
    if (!at("%}", pos)) return 0;
    if (sign != nullptr) *sign = mark;
    return pos + 2;
  }

  void raw(size_t after) {
    // A newline after {% raw %} stays; only `-` trims.
    close(view_[after - 3] == '-' ? '-' : '+', after, true);
    for (size_t end = view_.find("{%", pos_); end != std::string_view::npos; end = view_.find("{%", end + 1)) {
      char sign = '\0';
      const size_t past = keyword_tag(end, "endraw", &sign);
      if (past == 0) continue;
      add_text(end, end + 2, true);
      close(sign, past, true);
      return;
    }
    error("a raw block without an end");
  }

  void tag(size_t begin, bool block) {
    add(block ? TokenKind::kBlockBegin : TokenKind::kOutputBegin, {});
    size_t pos = begin + 2;
    if (pos < view_.size() && (view_[pos] == '-' || view_[pos] == '+')) ++pos;
    advance(pos);
    const std::string_view delimiter = block ? "%}" : "}}";
    brackets_.clear();
    while (true) {
      advance(skip_space(pos_));
      if (pos_ >= view_.size()) error("a tag without an end");
      if (brackets_.empty()) {
        const char c = view_[pos_];
        const bool signed_end = (c == '-' || (c == '+' && block)) && at(delimiter, pos_ + 1);
        if (signed_end || at(delimiter, pos_)) {
          add(block ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, {});
          close(signed_end ? c : '\0', pos_ + delimiter.size() + (signed_end ? 1 : 0), block);
          return;
        }
      }
      token();
    }
  }

  void token() {
    const char c = view_[pos_];
    if (is_digit(c)) {
      number();
    } else if (is_name_start(c)) {
      size_t end = pos_;
      while (end < view_.size() && (is_name_start(view_[end]) || is_digit(view_[end]))) ++end;
      add(TokenKind::kName, std::string(view_.substr(pos_, end - pos_)));
      advance(end);
    } else if (c == '"' || c == '\'') {
      string(c);
    } else {
      op();
    }
  }

  void op() {
    static constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                    ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const std::string_view text : kOperators) {
      if (!at(text, pos_)) continue;
      balance(text[0]);
      add(TokenKind::kOperator, std::string(text));
      advance(pos_ + text.size());
      return;
    }
    error("unexpected character in a tag");
  }

  void balance(char c) {
    if (c == '(') brackets_.push_back(')');
    if (c == '[') brackets_.push_back(']');
    if (c == '{') brackets_.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty() || brackets_.back() != c) error(std::string("unexpected '") + c + "'");
      brackets_.pop_back();
    }
  }

  void number() {
    size_t end = pos_;
    const auto digits = [&] {
      while (end < view_.size() &&
             (is_digit(view_[end]) || (view_[end] == '_' && end + 1 < view_.size() && is_digit(view_[end + 1])))) {
        ++end;
      }
    };
    digits();
    bool floating = false;
    // After a dot (`items.0.name`) only digits belong to the number.
    const bool attribute =
        !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
    if (!attribute && end + 1 < view_.size() && view_[end] == '.' && is_digit(view_[end + 1])) {
      floating = true;
      ++end;
      digits();
    }
    if (!attribute && end < view_.size() && (view_[end] == 'e' || view_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < view_.size() && (view_[exponent] == '+' || view_[exponent] == '-')) ++exponent;
      if (exponent < view_.size() && is_digit(view_[exponent])) {
        floating = true;
        end = exponent;
        digits();
      }
    }
    std::string text(view_.substr(pos_, end - pos_));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    add(floating ? TokenKind::kFloat : TokenKind::kInt, text);
    Token& token = tokens_.back();
    const auto result = floating ? std::from_chars(text.data(), text.data() + text.size(), token.number)
                                 : std::from_chars(text.data(), text.data() + text.size(), token.integer);
    if (result.ec != std::errc()) error("the number " + text + " is too large");
    advance(end);
  }

  void string(char quote) {
    std::string text;
    size_t pos = pos_ + 1;
    while (pos < view_.size() && view_[pos] != quote) {
      if (view_[pos] == '\\') {
        pos = escape(pos + 1, &text);
      } else {
        text.push_back(view_[pos++]);
      }
    }
    if (pos >= view_.size()) error("a string without an end");
    add(TokenKind::kString, std::move(text));
    advance(pos + 1);
  }

  /// Resolves the escape whose letter is at `pos`; returns the place after it.
  size_t escape(size_t pos, std::string* text) const {
    if (pos >= view_.size()) error("a string without an end");
    static constexpr std::string_view kLetters = "ntr\\'\"abfv";
    static constexpr std::string_view kMeanings = "\n\t\r\\'\"\a\b\f\v";
    const char c = view_[pos];
    if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
      text->push_back(kMeanings[known]);
      return pos + 1;
    }
    if (c == '\n') return pos + 1;
    if (c == 'x') return code_point(pos + 1, 2, 16, text);
    if (c == 'u') return code_point(pos + 1, 4, 16, text);
    if (c == 'U') return code_point(pos + 1, 8, 16, text);
    if (c >= '0' && c <= '7') {
      size_t digits = 1;
      while (digits < 3 && pos + digits < view_.size() && view_[pos + digits] >= '0' && view_[pos + digits] <= '7') {
        ++digits;
      }
      return code_point(pos, digits, 8, text);
    }
    text->push_back('\\');
    text->push_back(c);
    return pos + 1;
  }

  size_t code_point(size_t pos, size_t digits, int base, std::string* text) const {
    uint32_t value = 0;
    const std::string_view hex = view_.substr(std::min(pos, view_.size()), digits);
    const auto result = std::from_chars(hex.data(), hex.data() + hex.size(), value, base);
    if (hex.size() != digits || result.ec != std::errc() || result.ptr != hex.data() + digits || value > 0x10FFFF ||
        (value >= 0xD800 && value < 0xE000)) {
      error("a string escape that is not a character");
    }
    utf8_append(text, value);
    return pos + digits;
  }

  const std::string source_;
  const std::string_view view_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // the closing brackets that are due
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const std::string& source) {
  return Lexer(source).run();
}

}  // namespace llmd::jinja
