// Panel unpackers of the formats with 32 weights a block, and the shape of their dot product (dot_avx2.h).
//
// kOffset: stored weights are unsigned and `kOffset` too large. kSpan: how many products of a weight with +-127 fit in
// an int16 lane, in vectors of pairs; 0: weights are signed bytes. Block layouts: formats.h.
// Only *_avx2.cc files may include this; unnamed namespace: see half.h.
#pragma once

#include "model/kernels/formats.h"
#include "model/kernels/panel_avx2.h"

namespace llmd {
namespace {
namespace panel {

// Nibbles at `offset`, element j below and j + 16 above.
inline void unpack_nibbles(PanelRows rows, ptrdiff_t offset, __m256i w[8]) {
  __m256i q[4];
  transpose16(rows, offset, q);
#pragma GCC unroll 4
  for (int c = 0; c < 4; c++) {
    w[c] = low_nibbles(q[c]);
    w[c + 4] = high_nibbles(q[c]);
  }
}

// Adds 16 where the bit of the element is set in the row's 32 bits. Byte b of them serves vectors 2b (its low four
// bits) and 2b + 1: copied to all bytes of the lane, one bit kept in each, and any bit turned into 16 by a table.
inline void add_fifth_bits(__m256i bits, __m256i w[8]) {
  const __m256i spread =
      _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
  const __m256i one_each = _mm256_set1_epi32(0x08040201);
  const __m256i sixteen = _mm256_setr_epi8(0, 16, 16, 0, 16, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 0, 16, 0, 0,
                                           0, 16, 0, 0, 0, 0, 0, 0, 0);
#pragma GCC unroll 4
  for (int b = 0; b < 4; b++) {
    __m256i bytes = _mm256_shuffle_epi8(bits, _mm256_add_epi8(spread, _mm256_set1_epi8(static_cast<char>(b))));
    __m256i low = _mm256_and_si256(bytes, one_each), high = _mm256_and_si256(_mm256_srli_epi32(bytes, 4), one_each);
    w[2 * b] = _mm256_or_si256(w[2 * b], _mm256_shuffle_epi8(sixteen, low));
    w[2 * b + 1] = _mm256_or_si256(w[2 * b + 1], _mm256_shuffle_epi8(sixteen, high));
  }
}

inline void look_up(const __m128i levels, __m256i w[8]) {
  __m256i table = _mm256_broadcastsi128_si256(levels);
#pragma GCC unroll 8
  for (int j = 0; j < 8; j++) w[j] = _mm256_shuffle_epi8(table, w[j]);
}

inline void store_weights(const __m256i w[8], PanelGroup& group) {
#pragma GCC unroll 8
  for (int j = 0; j < 8; j++) store256(group.w[j], w[j]);
}

inline __m256 negate(__m256 v) {
  return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
}

struct Q8_0 : llmd::Q8_0 {
  static constexpr int kOffset = 0, kSpan = 0;
  static void unpack(PanelRows rows, PanelGroup* group) {
    __m256i w[8];
    transpose16(rows, 2, w);
    transpose16(rows, 18, w + 4);
    store_weights(w, *group);
    _mm256_store_ps(group->scale[0], first_f16(rows, 0));
  }
};

struct Q4_0 : llmd::Q4_0 {
  static constexpr int kOffset = 8, kSpan = 8;
  static void unpack(PanelRows rows, PanelGroup* group) {
    __m256i w[8];
    unpack_nibbles(rows, 2, w);
    store_weights(w, *group);
    _mm256_store_ps(group->scale[0], first_f16(rows, 0));
  }
};

struct Q4_1 : llmd::Q4_1 {
  static constexpr int kOffset = 0, kSpan = 8;
  static void unpack(PanelRows rows, PanelGroup* group) {
    __m256i w[8];
    unpack_nibbles(rows, 4, w);
    store_weights(w, *group);
    __m256i first, second;
    transpose8(rows, 0, first, second);
    __m256 scale, min;
    split_f16(first, scale, min);
    _mm256_store_ps(group->scale[0], scale);
    _mm256_store_ps(group->min[0], negate(min));
  }
};

struct Q5_0 : llmd::Q5_0 {
  static constexpr int kOffset = 16, kSpan = 4;
  static void unpack(PanelRows rows, PanelGroup* group) {
    __m256i w[8];
    unpack_nibbles(rows, 6, w);
    __m256i first, second;  // d, then the fifth bits across the two
    transpose8(rows, 0, first, second);
    add_fifth_bits(_mm256_or_si256(_mm256_srli_epi32(first, 16), _mm256_slli_epi32(second, 16)), w);
    store_weights(w, *group);
    _mm256_store_ps(group->scale[0], low_f16(first));
  }
};

struct Q5_1 : llmd::Q5_1 {
  static constexpr int kOffset = 0, kSpan = 4;
  static void unpack(PanelRows rows, PanelGroup* group) {
    __m256i w[8];
    unpack_nibbles(rows, 8, w);
    __m256i first, second;
    transpose8(rows, 0, first, second);
    add_fifth_bits(second, w);
    store_weights(w, *group);
    __m256 scale, min;
    split_f16(first, scale, min);
    _mm256_store_ps(group->scale[0], scale);
    _mm256_store_ps(group->min[0], negate(min));
  }
};

struct IQ4_NL : llmd::IQ4_NL {
  static constexpr int kOffset = 0, kSpan = 0;
  static void unpack(PanelRows rows, PanelGroup* group) {
    __m256i w[8];
    unpack_nibbles(rows, 2, w);
    look_up(load128(kIq4Levels), w);
    store_weights(w, *group);
    _mm256_store_ps(group->scale[0], first_f16(rows, 0));
  }
};

struct MXFP4 : llmd::MXFP4 {
  static constexpr int kOffset = 12, kSpan = 4;
  static void unpack(PanelRows rows, PanelGroup* group) {
    __m256i w[8];
    unpack_nibbles(rows, 1, w);
    look_up(_mm_add_epi8(load128(kMxfp4Levels), _mm_set1_epi8(kOffset)), w);
    store_weights(w, *group);
    __m256i first, second;
    transpose8(rows, 0, first, second);
    __m256i e = _mm256_and_si256(first, _mm256_set1_epi32(255)), one = _mm256_set1_epi32(1);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);  // see mxfp4_scale
    __m256i bits = _mm256_blendv_epi8(subnormal, normal, _mm256_cmpgt_epi32(e, one));
    _mm256_store_ps(group->scale[0], _mm256_castsi256_ps(bits));
  }
};

}  // namespace panel
}  // namespace
}  // namespace llmd
