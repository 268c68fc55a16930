// The matmul of every quantised type over panels (panel_avx2.h): the loops, and one dot product per shape of format.
//
// For 16 weight rows: unpack a run of groups into a buffer in the first-level cache; for tiles of up to 4 activation
// rows: continue each output's chain over that run, from and to `out`. An activation row alone takes the same path with
// a shorter run. The chain of one output is, for every group in order (see scalar_matmul.cc):
//   term = scale0 * I0;  term = fma(scale1, I1, term);  term = fma(-min0, X0, term); ...  acc = fma(x_scale, term, acc)
// I and X are exact integers, so neither tile, run, panel nor neighbour can change a bit. Storing acc is exact.
//
// I is summed in int16 as far as the largest weight allows (kSpan), then in int32. Unsigned weights that stand for
// signed ones are corrected by kOffset * X. Compiled with AVX-VNNI, one instruction multiplies and adds into int32: the
// same integers, so the same bits. Only *_avx2.cc and *_vnni.cc files may include this; unnamed namespace: see half.h.
#pragma once

#include "model/kernels/kernels.h"
#include "model/kernels/panel_avx2.h"

namespace llmd {
namespace {

constexpr int kTile = 4;                       // activation rows that share one load of weights
constexpr int kPanels = 2;                     // panels that share one broadcast of activations
constexpr int kLongRun = 32;                   // groups unpacked at a time: 24 KiB for two panels
constexpr int kShortRun = 8;                   // the same when few activation rows will use them
constexpr int64_t kCachedInputs = 384 * 1024;  // bytes of activations that stay in the second-level cache

struct QuantisedRow {
  const int8_t* values;
  const float* scales;
  const int16_t* sums;
};

template <bool kHalves_, bool kMin_, int kOffset_, int kSpan_>
struct DotShape {
  static constexpr bool kHalves = kHalves_, kMin = kMin_;
  static constexpr int kOffset = kOffset_, kSpan = kSpan_;
};

inline __m256i broadcast4(const void* p) {
  return _mm256_set1_epi32(load_as<int>(p));
}

// Pins a running sum where it stands: without it the compiler reorders integer additions into a balanced tree, whose
// many live products do not fit in 16 registers.
inline void pin(__m256i& v) {
  asm("" : "+x"(v));
}

#ifdef __AVXVNNI__
constexpr bool kVnni = true;
constexpr int kSignedOffset = 128;  // signed weights become unsigned by a flip of their sign bit

/// Integer sums of vectors [first, last) of one group: R panels x T activation rows.
template <typename Shape, int R, int T>
inline void dot_span(const PanelGroup* const* groups, const int8_t* const* x, int first, int last, __m256i sum[R][T]) {
#pragma GCC unroll 8
  for (int j = first; j < last; j++) {
    __m256i w[R];
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) {
      w[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(groups[r]->w[j]));
      if (Shape::kSpan == 0) w[r] = _mm256_xor_si256(w[r], _mm256_set1_epi8(-128));
    }
#pragma GCC unroll 4
    for (int t = 0; t < T; t++) {
      __m256i in = broadcast4(x[t] + 4 * j);
#pragma GCC unroll 2
      for (int r = 0; r < R; r++)
        sum[r][t] = _mm256_dpbusd_avx_epi32(j == first ? _mm256_setzero_si256() : sum[r][t], w[r], in);
    }
  }
}
#else
constexpr bool kVnni = false;
constexpr int kSignedOffset = 0;

/// Integer sums of vectors [first, last) of one group: R panels x T activation rows.
template <typename Shape, int R, int T>
inline void dot_span(const PanelGroup* const* groups, const int8_t* const* x, int first, int last, __m256i sum[R][T]) {
  const __m256i ones = _mm256_set1_epi16(1);
  constexpr int kSpan = Shape::kSpan == 0 ? 1 : Shape::kSpan;
  __m256i part[R][T];
#pragma GCC unroll 8
  for (int j = first; j < last; j++) {
    bool opens = (j - first) % kSpan == 0, closes = (j - first + 1) % kSpan == 0 || j + 1 == last;
    __m256i w[R];
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) w[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(groups[r]->w[j]));
#pragma GCC unroll 4
    for (int t = 0; t < T; t++) {
      __m256i in = broadcast4(x[t] + 4 * j);
#pragma GCC unroll 2
      for (int r = 0; r < R; r++) {
        __m256i product = Shape::kSpan == 0 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[r]), _mm256_sign_epi8(in, w[r]))
                                            : _mm256_maddubs_epi16(w[r], in);
        part[r][t] = opens ? product : _mm256_add_epi16(part[r][t], product);
        pin(part[r][t]);
        if (closes) {
          __m256i wide = _mm256_madd_epi16(part[r][t], ones);
          sum[r][t] = j - first < kSpan ? wide : _mm256_add_epi32(sum[r][t], wide);
        }
      }
    }
  }
}

#endif

inline __m256 to_float(__m256i v) {
  return _mm256_cvtepi32_ps(v);
}

