// The specification of everything that is not a weight matrix, in plain loops.
#include <cmath>
#include <limits>

#include "model/kernels/half.h"
#include "model/kernels/levels.h"

namespace llmd {
namespace {

// Below this a block of activations counts as zero: its reciprocal would overflow, and no sum could notice it.
constexpr float kTiny = 0x1p-100f;

// Nearest integer in [-127, 127]; a NaN gives -127 (its block's scale is NaN and tells).
int8_t to_int8(float value) {
  if (!(value >= -127)) value = -127;
  if (value > 127) value = 127;
  return static_cast<int8_t>(round_even(value));
}

// The largest magnitude of 32 values, or NaN if one of them is NaN.
float max_abs(const float* x) {
  float max = 0;
  bool nan = false;
  for (int e = 0; e < 32; e++) {
    float magnitude = std::fabs(x[e]);
    if (magnitude > max) max = magnitude;
    nan |= x[e] != x[e];
  }
  return nan ? std::numeric_limits<float>::quiet_NaN() : max;
}

void quantize_row(const float* x, int64_t n, int8_t* values, float* scales, int16_t* sums) {
  for (int64_t block = 0; block < n / 32; block++, x += 32, values += 32, sums += 2) {
    float max = max_abs(x);
    bool zero = max < kTiny;
    scales[block] = zero ? 0 : max / 127.0f;
    float inverse = zero ? 0 : 127.0f / max;
    int16_t sum[2] = {0, 0};
    for (int e = 0; e < 32; e++) {
      values[e] = to_int8(x[e] * inverse);
      sum[e / 16] = static_cast<int16_t>(sum[e / 16] + values[e]);
    }
    sums[0] = sum[0];
    sums[1] = sum[1];
  }
}

void rms_norm(const float* x, const float* weight, float epsilon, int64_t n, float* out) {
  float sum = 0;
  for (int64_t i = 0; i < n; i++) sum = sum + x[i] * x[i];
  float scale = 1.0f / std::sqrt(sum / static_cast<float>(n) + epsilon);
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * scale * weight[i];
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i++) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

void add(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i++) y[i] = y[i] + x[i];
}

void axpy(float a, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i++) y[i] = y[i] + a * x[i];
}

void blend(float a, const float* x, float b, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i++) y[i] = y[i] * b + x[i] * a;
}

void rope(float* x, const float* cos, const float* sin, int64_t pairs) {
  for (int64_t i = 0; i < pairs; i++) {
    float x0 = x[2 * i], x1 = x[2 * i + 1];
    x[2 * i] = x0 * cos[i] - x1 * sin[i];
    x[2 * i + 1] = x0 * sin[i] + x1 * cos[i];
  }
}

void gemm(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c, int64_t c_stride, int64_t m,
          int64_t n, int64_t k, bool accumulate) {
  for (int64_t i = 0; i < m; i++) {
    float* row = c + i * c_stride;
    if (!accumulate) {
      for (int64_t j = 0; j < n; j++) row[j] = 0;
    }
    for (int64_t l = 0; l < k; l++) {
      for (int64_t j = 0; j < n; j++) row[j] = row[j] + a[i * a_stride + l] * b[l * b_stride + j];
    }
  }
}

void transpose(const float* in, int64_t in_stride, float* out, int64_t out_stride, int64_t m, int64_t n) {
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) out[j * out_stride + i] = in[i * in_stride + j];
  }
}

KernelTable::MaxSum softmax_block(float* x, int64_t n) {
  float max = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
  // A block with every score at -inf has no weight at all; -inf - -inf would be NaN.
  float shift = max == -std::numeric_limits<float>::infinity() ? 0 : max;
  float sum = 0;
  for (int64_t i = 0; i < n; i++) {
    x[i] = std::exp(x[i] - shift);
    sum = sum + x[i];
  }
  for (int64_t i = n; i % 16 != 0; i++) x[i] = 0;
  return {max, sum};
}

template <typename T>
void store_as(std::byte* out, int64_t index, T value) {
  std::memcpy(out + index * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

void store_q8_0(const float* in, int64_t n, std::byte* out) {
  for (int64_t block = 0; block < n / 32; block++, in += 32, out += 34) {
    float scale = max_abs(in) / 127.0f;
    if (scale > 65504) scale = 65504;  // the largest half: an infinite scale would turn zeros into NaN
    uint16_t half = f32_to_f16(scale);
    float rounded = f16_to_f32(half);
    float inverse = rounded == 0 ? 0 : 1.0f / rounded;
    store_as(out, 0, half);
    for (int e = 0; e < 32; e++) store_as(out + 2, e, to_int8(in[e] * inverse));
  }
}

void load_q8_0(const std::byte* in, int64_t n, float* out) {
  for (int64_t block = 0; block < n / 32; block++, in += 34, out += 32) {
    float scale = f16_to_f32(load_as<uint16_t>(in));
    for (int e = 0; e < 32; e++) out[e] = scale * static_cast<float>(load_as<int8_t>(in + 2 + e));
  }
}

}  // namespace

void kv_store_scalar(KvType type, const float* in, int64_t n, std::byte* out) {
  switch (type) {
    case KvType::kF32:
      std::memcpy(out, in, static_cast<size_t>(n) * sizeof(float));
      break;
    case KvType::kF16:
      for (int64_t i = 0; i < n; i++) store_as(out, i, f32_to_f16(in[i]));
      break;
    case KvType::kBF16:
      for (int64_t i = 0; i < n; i++) store_as(out, i, f32_to_bf16(in[i]));
      break;
    case KvType::kQ8_0:
      store_q8_0(in, n, out);
      break;
  }
}

void kv_load_scalar(KvType type, const std::byte* in, int64_t n, float* out) {
  switch (type) {
    case KvType::kF32:
      std::memcpy(out, in, static_cast<size_t>(n) * sizeof(float));
      break;
    case KvType::kF16:
      for (int64_t i = 0; i < n; i++) out[i] = f16_to_f32(load_as<uint16_t>(in + 2 * i));
      break;
    case KvType::kBF16:
      for (int64_t i = 0; i < n; i++) out[i] = bf16_to_f32(load_as<uint16_t>(in + 2 * i));
      break;
    case KvType::kQ8_0:
      load_q8_0(in, n, out);
      break;
  }
}

void fill_scalar_ops(KernelTable& table) {
  table.quantize_row = quantize_row;
  table.rms_norm = rms_norm;
  table.silu_mul = silu_mul;
  table.add = add;
  table.axpy = axpy;
  table.blend = blend;
  table.rope = rope;
  table.gemm = gemm;
  table.transpose = transpose;
  table.softmax_block = softmax_block;
  table.kv_store = kv_store_scalar;
  table.kv_load = kv_load_scalar;
}

}  // namespace llmd
