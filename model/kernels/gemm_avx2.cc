// Float matrix product, register-blocked: tiles of 6 rows x 16 columns of C, runs of 256 of the inner dimension.
//
// Every element of C is one chain of fused multiply-adds, k ascending, whatever tile it falls in; between runs the
// chain rests in C, which is exact. B is packed 16 columns at a time into a buffer on the stack where more than one
// tile reads it, or where fewer than 16 columns are left (the rest are zeros and are not stored).
#include "model/kernels/kernels.h"
#include "model/kernels/levels.h"
#include "model/kernels/vector_avx2.h"

namespace llmd {
namespace {

constexpr int kRows = 6;
constexpr int kColumns = 16;
constexpr int kRun = 256;

/// C[M, 16] (+)= A[M, k] * B[k, 16]
template <int M>
void tile(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c, int64_t c_stride, int64_t k,
          bool accumulate) {
  __m256 acc[M][2];
#pragma GCC unroll 6
  for (int i = 0; i < M; i++) {
    acc[i][0] = accumulate ? _mm256_loadu_ps(c + i * c_stride) : _mm256_setzero_ps();
    acc[i][1] = accumulate ? _mm256_loadu_ps(c + i * c_stride + 8) : _mm256_setzero_ps();
  }
  for (int64_t l = 0; l < k; l++) {
    __m256 b0 = _mm256_loadu_ps(b + l * b_stride), b1 = _mm256_loadu_ps(b + l * b_stride + 8);
#pragma GCC unroll 6
    for (int i = 0; i < M; i++) {
      __m256 in = _mm256_broadcast_ss(a + i * a_stride + l);
      acc[i][0] = _mm256_fmadd_ps(in, b0, acc[i][0]);
      acc[i][1] = _mm256_fmadd_ps(in, b1, acc[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < M; i++) {
    _mm256_storeu_ps(c + i * c_stride, acc[i][0]);
    _mm256_storeu_ps(c + i * c_stride + 8, acc[i][1]);
  }
}

using TileFn = void (*)(const float*, int64_t, const float*, int64_t, float*, int64_t, int64_t, bool);
constexpr TileFn kTiles[kRows + 1] = {nullptr, tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};

/// The same for `columns` < 16: C goes through a full tile on the stack, B is already padded.
void narrow_tile(int rows, const float* a, int64_t a_stride, const float* b, float* c, int64_t c_stride, int64_t k,
                 bool accumulate, int64_t columns) {
  alignas(32) float full[kRows * kColumns] = {};
  size_t bytes = static_cast<size_t>(columns) * sizeof(float);
  for (int i = 0; i < rows && accumulate; i++) std::memcpy(full + i * kColumns, c + i * c_stride, bytes);
  kTiles[rows](a, a_stride, b, kColumns, full, kColumns, k, accumulate);
  for (int i = 0; i < rows; i++) std::memcpy(c + i * c_stride, full + i * kColumns, bytes);
}

void pack(const float* b, int64_t b_stride, int64_t k, int64_t columns, float* packed) {
  for (int64_t l = 0; l < k; l++, b += b_stride, packed += kColumns) {
    _mm256_store_ps(packed, load_floats(b, columns));
    _mm256_store_ps(packed + 8, columns > 8 ? load_floats(b + 8, columns - 8) : _mm256_setzero_ps());
  }
}

void gemm(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c, int64_t c_stride, int64_t m,
          int64_t n, int64_t k, bool accumulate) {
  alignas(32) float packed[kRun * kColumns];
  for (int64_t j = 0; j < n; j += kColumns) {
    int64_t columns = n - j < kColumns ? n - j : kColumns;
    bool packs = m > kRows || columns < kColumns;
    // One pass even when k is 0: C is then zeroed, or left as it is.
    for (int64_t l = 0; l == 0 || l < k; l += kRun) {
      int64_t run = k - l < kRun ? k - l : kRun;
      const float* from = b + l * b_stride + j;
      if (packs) pack(from, b_stride, run, columns, packed);
      bool continues = accumulate || l > 0;
      for (int64_t i = 0; i < m; i += kRows) {
        int rows = static_cast<int>(m - i < kRows ? m - i : kRows);
        const float* a_tile = a + i * a_stride + l;
        float* c_tile = c + i * c_stride + j;
        if (columns < kColumns) {
          narrow_tile(rows, a_tile, a_stride, packed, c_tile, c_stride, run, continues, columns);
        } else if (packs) {
          kTiles[rows](a_tile, a_stride, packed, kColumns, c_tile, c_stride, run, continues);
        } else {
          kTiles[rows](a_tile, a_stride, from, b_stride, c_tile, c_stride, run, continues);
        }
      }
    }
  }
}

/// One 8 x 8 block.
void transpose_block(const float* in, int64_t in_stride, float* out, int64_t out_stride) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(in + i * in_stride);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(out + i * out_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(out + (i + 4) * out_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

void transpose(const float* in, int64_t in_stride, float* out, int64_t out_stride, int64_t m, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= m; i += 8) {
    int64_t j = 0;
    for (; j + 8 <= n; j += 8) transpose_block(in + i * in_stride + j, in_stride, out + j * out_stride + i, out_stride);
    for (; j < n; j++) {
      for (int64_t l = i; l < i + 8; l++) out[j * out_stride + l] = in[l * in_stride + j];
    }
  }
  for (; i < m; i++) {
    for (int64_t j = 0; j < n; j++) out[j * out_stride + i] = in[i * in_stride + j];
  }
}

}  // namespace

void fill_avx2_gemm(KernelTable& table) {
  table.gemm = gemm;
  table.transpose = transpose;
}

}  // namespace llmd
