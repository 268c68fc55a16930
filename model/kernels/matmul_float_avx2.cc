// Matmul of F32, F16 and BF16 weights with float activations.
//
// One output is 8 partial sums (lane j takes inputs j, j + 8, ...), each a chain of fused multiply-adds in order, then
// sum_lanes. Tiles of 4 weight rows x 3 activation rows share the loads; a short last vector is padded with zeros.
#include "model/kernels/kernels.h"
#include "model/kernels/levels.h"
#include "model/kernels/vector_avx2.h"

namespace llmd {
namespace {

constexpr int kTile = 3;                       // activation rows
constexpr int kWeightRows = 4;                 // 12 sums, 3 inputs and a weight: 16 registers
constexpr int64_t kCachedInputs = 384 * 1024;  // bytes of activations that stay in the second-level cache

struct F32 {
  static constexpr TensorType kType = TensorType::kF32;
  static constexpr int kBytes = 4;
  static __m256 load(const uint8_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
};

struct F16 {
  static constexpr TensorType kType = TensorType::kF16;
  static constexpr int kBytes = 2;
  static __m256 load(const uint8_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
};

struct BF16 {
  static constexpr TensorType kType = TensorType::kBF16;
  static constexpr int kBytes = 2;
  static __m256 load(const uint8_t* p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
};

template <typename Format>
__m256 load_weights(const uint8_t* p, int64_t n) {
  if (n >= 8) return Format::load(p);
  alignas(32) uint8_t padded[8 * Format::kBytes] = {};
  std::memcpy(padded, p, static_cast<size_t>(n) * Format::kBytes);
  return Format::load(padded);
}

template <typename Format, int R, int T>
void dot_tile(const uint8_t* const* weights, const float* const* x, int64_t n_in, float* const* out) {
  __m256 acc[R][T];
#pragma GCC unroll 4
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 3
    for (int t = 0; t < T; t++) acc[r][t] = _mm256_setzero_ps();
  }
  auto step = [&](int64_t k, auto load_w, auto load_x) {
    __m256 in[T];
#pragma GCC unroll 3
    for (int t = 0; t < T; t++) in[t] = load_x(x[t] + k);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
      __m256 w = load_w(weights[r] + k * Format::kBytes);
#pragma GCC unroll 3
      for (int t = 0; t < T; t++) acc[r][t] = _mm256_fmadd_ps(w, in[t], acc[r][t]);
    }
  };
  int64_t k = 0;
  for (; k + 8 <= n_in; k += 8) step(k, Format::load, [](const float* p) { return _mm256_loadu_ps(p); });
  if (k < n_in) {
    int64_t left = n_in - k;
    step(
        k, [&](const uint8_t* p) { return load_weights<Format>(p, left); },
        [&](const float* p) { return load_floats(p, left); });
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 3
    for (int t = 0; t < T; t++) out[t][r] = sum_lanes(acc[r][t]);
  }
}

template <typename Format, int R>
void dot_rows(const MatmulArgs& args, int64_t row, int64_t i, int64_t i_end) {
  const uint8_t* weights[R];
  for (int r = 0; r < R; r++) {
    weights[r] = reinterpret_cast<const uint8_t*>(args.weights) + static_cast<uint64_t>(row + r) * args.row_bytes;
  }
  for (int64_t count; i < i_end; i += count) {
    const float* x[kTile];
    float* out[kTile];
    count = i_end - i < kTile ? i_end - i : kTile;
    for (int64_t t = 0; t < count; t++) {
      x[t] = args.x.f32 + (args.x_rows ? args.x_rows[i + t] : i + t) * args.x.f32_stride;
      out[t] = args.out + (i + t) * args.out_stride + row;
    }
    if (count == 3) dot_tile<Format, R, 3>(weights, x, args.n_in, out);
    if (count == 2) dot_tile<Format, R, 2>(weights, x, args.n_in, out);
    if (count == 1) dot_tile<Format, R, 1>(weights, x, args.n_in, out);
  }
}

template <typename Format>
void matmul(const MatmulArgs& args) {
  if (args.n_in <= 0) return;
  int64_t cached = kCachedInputs / (args.n_in * 4) / kTile * kTile;
  int64_t step = cached < 24 ? 24 : cached;
  for (int64_t i = 0; i < args.x_count; i += step) {
    int64_t i_end = i + step < args.x_count ? i + step : args.x_count;
    int64_t row = args.row_begin;
    for (; row + kWeightRows <= args.row_end; row += kWeightRows) dot_rows<Format, kWeightRows>(args, row, i, i_end);
    for (; row < args.row_end; row++) dot_rows<Format, 1>(args, row, i, i_end);
  }
}

template <typename Format>
void dequantize(const std::byte* row, int64_t n, float* out) {
  auto* bytes = reinterpret_cast<const uint8_t*>(row);
  for (int64_t k = 0; k < n; k += 8) {
    store_floats(out + k, load_weights<Format>(bytes + k * Format::kBytes, n - k), n - k);
  }
}

template <typename Format>
void fill(KernelTable& table) {
  table.matmul[static_cast<size_t>(Format::kType)] = matmul<Format>;
  table.dequantize[static_cast<size_t>(Format::kType)] = dequantize<Format>;
}

}  // namespace

void fill_avx2_float(KernelTable& table) {
  fill<F32>(table);
  fill<F16>(table);
  fill<BF16>(table);
}

}  // namespace llmd
