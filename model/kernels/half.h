// Half precision numbers in plain integer arithmetic: IEEE binary16 (F16) and bfloat16 (BF16) to and from float.
//
// Rounding is to nearest, ties to even; subnormals are honoured (small block scales are often subnormal), values out of
// range become infinities, a NaN stays a NaN and becomes quiet. The F16C instructions give the same bits.
// The functions live in an unnamed namespace on purpose: this header is compiled into files with different instruction
// sets, and the linker must never keep an AVX2 copy of a function for the scalar level. Pure functions, any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace llmd {
namespace {

[[maybe_unused]] inline float f16_to_f32(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  uint32_t exponent = (half >> 10) & 31;
  uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // exact: zero or a subnormal half
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa ? 0x400000 | (mantissa << 13) : 0));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

[[maybe_unused]] inline uint16_t f32_to_f16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  } else if (magnitude >= 0x477ff000) {  // 65520 and above round to infinity
    half = 0x7c00;
  } else if (magnitude < 0x38800000) {  // below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  } else {
    half = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

[[maybe_unused]] inline float bf16_to_f32(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

[[maybe_unused]] inline uint16_t f32_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// Reads a number that may have any alignment.
template <typename T>
inline T load_as(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

[[maybe_unused]] inline float load_f16(const uint8_t* bytes) {
  return f16_to_f32(load_as<uint16_t>(bytes));
}

/// Nearest integer, ties to even, of |value| < 2^22: the addition rounds, the subtraction is exact.
[[maybe_unused]] inline float round_even(float value) {
  return (value + 0x1.8p23f) - 0x1.8p23f;
}

}  // namespace
}  // namespace llmd
