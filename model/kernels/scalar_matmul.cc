// The specification of weights: dot products and rows of floats, in plain loops over the common form of formats.h.
//
// One output of a quantised matrix is a chain over its groups of 32 inputs, in order: the integer sums are exact, and
//   term = scale * I                               or, with a scale per 16,   scale0 * I0 + scale1 * I1
//   term = term - min * X                          or                         term - min0 * X0 - min1 * X1
//   acc  = acc + x_scale * term
// where I is the sum of weight x activation and X the sum of activations. SIMD levels do the same with fused
// multiply-adds. Nothing depends on which rows or how many are asked for.
#include "model/kernels/formats.h"
#include "model/kernels/levels.h"

namespace llmd {
namespace {

int32_t dot16(const int8_t* w, const int8_t* x) {
  int32_t sum = 0;
  for (int e = 0; e < 16; e++) sum += w[e] * x[e];
  return sum;
}

template <typename Format>
float group_term(const Group& group, const int8_t* x, const int16_t* sums) {
  int32_t i0 = dot16(group.w, x), i1 = dot16(group.w + 16, x + 16);
  if constexpr (Format::kHalves) {
    float term = group.scale[0] * static_cast<float>(i0);
    term = term + group.scale[1] * static_cast<float>(i1);
    if constexpr (Format::kMin) {
      term = term - group.min[0] * static_cast<float>(sums[0]);
      term = term - group.min[1] * static_cast<float>(sums[1]);
    }
    return term;
  } else {
    float term = group.scale[0] * static_cast<float>(i0 + i1);
    if constexpr (Format::kMin) term = term - group.min[0] * static_cast<float>(sums[0] + sums[1]);
    return term;
  }
}

template <typename Format>
float dot_row(const uint8_t* row, int64_t n, const int8_t* values, const float* scales, const int16_t* sums) {
  float acc = 0;
  for (int64_t first = 0; first < n; first += kGroup * Format::kGroups) {
    Group groups[Format::kGroups];
    Format::unpack(row, groups);
    row += Format::kBytes;
    for (int g = 0; g < Format::kGroups; g++) {
      int64_t at = first / kGroup + g;
      float term = group_term<Format>(groups[g], values + at * kGroup, sums + at * 2);
      acc = acc + scales[at] * term;
    }
  }
  return acc;
}

template <typename Format>
void matmul_quantised(const MatmulArgs& args) {
  for (int64_t i = 0; i < args.x_count; i++) {
    int64_t x_row = args.x_rows ? args.x_rows[i] : i;
    const int8_t* values = args.x.values + x_row * args.n_in;
    const float* scales = args.x.scales + x_row * (args.n_in / kGroup);
    const int16_t* sums = args.x.sums + x_row * (args.n_in / 16);
    for (int64_t row = args.row_begin; row < args.row_end; row++) {
      auto* weights = reinterpret_cast<const uint8_t*>(args.weights) + static_cast<uint64_t>(row) * args.row_bytes;
      args.out[i * args.out_stride + row] = dot_row<Format>(weights, args.n_in, values, scales, sums);
    }
  }
}

template <typename Format>
void matmul_float(const MatmulArgs& args) {
  for (int64_t i = 0; i < args.x_count; i++) {
    int64_t x_row = args.x_rows ? args.x_rows[i] : i;
    const float* x = args.x.f32 + x_row * args.x.f32_stride;
    for (int64_t row = args.row_begin; row < args.row_end; row++) {
      auto* weights = reinterpret_cast<const uint8_t*>(args.weights) + static_cast<uint64_t>(row) * args.row_bytes;
      float acc = 0;
      for (int64_t k = 0; k < args.n_in; k++) acc = acc + Format::value(weights + k * Format::kBytes) * x[k];
      args.out[i * args.out_stride + row] = acc;
    }
  }
}

template <typename Format>
void dequantize_quantised(const std::byte* row, int64_t n, float* out) {
  auto* block = reinterpret_cast<const uint8_t*>(row);
  for (int64_t first = 0; first < n; first += kGroup * Format::kGroups) {
    Group groups[Format::kGroups];
    Format::unpack(block, groups);
    block += Format::kBytes;
    for (const Group& group : groups) {
      for (int e = 0; e < kGroup; e++) {
        float value = group.scale[e / 16] * static_cast<float>(group.w[e]);
        *out++ = Format::kMin ? value - group.min[e / 16] : value;
      }
    }
  }
}

template <typename Format>
void dequantize_float(const std::byte* row, int64_t n, float* out) {
  auto* bytes = reinterpret_cast<const uint8_t*>(row);
  for (int64_t i = 0; i < n; i++) out[i] = Format::value(bytes + i * Format::kBytes);
}

template <typename Format>
void fill_float(KernelTable& table) {
  table.matmul[type_index(Format::kType)] = matmul_float<Format>;
  table.dequantize[type_index(Format::kType)] = dequantize_float<Format>;
}

}  // namespace

void fill_scalar_matmul(KernelTable& table) {
  for_each_format([&]<typename Format>() {
    table.matmul[type_index(Format::kType)] = matmul_quantised<Format>;
    table.dequantize[type_index(Format::kType)] = dequantize_quantised<Format>;
  });
  fill_float<F32>(table);
  fill_float<F16>(table);
  fill_float<BF16>(table);
}

}  // namespace llmd
