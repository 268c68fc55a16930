// The block formats of GGUF as one common form: groups of 32 weights, w[e] * scale[e / 16] - min[e / 16].
//
// A format says how many groups a block holds, whether scales differ between the halves of a group, whether it has
// minimums, and unpacks one block. Everything else (dot products, rows of floats) is written once over this form;
// adding a type is one struct here and one line in the table. Block layouts: GGUF specification; the float products are
// formed in the order written there, so the values are bit-exact. Blocks may have any alignment. Unnamed namespace: see
// half.h. Pure functions, any thread.
#pragma once

#include "model/kernels/half.h"
#include "model/kernels/kernels.h"

namespace llmd {
namespace {

constexpr int kGroup = 32;

struct Group {
  int8_t w[kGroup];
  float scale[2];
  float min[2];
};

constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kMxfp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // twice the E2M1 value

// The 16 bytes of a group of nibbles: byte j holds element j below and element j + 16 above.
inline void unpack_nibbles(const uint8_t* q, int8_t* w) {
  for (int j = 0; j < 16; j++) w[j] = static_cast<int8_t>(q[j] & 15);
  for (int j = 0; j < 16; j++) w[j + 16] = static_cast<int8_t>(q[j] >> 4);
}

// Adds 16 * bit e of `high`, and `offset`, to element e.
inline void add_fifth_bits(uint32_t high, int offset, int8_t* w) {
  for (int e = 0; e < kGroup; e++) {
    int bit = static_cast<int>((high >> e) & 1);
    w[e] = static_cast<int8_t>(w[e] + 16 * bit + offset);
  }
}

inline void look_up(const int8_t levels[16], int8_t* w) {
  for (int e = 0; e < kGroup; e++) w[e] = levels[w[e]];
}

inline void set_scale(Group& group, float scale, float min = 0) {
  group.scale[0] = group.scale[1] = scale;
  group.min[0] = group.min[1] = min;
}

struct Q8_0 {
  static constexpr TensorType kType = TensorType::kQ8_0;
  static constexpr int kBytes = 34, kGroups = 1;
  static constexpr bool kHalves = false, kMin = false;
  static void unpack(const uint8_t* block, Group* group) {
    set_scale(*group, load_f16(block));
    std::memcpy(group->w, block + 2, kGroup);
  }
};

struct Q4_0 {
  static constexpr TensorType kType = TensorType::kQ4_0;
  static constexpr int kBytes = 18, kGroups = 1;
  static constexpr bool kHalves = false, kMin = false;
  static void unpack(const uint8_t* block, Group* group) {
    set_scale(*group, load_f16(block));
    unpack_nibbles(block + 2, group->w);
    for (int8_t& w : group->w) w = static_cast<int8_t>(w - 8);
  }
};

struct Q4_1 {
  static constexpr TensorType kType = TensorType::kQ4_1;
  static constexpr int kBytes = 20, kGroups = 1;
  static constexpr bool kHalves = false, kMin = true;
  static void unpack(const uint8_t* block, Group* group) {
    set_scale(*group, load_f16(block), -load_f16(block + 2));
    unpack_nibbles(block + 4, group->w);
  }
};

struct Q5_0 {
  static constexpr TensorType kType = TensorType::kQ5_0;
  static constexpr int kBytes = 22, kGroups = 1;
  static constexpr bool kHalves = false, kMin = false;
  static void unpack(const uint8_t* block, Group* group) {
    set_scale(*group, load_f16(block));
    unpack_nibbles(block + 6, group->w);
    add_fifth_bits(load_as<uint32_t>(block + 2), -16, group->w);
  }
};

struct Q5_1 {
  static constexpr TensorType kType = TensorType::kQ5_1;
  static constexpr int kBytes = 24, kGroups = 1;
  static constexpr bool kHalves = false, kMin = true;
  static void unpack(const uint8_t* block, Group* group) {
    set_scale(*group, load_f16(block), -load_f16(block + 2));
    unpack_nibbles(block + 8, group->w);
    add_fifth_bits(load_as<uint32_t>(block + 4), 0, group->w);
  }
};

struct IQ4_NL {
  static constexpr TensorType kType = TensorType::kIQ4_NL;
  static constexpr int kBytes = 18, kGroups = 1;
  static constexpr bool kHalves = false, kMin = false;
  static void unpack(const uint8_t* block, Group* group) {
    set_scale(*group, load_f16(block));
    unpack_nibbles(block + 2, group->w);
    look_up(kIq4Levels, group->w);
  }
};

// 2^(e - 128), exact: the two smallest are subnormal.
inline float mxfp4_scale(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

struct MXFP4 {
  static constexpr TensorType kType = TensorType::kMXFP4;
  static constexpr int kBytes = 17, kGroups = 1;
  static constexpr bool kHalves = false, kMin = false;
  static void unpack(const uint8_t* block, Group* group) {
    set_scale(*group, mxfp4_scale(block[0]));
    unpack_nibbles(block + 1, group->w);
    look_up(kMxfp4Levels, group->w);
  }
};

struct Q2_K {  // 16 scale bytes (scale below, minimum above), 64 bytes of 2-bit weights, d, dmin
  static constexpr TensorType kType = TensorType::kQ2_K;
  static constexpr int kBytes = 84, kGroups = 8;
  static constexpr bool kHalves = true, kMin = true;
  static void unpack(const uint8_t* block, Group* groups) {
    float d = load_f16(block + 80), dmin = load_f16(block + 82);
    for (int g = 0; g < kGroups; g++) {
      const uint8_t* q = block + 16 + 32 * (g / 4);
      for (int e = 0; e < kGroup; e++) groups[g].w[e] = static_cast<int8_t>((q[e] >> (2 * (g % 4))) & 3);
      for (int half = 0; half < 2; half++) {
        uint8_t packed = block[2 * g + half];
        groups[g].scale[half] = d * static_cast<float>(packed & 15);
        groups[g].min[half] = dmin * static_cast<float>(packed >> 4);
      }
    }
  }
};

struct Q3_K {  // 32 bytes of high bits, 64 bytes of low bits, 12 bytes of 6-bit scales, d
  static constexpr TensorType kType = TensorType::kQ3_K;
  static constexpr int kBytes = 110, kGroups = 8;
  static constexpr bool kHalves = true, kMin = false;
  static int scale(const uint8_t* s, int k) {
    int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
    return (low | (((s[8 + k % 4] >> (2 * (k / 4))) & 3) << 4)) - 32;
  }
  static void unpack(const uint8_t* block, Group* groups) {
    float d = load_f16(block + 108);
    for (int g = 0; g < kGroups; g++) {
      const uint8_t* q = block + 32 + 32 * (g / 4);
      for (int e = 0; e < kGroup; e++) {
        int high = (block[e] >> g) & 1;
        groups[g].w[e] = static_cast<int8_t>(((q[e] >> (2 * (g % 4))) & 3) + 4 * high - 4);
      }
      for (int half = 0; half < 2; half++) {
        groups[g].scale[half] = d * static_cast<float>(scale(block + 96, 2 * g + half));
        groups[g].min[half] = 0;
      }
    }
  }
};

// The 6-bit scales and minimums of Q4_K and Q5_K: 8 of each in 12 bytes.
inline void unpack_scales_k(const uint8_t* block, int g, Group& group) {
  const uint8_t* s = block + 4;
  int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | ((s[g - 4] >> 6) << 4);
  int min = g < 4 ? s[g + 4] & 63 : (s[g + 4] >> 4) | ((s[g] >> 6) << 4);
  set_scale(group, load_f16(block) * static_cast<float>(scale), load_f16(block + 2) * static_cast<float>(min));
}

struct Q4_K {  // d, dmin, 12 bytes of scales, 128 bytes: 32 per pair of groups, the even group below
  static constexpr TensorType kType = TensorType::kQ4_K;
  static constexpr int kBytes = 144, kGroups = 8;
  static constexpr bool kHalves = false, kMin = true;
  static void unpack(const uint8_t* block, Group* groups) {
    for (int g = 0; g < kGroups; g++) {
      const uint8_t* q = block + 16 + 32 * (g / 2);
      for (int e = 0; e < kGroup; e++) groups[g].w[e] = static_cast<int8_t>((q[e] >> (4 * (g % 2))) & 15);
      unpack_scales_k(block, g, groups[g]);
    }
  }
};

struct Q5_K {  // as Q4_K with 32 bytes of fifth bits before the nibbles: bit g of byte e
  static constexpr TensorType kType = TensorType::kQ5_K;
  static constexpr int kBytes = 176, kGroups = 8;
  static constexpr bool kHalves = false, kMin = true;
  static void unpack(const uint8_t* block, Group* groups) {
    for (int g = 0; g < kGroups; g++) {
      const uint8_t* q = block + 48 + 32 * (g / 2);
      for (int e = 0; e < kGroup; e++) {
        int high = (block[16 + e] >> g) & 1;
        groups[g].w[e] = static_cast<int8_t>(((q[e] >> (4 * (g % 2))) & 15) + 16 * high);
      }
      unpack_scales_k(block, g, groups[g]);
    }
  }
};

struct Q6_K {  // 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, d
  static constexpr TensorType kType = TensorType::kQ6_K;
  static constexpr int kBytes = 210, kGroups = 8;
  static constexpr bool kHalves = true, kMin = false;
  static void unpack(const uint8_t* block, Group* groups) {
    float d = load_f16(block + 208);
    for (int g = 0; g < kGroups; g++) {
      int n = g / 4, j = g % 4;
      const uint8_t* low = block + 64 * n + 32 * (j & 1);
      const uint8_t* high = block + 128 + 32 * n;
      for (int e = 0; e < kGroup; e++) {
        int q = ((low[e] >> (4 * (j / 2))) & 15) | (((high[e] >> (2 * j)) & 3) << 4);
        groups[g].w[e] = static_cast<int8_t>(q - 32);
      }
      for (int half = 0; half < 2; half++) {
        groups[g].scale[half] = d * static_cast<float>(static_cast<int8_t>(block[192 + 2 * g + half]));
        groups[g].min[half] = 0;
      }
    }
  }
};

struct IQ4_XS {  // d, 16 bits of high scale pairs, 4 bytes of low scale nibbles, 8 x 16 bytes
  static constexpr TensorType kType = TensorType::kIQ4_XS;
  static constexpr int kBytes = 136, kGroups = 8;
  static constexpr bool kHalves = false, kMin = false;
  static void unpack(const uint8_t* block, Group* groups) {
    float d = load_f16(block);
    uint16_t high = load_as<uint16_t>(block + 2);
    for (int g = 0; g < kGroups; g++) {
      int scale = ((block[4 + g / 2] >> (4 * (g % 2))) & 15) | (((high >> (2 * g)) & 3) << 4);
      set_scale(groups[g], d * static_cast<float>(scale - 32));
      unpack_nibbles(block + 8 + 16 * g, groups[g].w);
      look_up(kIq4Levels, groups[g].w);
    }
  }
};

/// Calls visit.template operator()<Format>() for every quantised format.
template <typename Visit>
void for_each_format(Visit visit) {
  visit.template operator()<Q8_0>();
  visit.template operator()<Q4_0>();
  visit.template operator()<Q4_1>();
  visit.template operator()<Q5_0>();
  visit.template operator()<Q5_1>();
  visit.template operator()<IQ4_NL>();
  visit.template operator()<MXFP4>();
  visit.template operator()<Q2_K>();
  visit.template operator()<Q3_K>();
  visit.template operator()<Q4_K>();
  visit.template operator()<Q5_K>();
  visit.template operator()<Q6_K>();
  visit.template operator()<IQ4_XS>();
}

// The float formats: one weight each.
struct F32 {
  static constexpr TensorType kType = TensorType::kF32;
  static constexpr int kBytes = 4;
  static float value(const uint8_t* bytes) { return load_as<float>(bytes); }
};

struct F16 {
  static constexpr TensorType kType = TensorType::kF16;
  static constexpr int kBytes = 2;
  static float value(const uint8_t* bytes) { return load_f16(bytes); }
};

struct BF16 {
  static constexpr TensorType kType = TensorType::kBF16;
  static constexpr int kBytes = 2;
  static float value(const uint8_t* bytes) { return bf16_to_f32(load_as<uint16_t>(bytes)); }
};

inline size_t type_index(TensorType type) {
  return static_cast<size_t>(type);
}

}  // namespace
}  // namespace llmd