/// Adds half h (or the whole group) to the terms: integer sums, offset correction, minimum.
template <typename Shape, int R, int T>
inline void add_terms(const PanelGroup* const* groups, const int16_t* const* x_sums, int half, __m256i sum[R][T],
                      __m256 term[R][T]) {
  // The two sums of a group, as one 32-bit lane, times (1, 1), (1, 0) or (0, 1).
  const int select = !Shape::kHalves ? 0x00010001 : half == 0 ? 0x00000001 : 0x00010000;
#pragma GCC unroll 4
  for (int t = 0; t < T; t++) {
    __m256i pair = Shape::kMin || Shape::kOffset != 0 ? broadcast4(x_sums[t]) : _mm256_setzero_si256();
    __m256i correction = _mm256_madd_epi16(pair, _mm256_set1_epi32(select * Shape::kOffset));
    __m256 x_sum = Shape::kMin ? to_float(_mm256_madd_epi16(pair, _mm256_set1_epi32(select))) : _mm256_setzero_ps();
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) {
      __m256i exact = Shape::kOffset != 0 ? _mm256_sub_epi32(sum[r][t], correction) : sum[r][t];
      __m256 scale = _mm256_load_ps(groups[r]->scale[half]);
      term[r][t] =
          half == 0 ? _mm256_mul_ps(scale, to_float(exact)) : _mm256_fmadd_ps(scale, to_float(exact), term[r][t]);
      if (Shape::kMin && !Shape::kHalves) {
        term[r][t] = _mm256_fnmadd_ps(_mm256_load_ps(groups[r]->min[0]), x_sum, term[r][t]);
      }
    }
  }
}

/// The minimums of both halves, after both sums.
template <int R, int T>
inline void subtract_half_minimums(const PanelGroup* const* groups, const int16_t* const* x_sums, __m256 term[R][T]) {
#pragma GCC unroll 4
  for (int t = 0; t < T; t++) {
    __m256i pair = broadcast4(x_sums[t]);
    __m256 x0 = to_float(_mm256_madd_epi16(pair, _mm256_set1_epi32(0x00000001)));
    __m256 x1 = to_float(_mm256_madd_epi16(pair, _mm256_set1_epi32(0x00010000)));
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) {
      term[r][t] = _mm256_fnmadd_ps(_mm256_load_ps(groups[r]->min[0]), x0, term[r][t]);
      term[r][t] = _mm256_fnmadd_ps(_mm256_load_ps(groups[r]->min[1]), x1, term[r][t]);
    }
  }
}

/// Continues the chains acc[t][r] over `count` groups.
template <typename Shape, int R, int T>
void dot_run(const PanelGroup* const* panels, int64_t count, const QuantisedRow* x, float (*acc)[kPanels][8]) {
  for (int64_t g = 0; g < count; g++) {
    const PanelGroup* groups[R];
    const int8_t* values[T];
    const int16_t* sums[T];
#pragma GCC unroll 2
    for (int r = 0; r < R; r++) groups[r] = panels[r] + g;
#pragma GCC unroll 4
    for (int t = 0; t < T; t++) values[t] = x[t].values + 32 * g, sums[t] = x[t].sums + 2 * g;
    __m256i sum[R][T];
    __m256 term[R][T];
    if constexpr (Shape::kHalves) {
      dot_span<Shape, R, T>(groups, values, 0, 4, sum);
      add_terms<Shape, R, T>(groups, sums, 0, sum, term);
      dot_span<Shape, R, T>(groups, values, 4, 8, sum);
      add_terms<Shape, R, T>(groups, sums, 1, sum, term);
      if constexpr (Shape::kMin) subtract_half_minimums<R, T>(groups, sums, term);
    } else {
      dot_span<Shape, R, T>(groups, values, 0, 8, sum);
      add_terms<Shape, R, T>(groups, sums, 0, sum, term);
    }
#pragma GCC unroll 4
    for (int t = 0; t < T; t++) {
      __m256 x_scale = _mm256_broadcast_ss(x[t].scales + g);
#pragma GCC unroll 2
      for (int r = 0; r < R; r++) {
        _mm256_store_ps(acc[t][r], _mm256_fmadd_ps(x_scale, term[r][t], _mm256_load_ps(acc[t][r])));
      }
    }
  }
}

inline QuantisedRow quantised_row(const MatmulArgs& args, int64_t i, int64_t group) {
  int64_t row = args.x_rows ? args.x_rows[i] : i;
  return {args.x.values + row * args.n_in + group * 32, args.x.scales + row * (args.n_in / 32) + group,
          args.x.sums + row * (args.n_in / 16) + group * 2};
}

/// Runs one tile of T activation rows against R panels, from and to `out` (`valid` weight rows from `row`).
template <typename Shape, int R, int T>
void dot_tile(const MatmulArgs& args, const PanelGroup* const* panels, int64_t first, int64_t count, int64_t i,
              int64_t row, int64_t valid) {
  alignas(32) float acc[T][kPanels][8] = {};
  QuantisedRow x[T];
  size_t bytes = static_cast<size_t>(valid) * sizeof(float);
  for (int t = 0; t < T; t++) {
    x[t] = quantised_row(args, i + t, first);
    if (first != 0) std::memcpy(acc[t], args.out + (i + t) * args.out_stride + row, bytes);
  }
  dot_run<Shape, R, T>(panels, count, x, acc);
  for (int t = 0; t < T; t++) std::memcpy(args.out + (i + t) * args.out_stride + row, acc[t], bytes);
}

