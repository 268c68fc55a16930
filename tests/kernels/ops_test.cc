// Operations that are not weight matrices: accuracy against double precision at lengths around every vector width,
// equality of the levels where it is promised, and values that do not depend on tiling or position.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/kernel_testing.h"

namespace llmd {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kEpsilon = 0x1p-24;

std::vector<float> random_floats(int64_t n, uint32_t seed, float spread = 1) {
  std::mt19937 random(seed);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& value : out) value = std::normal_distribution<float>(0, spread)(random);
  return out;
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Ops : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    table_ = kernels_at(GetParam());
    if (table_ == nullptr) GTEST_SKIP() << "SKIPPED: this processor cannot run " << GetParam();
  }
  const KernelTable* table_ = nullptr;
  const KernelTable* scalar_ = kernels_at("scalar");
};

const std::vector<int64_t> kLengths = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 100, 255, 256, 2048};

TEST_P(Ops, ElementwiseOperationsEqualScalar_ForEveryLength) {
  for (int64_t n : kLengths) {
    std::vector<float> x = random_floats(n, 1), y = random_floats(n, 2), y2 = y;
    table_->add(x.data(), n, y.data());
    scalar_->add(x.data(), n, y2.data());
    EXPECT_TRUE(same_bytes(y, y2));
    table_->axpy(0.37f, x.data(), n, y.data());
    scalar_->axpy(0.37f, x.data(), n, y2.data());
    EXPECT_TRUE(same_bytes(y, y2));
    table_->blend(0.37f, x.data(), -1.3f, n, y.data());
    scalar_->blend(0.37f, x.data(), -1.3f, n, y2.data());
    EXPECT_TRUE(same_bytes(y, y2));

    std::vector<float> cos = random_floats(n, 3), sin = random_floats(n, 4), v = random_floats(2 * n, 5), v2 = v;
    table_->rope(v.data(), cos.data(), sin.data(), n);
    scalar_->rope(v2.data(), cos.data(), sin.data(), n);
    EXPECT_TRUE(same_bytes(v, v2));
  }
}

TEST_P(Ops, RopeTurnsConsecutivePairs) {
  std::vector<float> x = {1, 0, 0, 2};
  std::vector<float> cos = {0, 0}, sin = {1, -1};
  table_->rope(x.data(), cos.data(), sin.data(), 2);
  EXPECT_EQ(x, (std::vector<float>{0, 1, 2, 0}));
}

TEST_P(Ops, AxpyRoundsTwice) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: a fused form would keep the last bit and give 2^-24.
  float a = 1 + 0x1p-12f;
  std::vector<float> x(9, a), y(9, -(1 + 0x1p-11f));
  table_->axpy(a, x.data(), 9, y.data());
  for (float value : y) EXPECT_EQ(value, 0.0f);
}

