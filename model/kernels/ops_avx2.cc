// Vector operations of a layer. Those of one element each (add, axpy, blend, rope) give the scalar level's bits; the
// sums of rms_norm and softmax_block run in 8 lanes (4 x 8 for rms_norm) in order and close with sum_lanes.
#include "model/kernels/kernels.h"
#include "model/kernels/levels.h"
#include "model/kernels/vector_avx2.h"

namespace llmd {
namespace {

void rms_norm(const float* x, const float* weight, float epsilon, int64_t n, float* out) {
  __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t i = 0; i < n; i += 32) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < 4; j++) {
      int64_t left = n - i - 8 * j;
      if (left <= 0) break;
      __m256 v = load_floats(x + i + 8 * j, left);
      acc[j] = _mm256_fmadd_ps(v, v, acc[j]);
    }
  }
  float sum = sum_lanes(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3])));
  __m128 root = _mm_sqrt_ss(_mm_set_ss(sum / static_cast<float>(n) + epsilon));
  __m256 scale = _mm256_set1_ps(1.0f / _mm_cvtss_f32(root));
  for (int64_t i = 0; i < n; i += 8) {
    __m256 v = _mm256_mul_ps(load_floats(x + i, n - i), scale);
    store_floats(out + i, _mm256_mul_ps(v, load_floats(weight + i, n - i)), n - i);
  }
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  const __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
  for (int64_t i = 0; i < n; i += 8) {
    __m256 g = load_floats(gate + i, n - i);
    __m256 e = exp_lanes(_mm256_xor_ps(g, sign));
    __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, e));
    store_floats(out + i, _mm256_mul_ps(silu, load_floats(up + i, n - i)), n - i);
  }
}

void add(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += 8) {
    store_floats(y + i, _mm256_add_ps(load_floats(y + i, n - i), load_floats(x + i, n - i)), n - i);
  }
}

void axpy(float a, const float* x, int64_t n, float* y) {
  const __m256 factor = _mm256_set1_ps(a);
  for (int64_t i = 0; i < n; i += 8) {
    __m256 product = _mm256_mul_ps(factor, load_floats(x + i, n - i));
    store_floats(y + i, _mm256_add_ps(load_floats(y + i, n - i), product), n - i);
  }
}

void blend(float a, const float* x, float b, int64_t n, float* y) {
  const __m256 of_x = _mm256_set1_ps(a), of_y = _mm256_set1_ps(b);
  for (int64_t i = 0; i < n; i += 8) {
    __m256 product = _mm256_mul_ps(load_floats(x + i, n - i), of_x);
    store_floats(y + i, _mm256_add_ps(_mm256_mul_ps(load_floats(y + i, n - i), of_y), product), n - i);
  }
}

/// Each of 4 values twice.
__m256 twice(__m256 v) {
  return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}

void rope(float* x, const float* cos, const float* sin, int64_t pairs) {
  for (int64_t i = 0; i < pairs; i += 4) {
    int64_t left = pairs - i;
    __m256 c = twice(load_floats(cos + i, left < 4 ? left : 4)), s = twice(load_floats(sin + i, left < 4 ? left : 4));
    __m256 v = load_floats(x + 2 * i, 2 * left);
    __m256 swapped = _mm256_permute_ps(v, 0xb1);
    store_floats(x + 2 * i, _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(swapped, s)), 2 * left);
  }
}

KernelTable::MaxSum softmax_block(float* x, int64_t n) {
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 max = lowest;
  for (int64_t i = 0; i < n; i += 8) {
    __m256 inside = _mm256_castsi256_ps(lane_mask(n - i < 8 ? n - i : 8));
    max = _mm256_max_ps(_mm256_blendv_ps(lowest, load_floats(x + i, n - i), inside), max);
  }
  float top = max_lanes(max);
  // A block with every score at -inf has no weight at all; -inf - -inf would be NaN.
  __m256 shift = _mm256_set1_ps(top == -__builtin_inff() ? 0.0f : top);
  __m256 sum = _mm256_setzero_ps();
  int64_t padded = (n + 15) / 16 * 16;
  for (int64_t i = 0; i < padded; i += 8) {
    int64_t left = n - i < 0 ? 0 : n - i < 8 ? n - i : 8;
    __m256 e = exp_lanes(_mm256_sub_ps(load_floats(x + i, left), shift));
    e = _mm256_and_ps(e, _mm256_castsi256_ps(lane_mask(left)));
    _mm256_storeu_ps(x + i, e);
    sum = _mm256_add_ps(sum, e);
  }
  return {top, sum_lanes(sum)};
}

}  // namespace

void fill_avx2_ops(KernelTable& table) {
  table.rms_norm = rms_norm;
  table.silu_mul = silu_mul;
  table.add = add;
  table.axpy = axpy;
  table.blend = blend;
  table.rope = rope;
  table.softmax_block = softmax_block;
}

}  // namespace llmd
