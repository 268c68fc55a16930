#include "io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace llmd {
namespace {

using Table = std::array<uint32_t, 256>;

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

// What a register that holds only the byte `i` becomes after eight shifts.
constexpr Table make_byte_table() {
  Table table{};
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ ((value & 1) ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}

constexpr Table kByteTable = make_byte_table();

#if defined(__x86_64__)

constexpr size_t kStreamBytes = 1024;  // of each of the three streams

// The register after kStreamBytes zero bytes. That is linear over xor, so the register may be taken byte by byte.
struct Skip {
  std::array<Table, 4> tables{};

  Skip() {
    std::array<uint32_t, 32> of_bit{};
    for (size_t bit = 0; bit < 32; bit++) {
      uint32_t value = 1u << bit;
      for (size_t i = 0; i < kStreamBytes; i++) value = (value >> 8) ^ kByteTable[value & 0xff];
      of_bit[bit] = value;
    }
    for (size_t byte = 0; byte < 4; byte++)
      for (size_t i = 0; i < 256; i++)
        for (size_t bit = 0; bit < 8; bit++)
          if (i >> bit & 1) tables[byte][i] ^= of_bit[byte * 8 + bit];
  }
  uint32_t operator()(uint32_t value) const {
    return tables[0][value & 0xff] ^ tables[1][value >> 8 & 0xff] ^ tables[2][value >> 16 & 0xff] ^
           tables[3][value >> 24];
  }
};

uint64_t word_at(const std::byte* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// The instruction takes three cycles and can be started in each: three streams, joined every 3 KiB.
__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(std::span<const std::byte> bytes, uint32_t crc) {
  static const Skip skip;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  uint64_t a = ~crc;
  for (; left >= 3 * kStreamBytes; at += 3 * kStreamBytes, left -= 3 * kStreamBytes) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < kStreamBytes; i += 8) {
      a = _mm_crc32_u64(a, word_at(at + i));
      b = _mm_crc32_u64(b, word_at(at + kStreamBytes + i));
      c = _mm_crc32_u64(c, word_at(at + 2 * kStreamBytes + i));
    }
    a = skip(skip(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^ static_cast<uint32_t>(c);
  }
  for (; left >= 8; at += 8, left -= 8) a = _mm_crc32_u64(a, word_at(at));
  uint32_t tail = static_cast<uint32_t>(a);
  for (; left > 0; at++, left--) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*at));
  return ~tail;
}

#endif

}  // namespace

uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t crc) {
  uint32_t value = ~crc;
  for (std::byte byte : bytes) value = (value >> 8) ^ kByteTable[(value ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~value;
}

bool crc32c_is_hardware() {
#if defined(__x86_64__)
  static const bool hardware = __builtin_cpu_supports("sse4.2");
  return hardware;
#else
  return false;
#endif
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (crc32c_is_hardware()) return crc32c_by_instruction(bytes, crc);
#endif
  return crc32c_by_table(bytes, crc);
}

}  // namespace llmd
