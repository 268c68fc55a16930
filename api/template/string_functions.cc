#include "api/template/string_functions.h"

#include <algorithm>
#include <array>
#include <string>

#include "api/template/printing.h"
#include "api/template/text.h"

namespace llmd::jinja {
namespace {

bool is_letter(char32_t c) {
  return to_upper(c) != c || to_lower(c) != c;
}

/// Splits at white space, dropping empty pieces; after `count` pieces the rest is one piece.
Value split_space(Runtime& runtime, const TemplateString& text, int64_t count, bool from_right) {
  std::vector<std::pair<size_t, size_t>> words;  // begin, end
  size_t length = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size(); pos += length) {
    const bool space = is_space(utf8_decode(text.text(), pos, &length));
    if (!space && !inside) {
      runtime.step();
      words.emplace_back(pos, pos);
    }
    if (!space) words.back().second = pos + length;
    inside = !space;
  }
  const Value result = runtime.list({});
  const size_t limit = count < 0 ? words.size() : std::min(words.size(), static_cast<size_t>(count));
  const auto add = [&](size_t begin, size_t end) {
    runtime.append(&result.list(), runtime.string(text.substr(begin, end - begin)));
  };
  if (!from_right) {
    for (size_t i = 0; i < limit; ++i) add(words[i].first, words[i].second);
    if (limit < words.size()) add(words[limit].first, text.size());
  } else {
    const size_t first = words.size() - limit;
    if (first > 0) add(0, words[first - 1].second);
    for (size_t i = first; i < words.size(); ++i) add(words[i].first, words[i].second);
  }
  return result;
}

bool breaks_line(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool separates_words(char32_t c) {
  return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

}  // namespace

TemplateString strip(Runtime& runtime, const TemplateString& text, Side side, const TemplateString* characters) {
  runtime.step_bytes(text.size());
  std::vector<char32_t> set;
  size_t length = 0;
  if (characters != nullptr) {
    for (size_t pos = 0; pos < characters->size(); pos += length) {
      set.push_back(utf8_decode(characters->text(), pos, &length));
    }
  }
  const auto dropped = [&](char32_t c) {
    return characters == nullptr ? is_space(c) : std::find(set.begin(), set.end(), c) != set.end();
  };
  size_t begin = 0, end = text.size();
  if (side != Side::kRight) {
    while (begin < end && dropped(utf8_decode(text.text(), begin, &length))) begin += length;
  }
  if (side == Side::kLeft) return text.substr(begin, end - begin);
  end = begin;
  for (size_t pos = begin; pos < text.size(); pos += length) {
    runtime.step(set.size() / 64);
    if (!dropped(utf8_decode(text.text(), pos, &length))) end = pos + length;
  }
  return text.substr(begin, end - begin);
}

TemplateString replace(Runtime& runtime, const TemplateString& text, std::string_view from, const TemplateString& to,
                       int64_t count) {
  runtime.step_bytes(text.size());
  TemplateString result;
  size_t pos = 0, plain = 0, length = 0;
  while (count != 0) {
    const size_t found = text.text().find(from, pos);
    if (found == std::string::npos) break;
    runtime.step();
    runtime.check_length(result.size() + (found - plain) + to.size());
    result.append(text, plain, found - plain);
    result.append(to);
    plain = found + from.size();
    pos = plain;
    if (from.empty()) {  // between all characters, and at the end
      if (found == text.size()) break;
      utf8_decode(text.text(), found, &length);
      pos = found + length;
    }
    if (count > 0) --count;
  }
  result.append(text, plain, std::string::npos);
  return result;
}

Value split(Runtime& runtime, const TemplateString& text, const TemplateString* separator, int64_t count,
            bool from_right) {
  runtime.step_bytes(text.size());
  if (separator == nullptr) return split_space(runtime, text, count, from_right);
  if (separator->empty()) fail("split() with an empty separator");
  const std::string& mark = separator->text();
  const Value result = runtime.list({});
  const auto add = [&](size_t begin, size_t end) {
    runtime.append(&result.list(), runtime.string(text.substr(begin, end - begin)));
  };
  if (!from_right) {
    size_t begin = 0, found = 0;
    for (; count != 0 && (found = text.text().find(mark, begin)) != std::string::npos; count -= count > 0 ? 1 : 0) {
      add(begin, found);
      begin = found + mark.size();
    }
    add(begin, text.size());
  } else {
    size_t end = text.size();
    while (count != 0 && end >= mark.size()) {
      const size_t found = text.text().rfind(mark, end - mark.size());
      if (found == std::string::npos) break;
      add(found + mark.size(), end);
      end = found;
      if (count > 0) --count;
    }
    add(0, end);
    std::reverse(result.list().items.begin(), result.list().items.end());
  }
  return result;
}

Value split_lines(Runtime& runtime, const TemplateString& text, bool keep_ends) {
  const Value result = runtime.list({});
  size_t begin = 0, length = 0;
  const auto add = [&](size_t end) { runtime.append(&result.list(), runtime.string(text.substr(begin, end - begin))); };
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = utf8_decode(text.text(), pos, &length);
    size_t next = pos + length;
    if (breaks_line(c)) {
      if (c == '\r' && next < text.size() && text.text()[next] == '\n') ++next;
      add(keep_ends ? next : pos);
      begin = next;
    }
    pos = next;
  }
  if (begin < text.size()) add(text.size());
  return result;
}

TemplateString join(Runtime& runtime, const List& items, const TemplateString& separator) {
  TemplateString result;
  for (size_t i = 0; i < items.items.size(); ++i) {
    runtime.step_bytes(separator.size());
    if (i > 0) result.append(separator);
    append_text(runtime, items.items[i], &result);
    runtime.check_length(result.size());
  }
  return result;
}

TemplateString change_case(Runtime& runtime, const TemplateString& text, Case how) {
  runtime.step(1 + text.size() / 16);
  TemplateString result;
  bool word_start = true;
  size_t length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length) {
    const char32_t c = utf8_decode(text.text(), pos, &length);
    const bool upper = how == Case::kUpper || (how != Case::kLower && word_start);
    word_start = (how == Case::kTitle && !is_letter(c)) || (how == Case::kTitleWords && separates_words(c));
    std::string changed;
    utf8_append(&changed, upper ? to_upper(c) : to_lower(c));
    result.append(changed, text.trusted_at(pos));
  }
  return result;
}

