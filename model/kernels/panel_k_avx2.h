// Panel unpackers of the formats with 256 weights a block (8 groups). See panel_legacy_avx2.h for the constants and
// formats.h for the layouts.
//
// Scales are transposed like weights: a lane holds four scale bytes of its row.
// Only *_avx2.cc files may include this; unnamed namespace: see half.h.
#pragma once

#include "model/kernels/panel_legacy_avx2.h"

namespace llmd {
namespace {
namespace panel {

inline __m256i mask8(__m256i v, int bits) {
  return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(bits)));
}

// Shifts right (left when negative) inside 16-bit lanes; the caller masks what crosses a byte.
inline __m256i shift16(__m256i v, int right) {
  return right >= 0 ? _mm256_srli_epi16(v, right) : _mm256_slli_epi16(v, -right);
}

// The first 16 bytes of a Q4_K or Q5_K block: d, dmin and the 6-bit scales and minimums of 8 groups.
inline void unpack_scales_k(PanelRows rows, PanelGroup* groups) {
  __m256i head[4];
  transpose16(rows, 0, head);
  __m256 d, dmin;
  split_f16(head[0], d, dmin);
  __m256i scale[2] = {mask8(head[1], 63),
                      _mm256_or_si256(mask8(head[3], 15), mask8(_mm256_srli_epi32(head[1], 2), 0x30))};
  __m256i min[2] = {mask8(head[2], 63), _mm256_or_si256(mask8(_mm256_srli_epi32(head[3], 4), 15),
                                                        mask8(_mm256_srli_epi32(head[2], 2), 0x30))};
#pragma GCC unroll 8
  for (int g = 0; g < 8; g++) {
    _mm256_store_ps(groups[g].scale[0], _mm256_mul_ps(d, byte_u8(scale[g / 4], g % 4)));
    _mm256_store_ps(groups[g].min[0], _mm256_mul_ps(dmin, byte_u8(min[g / 4], g % 4)));
  }
}

struct Q4_K : llmd::Q4_K {
  static constexpr int kOffset = 0, kSpan = 8;
  static void unpack(PanelRows rows, PanelGroup* groups) {
    unpack_scales_k(rows, groups);
    for (int pair = 0; pair < 4; pair++) {
      __m256i q[8];
      transpose16(rows, 16 + 32 * pair, q);
      transpose16(rows, 32 + 32 * pair, q + 4);
#pragma GCC unroll 8
      for (int j = 0; j < 8; j++) {
        store256(groups[2 * pair].w[j], low_nibbles(q[j]));
        store256(groups[2 * pair + 1].w[j], high_nibbles(q[j]));
      }
    }
  }
};

struct Q5_K : llmd::Q5_K {
  static constexpr int kOffset = 0, kSpan = 4;
  static void unpack(PanelRows rows, PanelGroup* groups) {
    unpack_scales_k(rows, groups);
    __m256i high[8];
    transpose16(rows, 16, high);
    transpose16(rows, 32, high + 4);
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; pair++) {
      __m256i q[8];
      transpose16(rows, 48 + 32 * pair, q);
      transpose16(rows, 64 + 32 * pair, q + 4);
#pragma GCC unroll 8
      for (int j = 0; j < 8; j++) {  // bit g of the high byte to bit 4
        __m256i even = mask8(shift16(high[j], 2 * pair - 4), 16), odd = mask8(shift16(high[j], 2 * pair - 3), 16);
        store256(groups[2 * pair].w[j], _mm256_or_si256(low_nibbles(q[j]), even));
        store256(groups[2 * pair + 1].w[j], _mm256_or_si256(high_nibbles(q[j]), odd));
      }
    }
  }
};

struct Q6_K : llmd::Q6_K {
  static constexpr int kOffset = 32, kSpan = 2;
  static void unpack(PanelRows rows, PanelGroup* groups) {
    __m256i scales[4];
    transpose16(rows, 192, scales);
    __m256 d = last_f16(rows, 208);
    for (int n = 0; n < 2; n++) {
      __m256i high[8];
      transpose16(rows, 128 + 32 * n, high);
      transpose16(rows, 144 + 32 * n, high + 4);
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; odd++) {  // planes odd and odd + 2 share the bytes of their low nibbles
        __m256i low[8];
        transpose16(rows, 64 * n + 32 * odd, low);
        transpose16(rows, 64 * n + 32 * odd + 16, low + 4);
        PanelGroup &below = groups[4 * n + odd], &above = groups[4 * n + odd + 2];
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
          __m256i bits_below = mask8(shift16(high[j], 2 * odd - 4), 0x30);
          __m256i bits_above = mask8(shift16(high[j], 2 * odd), 0x30);
          store256(below.w[j], _mm256_or_si256(low_nibbles(low[j]), bits_below));
          store256(above.w[j], _mm256_or_si256(high_nibbles(low[j]), bits_above));
        }
      }
    }
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
      _mm256_store_ps(groups[k / 2].scale[k % 2], _mm256_mul_ps(d, byte_i8(scales[k / 4], k % 4)));
    }
  }
};

