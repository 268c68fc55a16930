#include "model/tokenizer/byte_alphabet.h"

#include <array>

#include "model/tokenizer/utf8.h"

namespace llmd {
namespace {

constexpr char32_t kCodePointsMax = 0x100 + 68;

struct Alphabet {
  std::array<char32_t, 256> code_point{};
  std::array<int16_t, kCodePointsMax> byte{};

  constexpr Alphabet() {
    for (int16_t& entry : byte) entry = -1;
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; b++) {
      bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      code_point[b] = itself ? b : next++;
      byte[code_point[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 4);
  for (char c : bytes) {
    char32_t code_point = kAlphabet.code_point[static_cast<uint8_t>(c)];
    if (code_point < 0x80) {
      text += static_cast<char>(code_point);
    } else {  // at most U+0143: two bytes
      text += static_cast<char>(0xC0 | (code_point >> 6));
      text += static_cast<char>(0x80 | (code_point & 0x3F));
    }
  }
  return text;
}

std::string from_byte_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = decode_utf8(text, at);
    bool known =
        step.kind == Utf8Kind::kValid && step.code_point < kCodePointsMax && kAlphabet.byte[step.code_point] >= 0;
    if (known) {
      bytes += static_cast<char>(kAlphabet.byte[step.code_point]);
    } else {
      bytes.append(text, at, step.length);
    }
    at += step.length;
  }
  return bytes;
}

}  // namespace llmd
