// decode_utf8: one step through text that may not be UTF-8.
//
// Bad bytes are grouped as Unicode recommends (chapter 3, "maximal subpart"): the longest prefix of a well-formed
// sequence, or one byte. `kIncomplete` is such a prefix that ends with the text, so more bytes could still complete it.
// Pure function; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmd {

enum class Utf8Kind : uint8_t { kValid, kInvalid, kIncomplete };

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kInvalid;
  uint32_t length = 1;      // bytes taken, at least 1
  char32_t code_point = 0;  // kValid only
};

/// The step at text[at]; `at` is inside the text.
inline Utf8Step decode_utf8(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Kind::kValid, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::kInvalid, 1, 0};
  uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;   // no overlong forms
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;  // no surrogates, nothing above U+10FFFF
  char32_t code_point = static_cast<char32_t>(lead & (0x7F >> length));
  for (uint32_t i = 1; i < length; i++) {
    if (at + i >= text.size()) return {Utf8Kind::kIncomplete, i, 0};
    uint8_t next = byte(i);
    if (next < low || next > high) return {Utf8Kind::kInvalid, i, 0};
    code_point = (code_point << 6) | (next & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::kValid, length, code_point};
}

/// Whether all of it is well-formed.
inline bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    if (step.kind != Utf8Kind::kValid) return false;
    at += step.length;
  }
  return true;
}

}  // namespace llmd