struct Q2_K : llmd::Q2_K {
  static constexpr int kOffset = 0, kSpan = 8;
  static void unpack(PanelRows rows, PanelGroup* groups) {
    __m256i packed[4];
    transpose16(rows, 0, packed);
    __m256 d, dmin;
    split_f16(gather_u32(rows, 80), d, dmin);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
      __m256 scale = byte_u8(low_nibbles(packed[k / 4]), k % 4), min = byte_u8(high_nibbles(packed[k / 4]), k % 4);
      _mm256_store_ps(groups[k / 2].scale[k % 2], _mm256_mul_ps(d, scale));
      _mm256_store_ps(groups[k / 2].min[k % 2], _mm256_mul_ps(dmin, min));
    }
    for (int n = 0; n < 2; n++) {
      __m256i q[8];
      transpose16(rows, 16 + 32 * n, q);
      transpose16(rows, 32 + 32 * n, q + 4);
#pragma GCC unroll 4
      for (int plane = 0; plane < 4; plane++) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) store256(groups[4 * n + plane].w[j], mask8(shift16(q[j], 2 * plane), 3));
      }
    }
  }
};

struct Q3_K : llmd::Q3_K {
  static constexpr int kOffset = 4, kSpan = 8;
  static void unpack_scales(PanelRows rows, PanelGroup* groups) {
    __m256i s[3] = {gather_u32(rows, 96), gather_u32(rows, 100), gather_u32(rows, 104)};
    __m256 d = last_f16(rows, 108);
#pragma GCC unroll 4
    for (int quad = 0; quad < 4; quad++) {
      __m256i low = quad < 2 ? low_nibbles(s[quad % 2]) : high_nibbles(s[quad % 2]);
      __m256i high = mask8(shift16(s[2], 2 * quad - 4), 0x30);
      __m256i scale = _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32));
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) {
        _mm256_store_ps(groups[2 * quad + k / 2].scale[k % 2], _mm256_mul_ps(d, byte_i8(scale, k)));
      }
    }
  }
  static void unpack(PanelRows rows, PanelGroup* groups) {
    unpack_scales(rows, groups);
    __m256i high[8];
    transpose16(rows, 0, high);
    transpose16(rows, 16, high + 4);
#pragma GCC unroll 2
    for (int n = 0; n < 2; n++) {
      __m256i q[8];
      transpose16(rows, 32 + 32 * n, q);
      transpose16(rows, 48 + 32 * n, q + 4);
#pragma GCC unroll 4
      for (int plane = 0; plane < 4; plane++) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
          __m256i bit = mask8(shift16(high[j], 4 * n + plane - 2), 4);
          store256(groups[4 * n + plane].w[j], _mm256_or_si256(mask8(shift16(q[j], 2 * plane), 3), bit));
        }
      }
    }
  }
};

struct IQ4_XS : llmd::IQ4_XS {
  static constexpr int kOffset = 0, kSpan = 0;
  static void unpack(PanelRows rows, PanelGroup* groups) {
    __m256 d, unused;
    split_f16(gather_u32(rows, 0), d, unused);
    __m256i high = _mm256_srli_epi32(gather_u32(rows, 0), 16), low = gather_u32(rows, 4);
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
      __m256i scale = _mm256_and_si256(_mm256_srli_epi32(low, 4 * g), _mm256_set1_epi32(15));
      __m256i bits = _mm256_and_si256(_mm256_srli_epi32(high, 2 * g), _mm256_set1_epi32(3));
      scale = _mm256_or_si256(scale, _mm256_slli_epi32(bits, 4));
      scale = _mm256_sub_epi32(scale, _mm256_set1_epi32(32));
      _mm256_store_ps(groups[g].scale[0], _mm256_mul_ps(d, _mm256_cvtepi32_ps(scale)));
      __m256i w[8];
      unpack_nibbles(rows, 8 + 16 * g, w);
      look_up(load128(kIq4Levels), w);
      store_weights(w, groups[g]);
    }
  }
};

}  // namespace panel
}  // namespace
}  // namespace llmd
