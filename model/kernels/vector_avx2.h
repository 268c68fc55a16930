// Small AVX2 pieces shared by the float kernels: loads of any length, sums in one order, exp.
//
// A tail shorter than 8 is copied to a padded vector and goes through the same instructions as every other vector, so
// the value of an element never depends on where in a row it stands.
// Only *_avx2.cc files may include this; unnamed namespace: see half.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace llmd {
namespace {

/// Lanes below n are all ones, n in [0, 8].
inline __m256i lane_mask(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline __m256 load_floats(const float* p, int64_t n) {
  return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lane_mask(n));
}

inline void store_floats(float* p, __m256 v, int64_t n) {
  if (n >= 8) {
    _mm256_storeu_ps(p, v);
  } else {
    _mm256_maskstore_ps(p, lane_mask(n), v);
  }
}

/// ((v0+v4) + (v2+v6)) + ((v1+v5) + (v3+v7)), always.
inline float sum_lanes(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

inline float max_lanes(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/// e^x within 2 units in the last place; 0 below -104, infinity above 88.8, NaN stays NaN.
/// x = n ln 2 + r with |r| <= ln 2 / 2, the Taylor series of e^r to r^7 (next term below 6e-9), times 2^n in two steps
/// so that results outside the normal range round once.
inline __m256 exp_lanes(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(-105.0f), _mm256_min_ps(_mm256_set1_ps(90.0f), x));  // a NaN passes both
  __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p0f)), _MM_FROUND_TO_NEAREST_INT | 8);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), x);  // ln 2 in two parts; the first product is exact
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
  __m256 p = _mm256_set1_ps(1.0f / 5040);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  __m256i power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1);
  __m256i bias = _mm256_set1_epi32(127);
  __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(power, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

}  // namespace
}  // namespace llmd
