// Rounding: activations to the q8 form and the KV types. The levels give the same bytes; values go there and back
// within half a step; numbers that cannot be represented do nothing worse than saturate or stay NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/kernel_testing.h"

namespace llmd {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

class Convert : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    table_ = kernels_at(GetParam());
    if (table_ == nullptr) GTEST_SKIP() << "SKIPPED: this processor cannot run " << GetParam();
  }
  std::vector<float> round_trip(KvType type, const std::vector<float>& in) const {
    int64_t n = static_cast<int64_t>(in.size());
    std::vector<std::byte> stored(kv_bytes(type, n) + 1, std::byte{0x5a});
    table_->kv_store(type, in.data(), n, stored.data());
    EXPECT_EQ(stored.back(), std::byte{0x5a}) << "wrote past the end";
    std::vector<float> out(in.size() + 1, 12345.0f);
    table_->kv_load(type, stored.data(), n, out.data());
    EXPECT_EQ(out.back(), 12345.0f) << "wrote past the end";
    out.pop_back();
    return out;
  }
  const KernelTable* table_ = nullptr;
};

// Ordinary rows, and blocks of zeros, subnormals, huge, infinite and undefined numbers and exact halves of a step.
std::vector<float> hostile_row() {
  std::mt19937 random(5);
  std::vector<float> x;
  for (int i = 0; i < 320; i++) x.push_back(std::normal_distribution<float>()(random));
  for (float value : {0.0f, -0.0f, 1e-45f, 1e-38f, 1e-30f, 1e30f, 3e38f, kInf, kNan, 0x1p-100f, 65504.0f, 8319000.0f}) {
    for (int i = 0; i < 32; i++) x.push_back(i == 7 ? -value : i % 3 == 0 ? value : 0);
  }
  for (int i = 0; i < 31; i++) x.push_back(static_cast<float>(i) + 0.5f);
  x.push_back(127);
  return x;
}

TEST_P(Convert, QuantizeRowEqualsScalar_ForHostileRows) {
  std::vector<float> x = hostile_row();
  int64_t n = static_cast<int64_t>(x.size());
  struct Form {
    std::vector<int8_t> values;
    std::vector<float> scales;
    std::vector<int16_t> sums;
  };
  auto quantize = [&](const KernelTable& table) {
    Form f{std::vector<int8_t>(x.size()), std::vector<float>(x.size() / 32), std::vector<int16_t>(x.size() / 16)};
    table.quantize_row(x.data(), n, f.values.data(), f.scales.data(), f.sums.data());
    return f;
  };
  Form got = quantize(*table_), want = quantize(*kernels_at("scalar"));
  EXPECT_EQ(got.values, want.values);
  EXPECT_EQ(got.sums, want.sums);
  EXPECT_EQ(std::memcmp(got.scales.data(), want.scales.data(), got.scales.size() * 4), 0);
  for (size_t i = 0; i < x.size(); i++) {
    float scale = got.scales[i / 32];
    if (!std::isfinite(scale)) continue;
    ASSERT_LE(std::abs(x[i] - scale * static_cast<float>(got.values[i])), scale * 0.50001f + 1e-30f) << i;
    ASSERT_GE(got.values[i], -127);
  }
  for (size_t s = 0; s < got.sums.size(); s++) {
    int sum = 0;
    for (size_t e = 0; e < 16; e++) sum += got.values[16 * s + e];
    ASSERT_EQ(got.sums[s], sum);
  }
}

TEST_P(Convert, QuantizeRowRoundsTiesToEven) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127, x[1] = 0.5f, x[2] = 1.5f, x[3] = -2.5f;
  std::vector<int8_t> values(32);
  float scale;
  int16_t sums[2];
  table_->quantize_row(x.data(), 32, values.data(), &scale, sums);
  EXPECT_EQ(scale, 1.0f);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[2], 2);
  EXPECT_EQ(values[3], -2);
}

