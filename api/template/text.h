// Text: the character-level knowledge the template interpreter needs to behave like Python.
//
// UTF-8 decoding (a byte that begins no valid sequence counts as one character), Python's white space, simple upper and
// lower case, and Python's shortest form of a float. Plain functions without state; any thread may call them. None of
// them fails: any bytes are accepted.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmd::jinja {

/// The character at `pos` and its length in bytes (at least 1). A bad byte gives itself plus 0x110000.
char32_t utf8_decode(std::string_view text, size_t pos, size_t* length);
void utf8_append(std::string* text, char32_t character);
/// Characters in `text`.
size_t utf8_count(std::string_view text);
bool is_ascii(std::string_view text);

/// What str.isspace() and str.strip() take as white space.
bool is_space(char32_t character);
char32_t to_upper(char32_t character);
char32_t to_lower(char32_t character);

/// repr(float): the shortest digits that read back as the same value.
std::string float_text(double value);

}  // namespace llmd::jinja
