// Rounding and unrounding: activations to the q8 form, the KV types, rows of quantised weights to floats. Every one of
// these gives the bits of the scalar level.
#include "model/kernels/formats.h"
#include "model/kernels/levels.h"
#include "model/kernels/vector_avx2.h"

namespace llmd {
namespace {

constexpr float kTiny = 0x1p-100f;  // as in scalar_ops.cc

__m128i* as128(void* p) {
  return static_cast<__m128i*>(p);
}
const __m128i* as128(const void* p) {
  return static_cast<const __m128i*>(p);
}

struct Block32 {
  __m256 v[4];
  float max_abs;  // NaN if a value is NaN
};

Block32 load_block(const float* x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  Block32 block;
  __m256 max = _mm256_setzero_ps(), nan = _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    block.v[i] = _mm256_loadu_ps(x + 8 * i);
    max = _mm256_max_ps(_mm256_andnot_ps(sign, block.v[i]), max);
    nan = _mm256_or_ps(nan, _mm256_cmp_ps(block.v[i], block.v[i], _CMP_UNORD_Q));
  }
  block.max_abs = _mm256_movemask_ps(nan) ? __builtin_nanf("") : max_lanes(max);
  return block;
}

/// Nearest integers of v * inverse in [-127, 127] as bytes in order; NaN gives -127.
__m256i to_int8(const Block32& block, float inverse) {
  const __m256 factor = _mm256_set1_ps(inverse), low = _mm256_set1_ps(-127.0f), high = _mm256_set1_ps(127.0f);
  __m256i q[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    __m256 v = _mm256_mul_ps(block.v[i], factor);
    q[i] = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v, low), high));
  }
  __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

void quantize_row(const float* x, int64_t n, int8_t* values, float* scales, int16_t* sums) {
  for (int64_t at = 0; at < n / 32; at++, x += 32, values += 32, sums += 2) {
    Block32 block = load_block(x);
    bool zero = block.max_abs < kTiny;
    scales[at] = zero ? 0 : block.max_abs / 127.0f;
    __m256i q = to_int8(block, zero ? 0 : 127.0f / block.max_abs);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), q);
    // Sums of 8 bytes, biased by 128 each to be unsigned, then of two of those.
    __m256i s = _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
    int low = _mm256_extract_epi16(s, 0) + _mm256_extract_epi16(s, 4);
    int high = _mm256_extract_epi16(s, 8) + _mm256_extract_epi16(s, 12);
    sums[0] = static_cast<int16_t>(low - 16 * 128);
    sums[1] = static_cast<int16_t>(high - 16 * 128);
  }
}

void store_f16(const float* in, int64_t n, std::byte* out) {
  for (int64_t i = 0; i < n; i += 8) {
    __m128i half = _mm256_cvtps_ph(load_floats(in + i, n - i), _MM_FROUND_TO_NEAREST_INT);
    if (n - i >= 8) {
      _mm_storeu_si128(as128(out + 2 * i), half);
    } else {
      std::memcpy(out + 2 * i, &half, static_cast<size_t>(n - i) * 2);
    }
  }
}

void store_bf16(const float* in, int64_t n, std::byte* out) {
  for (int64_t i = 0; i < n; i += 8) {
    __m256 v = load_floats(in + i, n - i);
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    rounded = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded, rounded), 0xd8);
    __m128i half = _mm256_castsi256_si128(packed);
    if (n - i >= 8) {
      _mm_storeu_si128(as128(out + 2 * i), half);
    } else {
      std::memcpy(out + 2 * i, &half, static_cast<size_t>(n - i) * 2);
    }
  }
}

void store_q8_0(const float* in, int64_t n, std::byte* out) {
  for (int64_t at = 0; at < n / 32; at++, in += 32, out += 34) {
    Block32 block = load_block(in);
    float scale = block.max_abs / 127.0f;
    if (scale > 65504) scale = 65504;
    uint16_t half = f32_to_f16(scale);
    float rounded = f16_to_f32(half);
    std::memcpy(out, &half, sizeof half);
    __m256i q = to_int8(block, rounded == 0 ? 0 : 1.0f / rounded);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 2), q);
  }
}

void kv_store(KvType type, const float* in, int64_t n, std::byte* out) {
  switch (type) {
    case KvType::kF32:
      return kv_store_scalar(type, in, n, out);
    case KvType::kF16:
      return store_f16(in, n, out);
    case KvType::kBF16:
      return store_bf16(in, n, out);
    case KvType::kQ8_0:
      return store_q8_0(in, n, out);
  }
}

/// 16 signed bytes times `scale` (and minus `min`), to floats.
template <bool kMin>
inline void scale_bytes(__m128i bytes, float scale, float min, float* out) {
  const __m256 factor = _mm256_set1_ps(scale), offset = _mm256_set1_ps(min);
  __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
  low = _mm256_mul_ps(low, factor);
  high = _mm256_mul_ps(high, factor);
  _mm256_storeu_ps(out, kMin ? _mm256_sub_ps(low, offset) : low);
  _mm256_storeu_ps(out + 8, kMin ? _mm256_sub_ps(high, offset) : high);
}

template <typename Format>
void dequantize(const std::byte* row, int64_t n, float* out) {
  auto* block = reinterpret_cast<const uint8_t*>(row);
  for (int64_t first = 0; first < n; first += kGroup * Format::kGroups, block += Format::kBytes) {
    Group groups[Format::kGroups];
    Format::unpack(block, groups);
    for (const Group& group : groups) {
      for (int half = 0; half < 2; half++, out += 16) {
        __m128i bytes = _mm_loadu_si128(as128(group.w + 16 * half));
        scale_bytes<Format::kMin>(bytes, group.scale[half], group.min[half], out);
      }
    }
  }
}

void kv_load(KvType type, const std::byte* in, int64_t n, float* out) {
  switch (type) {
    case KvType::kF32:
      return kv_load_scalar(type, in, n, out);
    case KvType::kF16: {
      int64_t i = 0;
      for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(as128(in + 2 * i))));
      return kv_load_scalar(type, in + 2 * i, n - i, out + i);
    }
    case KvType::kBF16: {
      int64_t i = 0;
      for (; i + 8 <= n; i += 8) {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(as128(in + 2 * i)));
        _mm256_storeu_ps(out + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
      }
      return kv_load_scalar(type, in + 2 * i, n - i, out + i);
    }
    case KvType::kQ8_0:
      return dequantize<Q8_0>(in, n, out);
  }
}

}  // namespace

void fill_avx2_convert(KernelTable& table) {
  table.quantize_row = quantize_row;
  table.kv_store = kv_store;
  table.kv_load = kv_load;
  for_each_format([&]<typename Format>() { table.dequantize[type_index(Format::kType)] = dequantize<Format>; });
}

}  // namespace llmd
