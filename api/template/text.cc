#include "api/template/text.h"

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cwctype>

#include <array>
#include <charconv>

namespace llmd::jinja {
namespace {

constexpr char32_t kBadByte = 0x110000;  // past the last code point

/// Case tables of the C library; "C.UTF-8" is always there on Debian, and without it only ASCII has case.
locale_t case_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

}  // namespace

char32_t utf8_decode(std::string_view text, size_t pos, size_t* length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(pos);
  *length = 1;
  if (lead < 0x80) return lead;
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || pos + size > text.size()) return kBadByte + lead;
  char32_t character = lead & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(pos + i) & 0xC0) != 0x80) return kBadByte + lead;
    character = (character << 6) | (byte(pos + i) & 0x3Fu);
  }
  const char32_t least = size == 4 ? 0x10000 : size == 3 ? 0x800 : 0x80;
  const bool surrogate = character >= 0xD800 && character < 0xE000;
  if (character < least || character > 0x10FFFF || surrogate) return kBadByte + lead;
  *length = size;
  return character;
}

void utf8_append(std::string* text, char32_t c) {
  const auto add = [text](char32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (c >= kBadByte) {
    add(c - kBadByte);
  } else if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | (c >> 6));
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | (c >> 12));
    add(0x80 | ((c >> 6) & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | (c >> 18));
    add(0x80 | ((c >> 12) & 0x3F));
    add(0x80 | ((c >> 6) & 0x3F));
    add(0x80 | (c & 0x3F));
  }
}

size_t utf8_count(std::string_view text) {
  size_t count = 0, length = 0;
  for (size_t pos = 0; pos < text.size(); pos += length, ++count) utf8_decode(text, pos, &length);
  return count;
}

bool is_ascii(std::string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

char32_t to_upper(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  if (c >= kBadByte || case_locale() == nullptr) return c;
  return static_cast<char32_t>(towupper_l(static_cast<wint_t>(c), case_locale()));
}

char32_t to_lower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (c >= kBadByte || case_locale() == nullptr) return c;
  return static_cast<char32_t>(towlower_l(static_cast<wint_t>(c), case_locale()));
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer.data(), static_cast<size_t>(end - buffer.data()));
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t sign = text[e + 1] == '+' ? 1 : 0;
  std::from_chars(text.data() + e + 1 + sign, text.data() + text.size(), exponent);
  // Python switches to the exponent form below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) {
    std::string result(text.substr(0, e + 2));
    const int magnitude = std::abs(exponent);
    return result + (magnitude < 10 ? "0" : "") + std::to_string(magnitude);
  }
  const auto fixed = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed).ptr;
  std::string result(buffer.data(), static_cast<size_t>(fixed - buffer.data()));
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}

}  // namespace llmd::jinja
