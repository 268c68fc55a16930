// Rows of floats, bit for bit: against the recorded vectors of the reference (../shared, optional) and against blocks
// made by hand, whose values can be checked on paper.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/kernels/kernel_testing.h"

namespace llmd {
namespace {

std::vector<uint8_t> from_hex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

class Dequantize : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    table_ = kernels_at(GetParam());
    if (table_ == nullptr) GTEST_SKIP() << "SKIPPED: this processor cannot run " << GetParam();
  }
  std::vector<float> row(TensorType type, const std::vector<uint8_t>& bytes, int64_t n) const {
    std::vector<float> out(static_cast<size_t>(n) + 1, 12345.0f);
    table_->dequantize[static_cast<size_t>(type)](reinterpret_cast<const std::byte*>(bytes.data()), n, out.data());
    EXPECT_EQ(out.back(), 12345.0f) << "wrote past the row";
    out.pop_back();
    return out;
  }
  const KernelTable* table_ = nullptr;
};

TEST_P(Dequantize, EqualsReferenceBitForBit_ForEveryRecordedVector) {
  std::filesystem::path folder = LLMD_SOURCE_DIR "/../shared/data/quant-vectors";
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "SKIPPED: " << folder << " is absent; only hand-made blocks ran";
  int checked = 0;
  for (TensorType type : all_types()) {
    std::ifstream file(folder / (std::string(tensor_type_name(type)) + ".json"));
    if (!file) continue;
    nlohmann::json vectors = nlohmann::json::parse(file);
    ASSERT_EQ(vectors["id"].get<uint32_t>(), static_cast<uint32_t>(type));
    std::vector<uint8_t> bytes;  // all blocks as one row
    std::string expected;
    for (const std::string block : vectors["blocks_hex"]) {
      std::vector<uint8_t> more = from_hex(block);
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    for (const std::string values : vectors["f32_bits_hex"]) expected += values;
    std::vector<float> out = row(type, bytes, static_cast<int64_t>(expected.size() / 8));
    for (size_t i = 0; i < out.size(); i++) {
      uint32_t want = static_cast<uint32_t>(std::stoul(expected.substr(i * 8, 8), nullptr, 16));
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), want) << tensor_type_name(type) << " element " << i;
    }
    checked++;
  }
  EXPECT_EQ(checked, 13) << "every quantised type has a vector";
}

TEST_P(Dequantize, GivesHandComputedValues_ForLegacyBlocks) {
  // d = 0.5 (half 0x3800), m = -1 (half 0xbc00); byte 0 is 0xf1: element 0 is 1, element 16 is 15.
  std::vector<uint8_t> q4_0(18, 0x88);
  q4_0[0] = 0x00, q4_0[1] = 0x38, q4_0[2] = 0xf1;
  std::vector<float> out = row(TensorType::kQ4_0, q4_0, 32);
  EXPECT_EQ(out[0], -3.5f);
  EXPECT_EQ(out[16], 3.5f);
  EXPECT_EQ(out[1], 0.0f);

  std::vector<uint8_t> q4_1(20, 0);
  q4_1[1] = 0x38, q4_1[3] = 0xbc, q4_1[4] = 0xf1;
  out = row(TensorType::kQ4_1, q4_1, 32);
  EXPECT_EQ(out[0], -0.5f);
  EXPECT_EQ(out[16], 6.5f);
  EXPECT_EQ(out[31], -1.0f);

  std::vector<uint8_t> q5_0(22, 0);
  q5_0[1] = 0x38, q5_0[2] = 0x01, q5_0[5] = 0x80, q5_0[6] = 0xf1;  // fifth bits of elements 0 and 31
  out = row(TensorType::kQ5_0, q5_0, 32);
  EXPECT_EQ(out[0], 0.5f);    // 17 - 16
  EXPECT_EQ(out[16], -0.5f);  // 15 - 16
  EXPECT_EQ(out[31], 0.0f);   // 16 - 16
  EXPECT_EQ(out[1], -8.0f);

  std::vector<uint8_t> q5_1(24, 0);
  q5_1[1] = 0x38, q5_1[3] = 0xbc, q5_1[4] = 0x01, q5_1[8] = 0xf1;
  out = row(TensorType::kQ5_1, q5_1, 32);
  EXPECT_EQ(out[0], 7.5f);
  EXPECT_EQ(out[16], 6.5f);

  std::vector<uint8_t> q8_0(34, 0x80);  // -128
  q8_0[0] = 0x01, q8_0[1] = 0x00;       // the smallest subnormal half
  out = row(TensorType::kQ8_0, q8_0, 32);
  EXPECT_EQ(out[31], -0x1p-17f);
}

