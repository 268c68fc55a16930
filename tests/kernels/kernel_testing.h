// What the kernel tests share: seeded random matrices of any type (with hostile corners), activations in both forms,
// a matmul call in one line, and the double-precision product to compare with.
//
// Everything is deterministic from the seed given. Single thread.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model/kernels/kernels.h"

namespace llmd {

inline std::vector<std::string> all_levels() {
  return {"scalar", "avx2", "avxvnni"};
}

inline std::vector<TensorType> all_types() {
  using enum TensorType;
  return {kF32,  kF16,  kBF16, kQ8_0, kQ4_0, kQ4_1,   kQ5_0,   kQ5_1,
          kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIQ4_NL, kIQ4_XS, kMXFP4};
}

inline float half_to_float(uint16_t half) {
  float out = 0;
  kernels_at("scalar")->dequantize[static_cast<size_t>(TensorType::kF16)](reinterpret_cast<const std::byte*>(&half), 1,
                                                                          &out);
  return out;
}

/// What the bits of a random matrix look like.
enum class Fill { kRandom, kZero, kOnes, kSubnormalScales, kNegativeScales };

/// A weight matrix in its stored form.
struct Matrix {
  TensorType type;
  int64_t n_out, n_in;
  uint64_t row_bytes;
  std::vector<uint8_t> bytes;
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(bytes.data()) + 1; }  // odd: any alignment
};

/// Byte offsets of the half-precision scales inside a block; the rest of a block may hold any bits.
inline std::vector<size_t> half_offsets(TensorType type) {
  using enum TensorType;
  switch (type) {
    case kQ8_0:
    case kQ4_0:
    case kQ5_0:
    case kIQ4_NL:
    case kIQ4_XS:
      return {0};
    case kQ4_1:
    case kQ5_1:
    case kQ4_K:
    case kQ5_K:
      return {0, 2};
    case kQ2_K:
      return {80, 82};
    case kQ3_K:
      return {108};
    case kQ6_K:
      return {208};
    default:
      return {};
  }
}

inline Matrix random_matrix(TensorType type, int64_t n_out, int64_t n_in, Fill fill, uint32_t seed) {
  std::mt19937 random(seed);
  const TensorTypeInfo* info = tensor_type_info(static_cast<uint32_t>(type));
  Matrix m{type, n_out, n_in, tensor_row_bytes(type, static_cast<uint64_t>(n_in)), {}};
  m.row_bytes += 6;  // rows need not be adjacent
  size_t total = static_cast<size_t>(n_out) * m.row_bytes;
  m.bytes.resize(total + 1 - 6);  // the last byte of the last block: a sanitizer sees any byte read past it
  for (uint8_t& byte : m.bytes) {
    byte = fill == Fill::kZero ? 0 : fill == Fill::kOnes ? 0xff : static_cast<uint8_t>(random());
  }
  for (int64_t row = 0; row < n_out; row++) {
    uint8_t* at = m.bytes.data() + 1 + static_cast<uint64_t>(row) * m.row_bytes;
    for (int64_t e = 0; e < n_in; e += info->block_elements, at += info->block_bytes) {
      auto put = [&](size_t offset, uint64_t value, size_t size) {
        for (size_t i = 0; i < size; i++) at[offset + i] = static_cast<uint8_t>(value >> (8 * i));
      };
      float value = std::uniform_real_distribution<float>(-1, 1)(random);
      if (type == TensorType::kF32) put(0, std::bit_cast<uint32_t>(fill == Fill::kZero ? 0.0f : value), 4);
      if (type == TensorType::kBF16) put(0, std::bit_cast<uint32_t>(fill == Fill::kZero ? 0.0f : value) >> 16, 2);
      if (type == TensorType::kF16) put(0, (random() & 0x83ff) | ((random() % 16) << 10), 2);
      if (type == TensorType::kMXFP4) put(0, 110 + random() % 20, 1);
      for (size_t offset : half_offsets(type)) {
        uint64_t half = (random() & 0x83ff) | ((8 + random() % 6) << 10);  // 2^-7 .. 2^-2, either sign
        if (fill == Fill::kSubnormalScales) half = random() & 0x83ff;
        if (fill == Fill::kNegativeScales) half |= 0x8000;
        put(offset, half, 2);
      }
    }
  }
  return m;
}