TEST_P(Convert, KvStoreEqualsScalar_ForEveryTypeAndHostileRows) {
  std::vector<float> x = hostile_row();
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    for (size_t n : {size_t{32}, size_t{64}, size_t{576}, x.size(), size_t{1}, size_t{7}, size_t{333}}) {
      if (type == KvType::kQ8_0 && n % 32 != 0) continue;
      int64_t count = static_cast<int64_t>(n);
      std::vector<std::byte> got(kv_bytes(type, count)), want(kv_bytes(type, count));
      table_->kv_store(type, x.data(), count, got.data());
      kernels_at("scalar")->kv_store(type, x.data(), count, want.data());
      ASSERT_EQ(got, want) << static_cast<int>(type) << " " << n;
      std::vector<float> out(n), out2(n);
      table_->kv_load(type, got.data(), count, out.data());
      kernels_at("scalar")->kv_load(type, got.data(), count, out2.data());
      ASSERT_EQ(std::memcmp(out.data(), out2.data(), n * 4), 0) << static_cast<int>(type) << " " << n;
    }
  }
}

TEST_P(Convert, KvRoundTripIsNearest) {
  std::mt19937 random(9);
  std::vector<float> x(352);
  for (float& value : x) value = std::normal_distribution<float>()(random);
  EXPECT_EQ(round_trip(KvType::kF32, x), x);
  std::vector<float> f16 = round_trip(KvType::kF16, x), bf16 = round_trip(KvType::kBF16, x);
  std::vector<float> q8 = round_trip(KvType::kQ8_0, x);
  for (size_t i = 0; i < x.size(); i++) {
    float max = 0;
    for (size_t e = i / 32 * 32; e < i / 32 * 32 + 32; e++) max = std::max(max, std::abs(x[e]));
    EXPECT_LE(std::abs(f16[i] - x[i]), std::abs(x[i]) * 0x1p-11f + 0x1p-25f);
    EXPECT_LE(std::abs(bf16[i] - x[i]), std::abs(x[i]) * 0x1p-8f);
    EXPECT_LE(std::abs(q8[i] - x[i]), max / 127 * 0.57f);  // half a step, and the rounding of the step to 11 bits
  }
  // What was rounded once is not rounded again: load then store is the identity.
  EXPECT_EQ(round_trip(KvType::kF16, f16), f16);
  EXPECT_EQ(round_trip(KvType::kBF16, bf16), bf16);
}

TEST_P(Convert, KvStoreRoundsTiesToEven_AndKeepsSpecialValues) {
  std::vector<float> x = {1 + 0x1p-11f, 1 + 0x3p-11f, 65519.0f, 65520.0f, -kInf, kNan, 0x1p-25f, 0x1.8p-24f, -0.0f};
  std::vector<float> f16 = round_trip(KvType::kF16, x);
  EXPECT_EQ(f16[0], 1.0f);
  EXPECT_EQ(f16[1], 1 + 0x1p-9f);
  EXPECT_EQ(f16[2], 65504.0f);
  EXPECT_EQ(f16[3], kInf);
  EXPECT_EQ(f16[4], -kInf);
  EXPECT_TRUE(std::isnan(f16[5]));
  EXPECT_EQ(f16[6], 0.0f);
  EXPECT_EQ(f16[7], 0x1p-23f);
  EXPECT_TRUE(std::signbit(f16[8]));
  std::vector<float> bf16 = round_trip(KvType::kBF16, {1 + 0x1p-8f, 1 + 0x3p-8f, kInf, kNan, 0x1.fffp127f});
  EXPECT_EQ(bf16[0], 1.0f);
  EXPECT_EQ(bf16[1], 1 + 0x1p-6f);
  EXPECT_EQ(bf16[2], kInf);
  EXPECT_TRUE(std::isnan(bf16[3]));
  EXPECT_EQ(bf16[4], kInf);
}

INSTANTIATE_TEST_SUITE_P(Levels, Convert, testing::ValuesIn(all_levels()),
                         [](const auto& level) { return level.param; });

}  // namespace
}  // namespace llmd
