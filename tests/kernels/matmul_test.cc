// Matmul of every type at every level: against double precision, against the scalar level, and against itself in
// batches, row ranges and gathers of every kind, where the bytes must not change.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/kernels/kernel_testing.h"

namespace llmd {
namespace {

struct Case {
  std::string level;
  TensorType type;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::string& level : all_levels()) {
    for (TensorType type : all_types()) cases.push_back({level, type});
  }
  return cases;
}

class Matmul : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    table_ = kernels_at(GetParam().level);
    if (table_ == nullptr) GTEST_SKIP() << "SKIPPED: this processor cannot run " << GetParam().level;
  }
  const KernelTable* table_ = nullptr;
};

constexpr double kEpsilon = 0x1p-24;  // half a unit in the last place: the error of one rounding

// Roundings on the path of one term: one per group for the chain and a few per term for scales and minimums. The
// minimum's part of a term can be larger than the term, so magnitudes count w * scale and min apart: 2 * 15 / 15.
void expect_close(const std::vector<float>& out, const Exact& exact, double roundings) {
  for (size_t i = 0; i < out.size(); i++) {
    double bound = roundings * kEpsilon * exact.magnitude[i] + 1e-30;
    ASSERT_LE(std::abs(static_cast<double>(out[i]) - exact.value[i]), bound) << "output " << i;
  }
}

double roundings(TensorType type, int64_t n_in) {
  return type_uses_q8(type) ? static_cast<double>(n_in) / 32 + 16 : static_cast<double>(n_in) + 2;
}

TEST_P(Matmul, IsCloseToDoublePrecision_ForRandomAndExtremeBlocks) {
  TensorType type = GetParam().type;
  for (Fill fill : {Fill::kRandom, Fill::kZero, Fill::kOnes, Fill::kSubnormalScales, Fill::kNegativeScales}) {
    for (bool saturated : {false, true}) {
      Matrix m = random_matrix(type, 21, 1536, fill, 1);
      Inputs x = random_inputs(7, 1536, 2, saturated);
      SCOPED_TRACE(testing::Message() << "fill " << static_cast<int>(fill) << " saturated " << saturated);
      Exact exact = exact_matmul(m, x);
      expect_close(run_matmul(*table_, m, x, 0, 21), exact, roundings(type, 1536));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Matmul, KeepsEveryByte_ForAnyBatchRowRangeAndGather) {
  TensorType type = GetParam().type;
  int64_t n_in = 1280, n_out = 37;  // not a whole number of the runs in which AVX2 unpacks
  Matrix m = random_matrix(type, n_out, n_in, Fill::kRandom, 3);
  Inputs x = random_inputs(512, n_in, 4);
  std::vector<float> whole = run_matmul(*table_, m, x, 0, n_out);
  auto expect_same = [&](const std::vector<float>& out, int64_t begin, int64_t end, auto source_row) {
    for (size_t i = 0; i < out.size() / 37; i++) {
      for (int64_t row = 0; row < n_out; row++) {
        float got = out[i * 37 + static_cast<size_t>(row)];
        float want = row < begin || row >= end ? 12345.0f : whole[source_row(i) * 37 + static_cast<size_t>(row)];
        ASSERT_EQ(std::memcmp(&got, &want, 4), 0) << "input " << i << " row " << row << " of " << begin << ".." << end;
      }
    }
  };
  auto same_row = [](size_t i) { return i; };
  for (int64_t count : {1, 2, 3, 5, 7, 64, 512}) {
    expect_same(run_matmul(*table_, m, x, 0, n_out, {}, count), 0, n_out, same_row);
    expect_same(run_matmul(*table_, m, x, 3, 20, {}, count), 3, 20, same_row);
  }
  for (int64_t begin : {0, 1, 8, 15, 36}) {
    for (int64_t end : {int64_t{1}, int64_t{9}, int64_t{16}, int64_t{36}, n_out}) {
      if (begin >= end) continue;
      expect_same(run_matmul(*table_, m, x, begin, end, {}, 1), begin, end, same_row);
    }
  }
  std::vector<uint32_t> gather = {511, 0, 77, 77, 3, 300, 12, 9, 4};
  expect_same(run_matmul(*table_, m, x, 0, n_out, gather), 0, n_out, [&](size_t i) { return gather[i]; });
  expect_same(run_matmul(*table_, m, x, 5, 6, {200}), 5, 6, [](size_t) { return size_t{200}; });
}

TEST_P(Matmul, AcceptsEmptyRanges) {
  Matrix m = random_matrix(GetParam().type, 3, 256, Fill::kRandom, 3);
  Inputs x = random_inputs(2, 256, 4);
  for (float value : run_matmul(*table_, m, x, 2, 2)) EXPECT_EQ(value, 12345.0f);
  EXPECT_TRUE(run_matmul(*table_, m, x, 0, 3, {}, 0).empty());
}

TEST_P(Matmul, AcceptsAnyRowLength_ForFloatTypes) {
  TensorType type = GetParam().type;
  std::vector<int64_t> lengths = {32, 64, 96, 1408};
  if (!type_uses_q8(type)) lengths = {1, 2, 7, 8, 9, 31, 33, 192, 513};
  if (tensor_type_info(static_cast<uint32_t>(type))->block_elements == 256) lengths = {256, 768, 2304};
  for (int64_t n_in : lengths) {
    Matrix m = random_matrix(type, 18, n_in, Fill::kRandom, 5);
    Inputs x = random_inputs(6, n_in, 6);
    expect_close(run_matmul(*table_, m, x, 0, 18), exact_matmul(m, x), roundings(type, n_in));
    if (HasFatalFailure()) return;
  }
}

class MatmulVnni : public testing::TestWithParam<TensorType> {};

TEST_P(MatmulVnni, GivesTheBitsOfAvx2) {
  const KernelTable *vnni = kernels_at("avxvnni"), *avx2 = kernels_at("avx2");
  if (vnni == nullptr) GTEST_SKIP() << "SKIPPED: this processor cannot run avxvnni";
  for (Fill fill : {Fill::kRandom, Fill::kOnes, Fill::kNegativeScales}) {
    Matrix m = random_matrix(GetParam(), 37, 1536, fill, 1);
    for (int64_t rows : {1, 2, 7, 64}) {
      Inputs x = random_inputs(rows, 1536, 2, fill == Fill::kOnes);
      std::vector<float> got = run_matmul(*vnni, m, x, 0, 37), want = run_matmul(*avx2, m, x, 0, 37);
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulVnni, testing::ValuesIn(all_types()),
                         [](const auto& test) { return std::string(tensor_type_name(test.param)); });

INSTANTIATE_TEST_SUITE_P(Levels, Matmul, testing::ValuesIn(all_cases()), [](const auto& test) {
  return test.param.level + "_" + std::string(tensor_type_name(test.param.type));
});

}  // namespace
}  // namespace llmd