TEST_P(Ops, RmsNormIsCloseToDouble_ForEveryLength) {
  for (int64_t n : kLengths) {
    std::vector<float> x = random_floats(n, 1, 3), weight = random_floats(n, 2), out(static_cast<size_t>(n));
    table_->rms_norm(x.data(), weight.data(), 1e-6f, n, out.data());
    double sum = 0;
    for (float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
    double scale = 1 / std::sqrt(sum / static_cast<double>(n) + 1e-6);
    for (size_t i = 0; i < x.size(); i++) {
      double want = static_cast<double>(x[i]) * scale * static_cast<double>(weight[i]);
      ASSERT_NEAR(static_cast<double>(out[i]), want, (static_cast<double>(n) / 2 + 8) * kEpsilon * std::abs(want));
    }
  }
}

TEST_P(Ops, SiluMulIsCloseToDouble_FromOneEndOfTheRangeToTheOther) {
  std::vector<float> gate, up;
  for (float g = -120; g < 120; g += 0.037f) gate.push_back(g), up.push_back(1.5f);
  for (float g : {0.0f, -0.0f, 1e-30f, -1e-30f, 1e30f, kInf}) gate.push_back(g), up.push_back(2.0f);
  std::vector<float> out(gate.size());
  table_->silu_mul(gate.data(), up.data(), static_cast<int64_t>(gate.size()), out.data());
  for (size_t i = 0; i < gate.size(); i++) {
    double g = static_cast<double>(gate[i]);
    double want = g / (1 + std::exp(-g)) * static_cast<double>(up[i]);
    if (std::isinf(want)) {
      EXPECT_EQ(out[i], kInf);
    } else {
      ASSERT_NEAR(static_cast<double>(out[i]), want, 8 * kEpsilon * std::abs(want) + 1e-35) << g;
    }
  }
  float nan = std::numeric_limits<float>::quiet_NaN(), one = 1, value = 0;
  table_->silu_mul(&nan, &one, 1, &value);
  EXPECT_TRUE(std::isnan(value));
}

TEST_P(Ops, SiluMulGivesAnElementTheSameBits_WhereverItStands) {
  std::vector<float> gate = random_floats(37, 1, 4), up = random_floats(37, 2), whole(37);
  table_->silu_mul(gate.data(), up.data(), 37, whole.data());
  for (int64_t begin = 0; begin < 37; begin++) {
    for (int64_t n = 1; n <= 37 - begin; n++) {
      std::vector<float> out(whole.begin(), whole.end());
      std::fill(out.begin() + begin, out.begin() + begin + n, 0.0f);
      table_->silu_mul(gate.data() + begin, up.data() + begin, n, out.data() + begin);
      ASSERT_TRUE(same_bytes(out, whole)) << begin << " " << n;
    }
  }
  std::vector<float> aliased = gate;
  table_->silu_mul(aliased.data(), up.data(), 37, aliased.data());
  EXPECT_TRUE(same_bytes(aliased, whole));
}

TEST_P(Ops, SoftmaxBlockIsCloseToDouble_AndPadsToSixteen) {
  for (int64_t n : kLengths) {
    int64_t padded = (n + 15) / 16 * 16;
    std::vector<float> x = random_floats(padded + 1, 7, 5);
    for (int64_t i = n; i < padded; i++)
      x[static_cast<size_t>(i)] = std::nanf("");  // what was in the padding is ignored
    std::vector<float> before = x;
    KernelTable::MaxSum result = table_->softmax_block(x.data(), n);
    float max = -kInf;
    for (int64_t i = 0; i < n; i++) max = std::max(max, before[static_cast<size_t>(i)]);
    EXPECT_EQ(result.max, max);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
      double want = std::exp(static_cast<double>(before[static_cast<size_t>(i)]) - static_cast<double>(max));
      sum += want;
      // The difference is rounded once before exp: half a unit of up to |x - max|.
      double distance = std::abs(std::log(want));
      ASSERT_NEAR(static_cast<double>(x[static_cast<size_t>(i)]), want, (4 + distance) * kEpsilon * want + 1e-44);
    }
    for (int64_t i = n; i < padded; i++) EXPECT_EQ(x[static_cast<size_t>(i)], 0.0f);
    EXPECT_EQ(x.back(), before.back()) << "wrote past the padding";
    EXPECT_NEAR(static_cast<double>(result.sum), sum, (static_cast<double>(n) + 20) * kEpsilon * sum);
  }
}

TEST_P(Ops, SoftmaxBlockKeepsMaskedScoresOut) {
  std::vector<float> x(16, -kInf);
  x[3] = 1, x[5] = -200, x[9] = 1;
  KernelTable::MaxSum result = table_->softmax_block(x.data(), 12);
  EXPECT_EQ(result.max, 1.0f);
  EXPECT_EQ(result.sum, 2.0f);
  EXPECT_EQ(x[3], 1.0f);
  EXPECT_EQ(x[0], 0.0f);
  EXPECT_EQ(x[5], 0.0f);
  std::vector<float> nothing(16, -kInf);
  result = table_->softmax_block(nothing.data(), 16);
  EXPECT_EQ(result.max, -kInf);
  EXPECT_EQ(result.sum, 0.0f);
  EXPECT_EQ(nothing, std::vector<float>(16, 0.0f));
  result = table_->softmax_block(nothing.data(), 0);
  EXPECT_EQ(result.sum, 0.0f);
}