TemplateString escape_html(Runtime& runtime, const TemplateString& text) {
  static constexpr std::string_view kSpecial = "&<>'\"";
  static constexpr std::array<std::string_view, 5> kEntities = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  runtime.step_bytes(text.size());
  TemplateString result;
  size_t plain = 0;
  for (size_t pos = 0; (pos = text.text().find_first_of(kSpecial, pos)) != std::string::npos; ++pos) {
    result.append(text, plain, pos - plain);
    result.append(kEntities[kSpecial.find(text.text()[pos])], text.trusted_at(pos));
    plain = pos + 1;
  }
  result.append(text, plain, std::string::npos);
  runtime.check_length(result.size());
  return result;
}

// As Python's splitlines() and join: whatever breaks a line becomes a line feed, and "\r" at the end of the text is one
// break together with the line feed that the filter adds there.
TemplateString indent(Runtime& runtime, const TemplateString& text, const TemplateString& prefix, bool first,
                      bool blank) {
  runtime.step_bytes(text.size());
  TemplateString result;
  if (first) result.append(prefix);
  size_t begin = 0, length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length) {
    if (!breaks_line(utf8_decode(text.text(), pos, &length))) continue;
    result.append(text, begin, pos - begin);
    if (text.text()[pos] == '\r' && (pos + 1 == text.size() || text.text()[pos + 1] == '\n')) length = 2;
    begin = pos + length;
    if (begin > text.size()) return result;
    result.append("\n", text.trusted_at(pos));
    size_t next_length = 0;
    const bool is_blank = begin == text.size() || breaks_line(utf8_decode(text.text(), begin, &next_length));
    if (blank || !is_blank) {
      runtime.step_bytes(prefix.size());
      result.append(prefix);
    }
    runtime.check_length(result.size());
  }
  result.append(text, begin, std::string::npos);
  runtime.check_length(result.size());
  return result;
}

}  // namespace llmd::jinja
