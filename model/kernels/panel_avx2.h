// Panels: 8 weight rows side by side, so that one AVX2 lane is one output.
//
//   row 0  [ w0 w1 w2 w3 | w4 ...          PanelGroup.w[0] = [ row 0: w0..w3 | row 1: w0..w3 | ... | row 7: w0..w3 ]
//   row 1  [ w0 w1 w2 w3 | w4 ...    ->    PanelGroup.w[1] = [ row 0: w4..w7 | row 1: w4..w7 | ...
//   ...                                    ...
//   row 7  [ w0 w1 w2 w3 | w4 ...          PanelGroup.scale[h] = the 8 rows' scales of half h
//
// Four activations broadcast to every lane then meet four weights of each of 8 rows in one instruction, a group of 32
// inputs is summed without a horizontal step, and the float chain of an output lives in its own lane: the same chain,
// whoever its neighbours are. A group is unpacked once and used for every activation row of the call.
// All loads stay inside the blocks of the 8 rows. Only *_avx2.cc files may include this; unnamed namespace: see half.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "model/kernels/half.h"

namespace llmd {
namespace {

constexpr int kPanelRows = 8;

struct alignas(32) PanelGroup {
  uint8_t w[8][32];
  float scale[2][8];
  float min[2][8];
};

/// One block of each of 8 rows at equal distances: all addresses come from two registers.
struct PanelRows {
  const uint8_t* first;
  ptrdiff_t stride;
  const uint8_t* operator[](int r) const { return first + r * stride; }
};

inline __m256i load256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline __m128i load128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline void store256(void* p, __m256i v) {
  _mm256_store_si256(static_cast<__m256i*>(p), v);
}

/// 16 bytes at `offset` of each of 8 rows: out[c] holds bytes 4c..4c+3 of every row.
inline void transpose16(PanelRows rows, ptrdiff_t offset, __m256i out[4]) {
  __m256i a[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; r++) {
    a[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(rows[r] + offset)), load128(rows[r + 4] + offset), 1);
  }
  __m256i t0 = _mm256_unpacklo_epi32(a[0], a[1]), t1 = _mm256_unpacklo_epi32(a[2], a[3]);
  __m256i t2 = _mm256_unpackhi_epi32(a[0], a[1]), t3 = _mm256_unpackhi_epi32(a[2], a[3]);
  out[0] = _mm256_unpacklo_epi64(t0, t1);
  out[1] = _mm256_unpackhi_epi64(t0, t1);
  out[2] = _mm256_unpacklo_epi64(t2, t3);
  out[3] = _mm256_unpackhi_epi64(t2, t3);
}

inline __m256i gather_u32(PanelRows rows, ptrdiff_t offset) {
  return _mm256_setr_epi32(load_as<int>(rows[0] + offset), load_as<int>(rows[1] + offset),
                           load_as<int>(rows[2] + offset), load_as<int>(rows[3] + offset),
                           load_as<int>(rows[4] + offset), load_as<int>(rows[5] + offset),
                           load_as<int>(rows[6] + offset), load_as<int>(rows[7] + offset));
}

/// 8 bytes at `offset` of each of 8 rows, as two vectors of 4 bytes a row.
inline void transpose8(PanelRows rows, ptrdiff_t offset, __m256i& first, __m256i& second) {
  __m128d a[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; r++) {  // rows 0,1  2,3  4,5  6,7
    a[r] = _mm_set_pd(load_as<double>(rows[2 * r + 1] + offset), load_as<double>(rows[2 * r] + offset));
  }
  __m256 even = _mm256_castpd_ps(_mm256_insertf128_pd(_mm256_castpd128_pd256(a[0]), a[2], 1));
  __m256 odd = _mm256_castpd_ps(_mm256_insertf128_pd(_mm256_castpd128_pd256(a[1]), a[3], 1));
  first = _mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0x88));
  second = _mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0xdd));
}

/// The low 16 bits of every lane as a half float.
inline __m256 low_f16(__m256i lanes) {
  __m256i half = _mm256_and_si256(lanes, _mm256_set1_epi32(0xffff));
  return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(half, half), 0xd8)));
}

/// The half float at `offset`. Blocks are longer than 8 bytes: what follows it is read with it, or what precedes it.
inline __m256 first_f16(PanelRows rows, ptrdiff_t offset) {
  __m256i first, second;
  transpose8(rows, offset, first, second);
  return low_f16(first);
}
inline __m256 last_f16(PanelRows rows, ptrdiff_t offset) {
  __m256i first, second;
  transpose8(rows, offset - 6, first, second);
  return low_f16(_mm256_srli_epi32(second, 16));
}

/// Two half floats per lane (low, high) to two vectors.
inline void split_f16(__m256i pairs, __m256& low, __m256& high) {
  __m256i packed =
      _mm256_packus_epi32(_mm256_and_si256(pairs, _mm256_set1_epi32(0xffff)), _mm256_srli_epi32(pairs, 16));
  packed = _mm256_permute4x64_epi64(packed, 0xd8);
  low = _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
  high = _mm256_cvtph_ps(_mm256_extracti128_si256(packed, 1));
}

/// Byte k of every lane as a float, unsigned or signed.
inline __m256 byte_u8(__m256i lanes, int k) {
  return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(lanes, 8 * k), _mm256_set1_epi32(0xff)));
}
inline __m256 byte_i8(__m256i lanes, int k) {
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(lanes, 24 - 8 * k), 24));
}

inline __m256i low_nibbles(__m256i v) {
  return _mm256_and_si256(v, _mm256_set1_epi8(15));
}
inline __m256i high_nibbles(__m256i v) {
  return _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
}

}  // namespace
}  // namespace llmd
