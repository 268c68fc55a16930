// The kernel table: every loop over weights or long vectors, one entry per operation and tensor type.
//
// Scalar kernels are the specification, in plain loops. SIMD kernels give the same integer block sums and floats within
// n x eps x sum|terms|. Within one CPU level every kernel is *batch-invariant*: the value of one output is the same
// sum in the same order whether it is computed alone, in a tile, for one activation row or for 512, by any thread.
// So nothing here may depend on row_begin, x_count or the position of a row in a tile except which outputs are written.
// No kernel allocates, keeps state or fails; weight pointers may have any alignment (experts are used as they land).
//
// Activation format for quantised weights ("q8"): int8 values in blocks of 32 with a float scale max|x|/127, and the
// sum of each 16 values (Q2_K..Q6_K and Q4_1/Q5_1 fold their minimum or offset in through it). F32, F16 and BF16
// weights read the float form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/gguf/tensor_type.h"

namespace llmd {

/// Activation rows in one or both forms. Row r of the q8 form is values + r*n_in, scales + r*n_in/32, sums + r*n_in/16.
struct Activations {
  const float* f32 = nullptr;      // [rows, f32_stride]
  int64_t f32_stride = 0;          // in floats
  const int8_t* values = nullptr;  // [rows, n_in]
  const float* scales = nullptr;   // [rows, n_in / 32]
  const int16_t* sums = nullptr;   // [rows, n_in / 16]
};

struct MatmulArgs {
  const std::byte* weights = nullptr;  // row 0 of the matrix [n_out, n_in], rows `row_bytes` apart
  uint64_t row_bytes = 0;
  int64_t n_in = 0;
  int64_t row_begin = 0, row_end = 0;  // weight rows (outputs) to compute; ranges of 16 share the most work
  Activations x;
  const uint32_t* x_rows = nullptr;  // activation row of each of the x_count inputs; null: 0, 1, 2, ...
  int64_t x_count = 0;
  float* out = nullptr;  // out[i * out_stride + row], i in [0, x_count), row in [row_begin, row_end)
  int64_t out_stride = 0;
};

using MatmulFn = void (*)(const MatmulArgs& args);
using DequantizeFn = void (*)(const std::byte* row, int64_t n, float* out);

enum class KvType : uint8_t { kF32, kF16, kBF16, kQ8_0 };

struct KernelTable {
  std::string_view level;            // "scalar", "avx2", "avxvnni"
  std::string_view numerics;         // levels of the same numerics give the same bits
  MatmulFn matmul[64] = {};          // by TensorType id; null: no kernel for this type
  DequantizeFn dequantize[64] = {};  // one row of n weights to floats

  /// x[n] (n a multiple of 32) to the q8 form, ties to even, values in [-127, 127]. A block below 2^-100 is zero; a
  /// block with a NaN or an infinity has such a scale, so that the outputs show it. Same bytes at every level.
  void (*quantize_row)(const float* x, int64_t n, int8_t* values, float* scales, int16_t* sums);

  /// out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i]
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t n, float* out);
  /// out[i] = silu(gate[i]) * up[i]; out may alias gate or up
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  /// y[i] += x[i]
  void (*add)(const float* x, int64_t n, float* y);
  /// y[i] = y[i] + a * x[i], one rounding for the product and one for the sum (no fused multiply-add)
  void (*axpy)(float a, const float* x, int64_t n, float* y);
  /// y[i] = y[i] * b + x[i] * a, each operation rounded
  void (*blend)(float a, const float* x, float b, int64_t n, float* y);
  /// Turns consecutive pairs (x[2i], x[2i+1]) by the angle whose cosine and sine are cos[i], sin[i].
  void (*rope)(float* x, const float* cos, const float* sin, int64_t pairs);

  /// C[m, n] = A[m, k] * B[k, n]; row strides in floats. Each C element is one chain: k ascending from 0, fused
  /// multiply-add in SIMD levels, multiply then add in scalar. With accumulate, the chain starts from C's old value.
  void (*gemm)(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c, int64_t c_stride,
               int64_t m, int64_t n, int64_t k, bool accumulate);
  /// out[n, m] = in[m, n] transposed
  void (*transpose)(const float* in, int64_t in_stride, float* out, int64_t out_stride, int64_t m, int64_t n);

  /// The softmax numerators of one block of scores, in place: x[i] = exp(x[i] - max), max over x[0..n); entries from n
  /// up to the next multiple of 16 become 0 (the row is padded to it). Returns {max, sum} with the sum in a fixed
  /// order.
  struct MaxSum {
    float max, sum;
  };
  MaxSum (*softmax_block)(float* x, int64_t n);

  /// Rounds n floats to the KV type and back. n is a multiple of 32 for kQ8_0.
  void (*kv_store)(KvType type, const float* in, int64_t n, std::byte* out);
  void (*kv_load)(KvType type, const std::byte* in, int64_t n, float* out);
};

/// Bytes of n values stored as `type`.
uint64_t kv_bytes(KvType type, int64_t n);

/// True when the kernels of this type read the q8 form of activations, false when they read floats.
bool type_uses_q8(TensorType type);

/// The table for this processor, filled once. LLMD_CPU=scalar|avx2|avxvnni in the environment asks for a lower level; a
/// level that the processor lacks is ignored with a line on stderr.
const KernelTable& kernels();
/// A given level, for tests and benchmarks; null when the processor cannot run it or the name is unknown.
const KernelTable* kernels_at(std::string_view level);

}  // namespace llmd