struct Product {
  int64_t m, n, k;
};

TEST_P(Ops, GemmIsOneChainPerElement_ForEveryShapeAndTiling) {
  bool fused = GetParam() != "scalar";
  for (Product p :
       {Product{1, 1, 1}, {1, 16, 5}, {6, 16, 256}, {7, 17, 257}, {13, 40, 600}, {3, 15, 33}, {20, 8, 512}}) {
    int64_t a_stride = p.k + 3, b_stride = p.n + 5, c_stride = p.n + 1;
    std::vector<float> a = random_floats(p.m * a_stride, 1), b = random_floats(p.k * b_stride, 2);
    for (bool accumulate : {false, true}) {
      std::vector<float> c = random_floats(p.m * c_stride, 3), want = c;
      for (int64_t i = 0; i < p.m; i++) {
        for (int64_t j = 0; j < p.n; j++) {
          float acc = accumulate ? c[static_cast<size_t>(i * c_stride + j)] : 0;
          for (int64_t l = 0; l < p.k; l++) {
            float x = a[static_cast<size_t>(i * a_stride + l)], y = b[static_cast<size_t>(l * b_stride + j)];
            acc = fused ? std::fma(x, y, acc) : acc + x * y;
          }
          want[static_cast<size_t>(i * c_stride + j)] = acc;
        }
      }
      std::vector<float> parts = c;
      table_->gemm(a.data(), a_stride, b.data(), b_stride, c.data(), c_stride, p.m, p.n, p.k, accumulate);
      ASSERT_TRUE(same_bytes(c, want)) << p.m << " " << p.n << " " << p.k;
      // Any split of rows, columns or the inner dimension: the same bytes.
      int64_t m1 = p.m / 2, n1 = p.n / 3, k1 = p.k / 2;
      auto piece = [&](int64_t i, int64_t m, int64_t j, int64_t n, int64_t l, int64_t k, bool continues) {
        table_->gemm(a.data() + i * a_stride + l, a_stride, b.data() + l * b_stride + j, b_stride,
                     parts.data() + i * c_stride + j, c_stride, m, n, k, continues);
      };
      for (auto [i, m] : {std::pair{int64_t{0}, m1}, {m1, p.m - m1}}) {
        for (auto [j, n] : {std::pair{int64_t{0}, n1}, {n1, p.n - n1}}) {
          piece(i, m, j, n, 0, k1, accumulate);
          piece(i, m, j, n, k1, p.k - k1, true);
        }
      }
      ASSERT_TRUE(same_bytes(parts, want)) << p.m << " " << p.n << " " << p.k << " in parts";
    }
  }
}

TEST_P(Ops, GemmClearsOrKeepsC_WhenTheInnerDimensionIsEmpty) {
  std::vector<float> a(4), b(64), c(64, 3.0f);
  table_->gemm(a.data(), 1, b.data(), 16, c.data(), 16, 2, 16, 0, true);
  EXPECT_EQ(c, std::vector<float>(64, 3.0f));
  table_->gemm(a.data(), 1, b.data(), 16, c.data(), 16, 4, 16, 0, false);
  EXPECT_EQ(c, std::vector<float>(64, 0.0f));
}

TEST_P(Ops, TransposeMovesEveryElement) {
  for (auto [m, n] : {std::pair{1, 1}, {8, 8}, {9, 7}, {17, 33}, {256, 64}}) {
    std::vector<float> in = random_floats(m * (n + 2), 1), out(static_cast<size_t>(n * (m + 3)), 7.0f);
    table_->transpose(in.data(), n + 2, out.data(), m + 3, m, n);
    for (int i = 0; i < m; i++) {
      for (int j = 0; j < n; j++) {
        ASSERT_EQ(out[static_cast<size_t>(j * (m + 3) + i)], in[static_cast<size_t>(i * (n + 2) + j)]);
      }
    }
    EXPECT_EQ(out[static_cast<size_t>(m)], 7.0f) << "wrote between the rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Ops, testing::ValuesIn(all_levels()), [](const auto& level) { return level.param; });

}  // namespace
}  // namespace llmd