TEST_P(Dequantize, GivesHandComputedValues_ForTableBlocks) {
  std::vector<uint8_t> iq4(18, 0);
  iq4[1] = 0x3c, iq4[2] = 0xf8;
  std::vector<float> out = row(TensorType::kIQ4_NL, iq4, 32);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[16], 113.0f);
  EXPECT_EQ(out[1], -127.0f);

  for (int e : {0, 1, 2, 128, 255}) {
    std::vector<uint8_t> mxfp4(17, 0);
    mxfp4[0] = static_cast<uint8_t>(e), mxfp4[1] = 0xf1;
    out = row(TensorType::kMXFP4, mxfp4, 32);
    EXPECT_EQ(out[0], std::ldexp(1.0f, e - 128)) << e;
    EXPECT_EQ(out[16], static_cast<float>(std::ldexp(-12.0, e - 128))) << e;
  }
}

TEST_P(Dequantize, GivesHandComputedValues_ForSuperBlocks) {
  // Q4_K: d = 1, dmin = 0.5; group 5's scale is 0b10'0011 = 35, its minimum 0b01'0010 = 18; weights all 0xa.
  std::vector<uint8_t> q4(144, 0);
  q4[1] = 0x3c, q4[3] = 0x38;
  q4[4 + 1] = 2 << 6, q4[4 + 5] = 1 << 6, q4[4 + 9] = 0x23;
  for (size_t i = 16; i < 144; i++) q4[i] = 0xa7;
  std::vector<float> out = row(TensorType::kQ4_K, q4, 256);
  EXPECT_EQ(out[5 * 32], 35.0f * 10 - 9);
  EXPECT_EQ(out[4 * 32], 0.0f);

  // Q6_K: d = 1; scale of elements 144..159 is -3; element 149 is lane 21 of plane 0 of the second half.
  std::vector<uint8_t> q6(210, 0);
  q6[209] = 0x3c;
  q6[192 + 9] = static_cast<uint8_t>(-3);
  q6[64 + 21] = 0x05, q6[128 + 32 + 21] = 0x02;
  out = row(TensorType::kQ6_K, q6, 256);
  EXPECT_EQ(out[149], -3.0f * (5 + 32 - 32));
  EXPECT_EQ(out[150], 96.0f);

  // Q3_K: element 0 has its high bit (no -4), low bits 3; scale of group 0: low 1, high 2 -> 33 - 32 = 1.
  std::vector<uint8_t> q3(110, 0);
  q3[109] = 0x3c, q3[0] = 1, q3[32] = 3, q3[96] = 1, q3[104] = 2;
  out = row(TensorType::kQ3_K, q3, 256);
  EXPECT_EQ(out[0], 3.0f);
  EXPECT_EQ(out[1], -4.0f);
  EXPECT_EQ(out[16], 128.0f);  // scale 0 - 32, weight -4
}

TEST_P(Dequantize, ConvertsEveryHalf) {
  std::vector<uint8_t> bytes(2 * 65536);
  for (uint32_t i = 0; i < 65536; i++) {
    bytes[2 * i] = static_cast<uint8_t>(i);
    bytes[2 * i + 1] = static_cast<uint8_t>(i >> 8);
  }
  std::vector<float> f16 = row(TensorType::kF16, bytes, 65536), bf16 = row(TensorType::kBF16, bytes, 65536);
  for (uint32_t i = 0; i < 65536; i++) {
    int exponent = static_cast<int>((i >> 10) & 31), mantissa = static_cast<int>(i & 1023);
    ASSERT_EQ(std::bit_cast<uint32_t>(bf16[i]), i << 16);
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(f16[i]));
      continue;
    }
    double value = exponent == 31  ? HUGE_VAL
                   : exponent == 0 ? std::ldexp(mantissa, -24)
                                   : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(f16[i], static_cast<float>(i & 0x8000 ? -value : value)) << i;
    ASSERT_EQ(std::signbit(f16[i]), (i & 0x8000) != 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Dequantize, testing::ValuesIn(all_levels()),
                         [](const auto& level) { return level.param; });

}  // namespace
}  // namespace llmd