/// Activation rows in both forms.
struct Inputs {
  int64_t n_in = 0, rows = 0;
  std::vector<float> f32;
  std::vector<int8_t> values;
  std::vector<float> scales;
  std::vector<int16_t> sums;
  Activations view() const { return {f32.data(), n_in, values.data(), scales.data(), sums.data()}; }
};

/// Random rows; with `saturated`, every quantised value is +127 or -127.
inline Inputs random_inputs(int64_t rows, int64_t n_in, uint32_t seed, bool saturated = false) {
  std::mt19937 random(seed);
  Inputs x;
  x.n_in = n_in, x.rows = rows;
  for (int64_t i = 0; i < rows * n_in; i++) {
    float value = std::normal_distribution<float>(0, 1)(random);
    x.f32.push_back(saturated ? (random() % 8 == 0 ? -2.5f : 2.5f) : value);
  }
  if (n_in % 32 != 0) return x;
  x.values.resize(static_cast<size_t>(rows * n_in));
  x.scales.resize(static_cast<size_t>(rows * n_in / 32));
  x.sums.resize(static_cast<size_t>(rows * n_in / 16));
  for (int64_t r = 0; r < rows; r++) {
    kernels_at("scalar")->quantize_row(x.f32.data() + r * n_in, n_in, x.values.data() + r * n_in,
                                       x.scales.data() + r * n_in / 32, x.sums.data() + r * n_in / 16);
  }
  return x;
}

/// out[i, row] of the rows [begin, end) for the activation rows listed (all when empty); other entries stay 12345.
inline std::vector<float> run_matmul(const KernelTable& table, const Matrix& m, const Inputs& x, int64_t begin,
                                     int64_t end, const std::vector<uint32_t>& rows = {}, int64_t count = -1) {
  MatmulArgs args;
  args.weights = m.data();
  args.row_bytes = m.row_bytes;
  args.n_in = m.n_in;
  args.row_begin = begin, args.row_end = end;
  args.x = x.view();
  args.x_rows = rows.empty() ? nullptr : rows.data();
  args.x_count = !rows.empty() ? static_cast<int64_t>(rows.size()) : count >= 0 ? count : x.rows;
  std::vector<float> out(static_cast<size_t>(args.x_count * m.n_out), 12345.0f);
  args.out = out.data();
  args.out_stride = m.n_out;
  table.matmul[static_cast<size_t>(m.type)](args);
  return out;
}

/// The product in double precision of the dequantised weights with the activations as the kernel sees them, and the
/// sum of the magnitudes of its terms.
struct Exact {
  std::vector<double> value, magnitude;
};

inline Exact exact_matmul(const Matrix& m, const Inputs& x) {
  bool q8 = type_uses_q8(m.type);
  Exact exact;
  std::vector<std::vector<float>> weights;
  for (int64_t row = 0; row < m.n_out; row++) {
    weights.emplace_back(static_cast<size_t>(m.n_in));
    kernels_at("scalar")->dequantize[static_cast<size_t>(m.type)](m.data() + static_cast<uint64_t>(row) * m.row_bytes,
                                                                  m.n_in, weights.back().data());
  }
  for (int64_t r = 0; r < x.rows; r++) {
    for (int64_t row = 0; row < m.n_out; row++) {
      double value = 0, magnitude = 0;
      for (int64_t k = 0; k < m.n_in; k++) {
        size_t at = static_cast<size_t>(r * m.n_in + k);
        double in = q8 ? static_cast<double>(x.values[at]) * static_cast<double>(x.scales[at / 32])
                       : static_cast<double>(x.f32[at]);
        double term = in * static_cast<double>(weights[static_cast<size_t>(row)][static_cast<size_t>(k)]);
        value += term;
        magnitude += std::abs(term);
      }
      exact.value.push_back(value);
      exact.magnitude.push_back(magnitude);
    }
  }
  return exact;
}

}  // namespace llmd