template <typename Shape, int R>
void dot_tiles(const MatmulArgs& args, const PanelGroup* const* panels, int64_t first, int64_t count, int64_t i,
               int64_t i_end, int64_t row, int64_t valid) {
  for (; i + kTile <= i_end; i += kTile) dot_tile<Shape, R, kTile>(args, panels, first, count, i, row, valid);
  for (; i + 2 <= i_end; i += 2) dot_tile<Shape, R, 2>(args, panels, first, count, i, row, valid);
  for (; i < i_end; i++) dot_tile<Shape, R, 1>(args, panels, first, count, i, row, valid);
}

template <typename Format>
void unpack_run(PanelRows rows, int64_t count, PanelGroup* groups) {
  for (int64_t g = 0; g < count; g += Format::kGroups, rows.first += Format::kBytes) Format::unpack(rows, groups + g);
}

/// A panel with fewer than 8 rows: they are copied, the missing ones are zeros and their outputs are not stored.
template <typename Format>
void unpack_short_run(PanelRows rows, int64_t valid, int64_t count, PanelGroup* groups) {
  constexpr int64_t kMost = kLongRun / Format::kGroups * Format::kBytes;
  uint8_t copy[kPanelRows * kMost];
  int64_t bytes = count / Format::kGroups * Format::kBytes;
  std::memset(copy, 0, sizeof copy);
  for (int r = 0; r < valid; r++) std::memcpy(copy + r * kMost, rows[r], static_cast<size_t>(bytes));
  unpack_run<Format>({copy, kMost}, count, groups);
}

/// Asks for memory in order, from `from` on. Sixteen rows read side by side are too many streams for the processor to
/// foresee; in memory they are one.
inline void prefetch(const uint8_t* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) _mm_prefetch(reinterpret_cast<const char*>(from + at), _MM_HINT_T0);
}

/// Weight rows [row, row + valid), at most two panels, with activation rows [i, i_end).
template <typename Format>
void matmul_rows(const MatmulArgs& args, int64_t row, int64_t valid, int64_t i, int64_t i_end) {
  constexpr int kOffset = Format::kSpan == 0 ? kSignedOffset : Format::kOffset;
  using Shape = DotShape<Format::kHalves, Format::kMin, kOffset, Format::kSpan>;
  PanelGroup buffer[kPanels][kLongRun];
  const PanelGroup* panels[kPanels] = {buffer[0], buffer[1]};
  const int64_t stride = static_cast<int64_t>(args.row_bytes);
  const uint8_t* weights = reinterpret_cast<const uint8_t*>(args.weights) + row * stride;
  const uint8_t* ahead = weights + valid * stride;  // past the call's last row as well: the next call's, mostly
  const int64_t total = args.n_in / 32, run = i_end - i < kTile ? kShortRun : kLongRun;
  for (int64_t first = 0; first < total; first += run) {
    int64_t count = total - first < run ? total - first : run;
    int64_t bytes = count / Format::kGroups * Format::kBytes;
    for (int64_t done = 0; done < valid; done += kPanelRows) {
      PanelRows rows{weights + done * stride, stride};
      PanelGroup* groups = buffer[done / kPanelRows];
      if (valid - done >= kPanelRows) {
        unpack_run<Format>(rows, count, groups);
      } else {
        unpack_short_run<Format>(rows, valid - done, count, groups);
      }
      prefetch(ahead, bytes * kPanelRows);
      ahead += bytes * kPanelRows;
    }
    weights += bytes;
    if (valid > kPanelRows) {
      dot_tiles<Shape, 2>(args, panels, first, count, i, i_end, row, valid);
    } else {
      dot_tiles<Shape, 1>(args, panels, first, count, i, i_end, row, valid);
    }
  }
}

template <typename Format>
void matmul_panels(const MatmulArgs& args) {
  if (args.n_in <= 0) return;
  int64_t cached = kCachedInputs / args.n_in / kTile * kTile;
  int64_t step = cached < 32 ? 32 : cached;
  for (int64_t i = 0; i < args.x_count; i += step) {
    int64_t i_end = i + step < args.x_count ? i + step : args.x_count;
    for (int64_t row = args.row_begin; row < args.row_end; row += kPanels * kPanelRows) {
      int64_t left = args.row_end - row;
      matmul_rows<Format>(args, row, left < kPanels * kPanelRows ? left : kPanels * kPanelRows, i, i_end);
    }
  }
}

template <typename Format>
void set_matmul(KernelTable& table) {
  table.matmul[static_cast<size_t>(Format::kType)] = matmul_panels<Format>;
}

}  // namespace
}  // namespace llmd
