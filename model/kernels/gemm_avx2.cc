// Float matrix product, register-blocked: tiles of 6 rows x 16 columns of C (12 x 8 for the last 8 columns or fewer),
// runs of 256 of the inner dimension.
//
// Every element of C is one chain of fused multiply-adds, k ascending, whatever tile it falls in; between runs the
// chain rests in C, which is exact. A strip of B is packed into a buffer on the stack where many tiles read it, or
// where its last vector is not full (the rest are zeros and are not stored).
#include "model/kernels/kernels.h"
#include "model/kernels/levels.h"
#include "model/kernels/vector_avx2.h"

namespace llmd {
namespace {

constexpr int kColumns = 16;  // of a strip
constexpr int kRowsMax = 12;  // of a tile
constexpr int kRun = 256;

/// C[M, 8 V] (+)= A[M, k] * B[k, 8 V]
template <int M, int V>
void tile(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c, int64_t c_stride, int64_t k,
          bool accumulate) {
  __m256 acc[M][V];
#pragma GCC unroll 12
  for (int i = 0; i < M; i++) {
#pragma GCC unroll 2
    for (int v = 0; v < V; v++)
      acc[i][v] = accumulate ? _mm256_loadu_ps(c + i * c_stride + 8 * v) : _mm256_setzero_ps();
  }
  for (int64_t l = 0; l < k; l++) {
    __m256 row[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; v++) row[v] = _mm256_loadu_ps(b + l * b_stride + 8 * v);
#pragma GCC unroll 12
    for (int i = 0; i < M; i++) {
      __m256 in = _mm256_broadcast_ss(a + i * a_stride + l);
#pragma GCC unroll 2
      for (int v = 0; v < V; v++) acc[i][v] = _mm256_fmadd_ps(in, row[v], acc[i][v]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < M; i++) {
#pragma GCC unroll 2
    for (int v = 0; v < V; v++) _mm256_storeu_ps(c + i * c_stride + 8 * v, acc[i][v]);
  }
}

using TileFn = void (*)(const float*, int64_t, const float*, int64_t, float*, int64_t, int64_t, bool);
constexpr TileFn kWide[] = {nullptr, tile<1, 2>, tile<2, 2>, tile<3, 2>, tile<4, 2>, tile<5, 2>, tile<6, 2>};
constexpr TileFn kNarrow[] = {nullptr,    tile<1, 1>, tile<2, 1>, tile<3, 1>,  tile<4, 1>,  tile<5, 1>, tile<6, 1>,
                              tile<7, 1>, tile<8, 1>, tile<9, 1>, tile<10, 1>, tile<11, 1>, tile<12, 1>};

/// A tile for columns that do not fill the last vector: C goes through a full tile on the stack, B is already padded.
void partial_tile(TileFn full_tile, int rows, const float* a, int64_t a_stride, const float* b, float* c,
                  int64_t c_stride, int64_t k, bool accumulate, int64_t columns) {
  alignas(32) float full[kRowsMax * kColumns] = {};
  size_t bytes = static_cast<size_t>(columns) * sizeof(float);
  for (int i = 0; i < rows && accumulate; i++) std::memcpy(full + i * kColumns, c + i * c_stride, bytes);
  full_tile(a, a_stride, b, kColumns, full, kColumns, k, accumulate);
  for (int i = 0; i < rows; i++) std::memcpy(c + i * c_stride, full + i * kColumns, bytes);
}

void pack(const float* b, int64_t b_stride, int64_t k, int64_t columns, float* packed) {
  for (int64_t l = 0; l < k; l++, b += b_stride, packed += kColumns) {
    _mm256_store_ps(packed, load_floats(b, columns));
    _mm256_store_ps(packed + 8, columns > 8 ? load_floats(b + 8, columns - 8) : _mm256_setzero_ps());
  }
}

/// Whether a strip of B is worth a copy: read by one tile, or spread over all sets of the first cache (rows an odd
/// number of cache lines apart) and read by few, it is not.
bool should_pack(int64_t b_stride, int64_t rows, int64_t tile_rows) {
  if (rows <= tile_rows || b_stride == kColumns) return false;
  return !(rows <= 4 * tile_rows && b_stride % 16 == 0 && b_stride / 16 % 2 == 1);
}

void gemm(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c, int64_t c_stride, int64_t m,
          int64_t n, int64_t k, bool accumulate) {
  alignas(32) float packed[kRun * kColumns];
  for (int64_t j = 0; j < n; j += kColumns) {
    int64_t columns = n - j < kColumns ? n - j : kColumns;
    bool full = columns % 8 == 0;
    const TileFn* tiles = columns > 8 ? kWide : kNarrow;
    int64_t tile_rows = columns > 8 ? 6 : kRowsMax;
    bool packs = !full || should_pack(b_stride, m, tile_rows);
    // One pass even when k is 0: C is then zeroed, or left as it is.
    for (int64_t l = 0; l == 0 || l < k; l += kRun) {
      int64_t run = k - l < kRun ? k - l : kRun;
      const float* from = b + l * b_stride + j;
      if (packs) pack(from, b_stride, run, columns, packed);
      bool continues = accumulate || l > 0;
      for (int64_t i = 0; i < m; i += tile_rows) {
        int rows = static_cast<int>(m - i < tile_rows ? m - i : tile_rows);
        const float* a_tile = a + i * a_stride + l;
        float* c_tile = c + i * c_stride + j;
        if (!full) {
          partial_tile(tiles[rows], rows, a_tile, a_stride, packed, c_tile, c_stride, run, continues, columns);
        } else {
          tiles[rows](a_tile, a_stride, packs ? packed : from, packs ? kColumns : b_stride, c_tile, c_stride, run,
                      continues);
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
