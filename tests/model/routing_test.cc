#include "model/routing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace llmd {
namespace {

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed run(const RoutingShape& shape, const std::vector<float>& logits, const std::vector<float>& bias = {}) {
  Routed out{std::vector<int32_t>(static_cast<size_t>(shape.used)),
             std::vector<float>(static_cast<size_t>(shape.used))};
  std::vector<float> scratch(2 * logits.size());
  route(shape, logits.data(), bias.empty() ? nullptr : bias.data(), scratch.data(), out.ids.data(), out.weights.data());
  return out;
}

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

TEST(Routing, TakesTheBestAscendingById_WithPlainSoftmaxWeights) {
  Routed r = run({4, 2, Gating::kSoftmax, 1, 1, false, 1.0f}, {0.0f, 2.0f, -1.0f, 3.0f});
  EXPECT_EQ(r.ids, (std::vector<int32_t>{1, 3}));
  double sum = 1 + std::exp(2.0) + std::exp(-1.0) + std::exp(3.0);
  EXPECT_NEAR(r.weights[0], std::exp(2.0) / sum, 1e-6);
  EXPECT_NEAR(r.weights[1], std::exp(3.0) / sum, 1e-6);
}

TEST(Routing, UsesTheBiasForChoosingOnly) {
  Routed r = run({3, 1, Gating::kSigmoid, 1, 1, false, 1.0f}, {1.0f, 0.0f, 0.5f}, {0.0f, 0.9f, 0.0f});
  EXPECT_EQ(r.ids[0], 1);
  EXPECT_NEAR(r.weights[0], sigmoid(0.0f), 1e-6);
}

TEST(Routing, RenormalisesAndScales_WhenTheModelAsks) {
  Routed r = run({4, 2, Gating::kSigmoid, 1, 1, true, 2.5f}, {1.0f, -4.0f, 2.0f, -5.0f});
  EXPECT_NEAR(r.weights[0] + r.weights[1], 2.5, 1e-5);
  EXPECT_NEAR(r.weights[0] / r.weights[1], sigmoid(1.0f) / sigmoid(2.0f), 1e-5);
}

// Two groups of three. The best single expert is in group 0, the best pair in group 1.
const std::vector<float> kTwoGroups{3.0f, -9.0f, -9.0f, 2.5f, 2.4f, -9.0f};

TEST(Routing, ScoresGroupsByTheirBestTwo_WhenThereIsABias) {
  Routed r = run({6, 2, Gating::kSigmoid, 2, 1, false, 1.0f}, kTwoGroups, std::vector<float>(6, 0.0f));
  EXPECT_EQ(r.ids, (std::vector<int32_t>{3, 4}));
}

TEST(Routing, ScoresGroupsByTheirBest_WhenThereIsNoBias) {
  Routed r = run({6, 2, Gating::kSoftmax, 2, 1, false, 1.0f}, kTwoGroups);
  EXPECT_EQ(r.ids[0], 0);
  EXPECT_LT(r.ids[1], 3);
}

TEST(Routing, PrefersTheLowerId_OnATie) {
  Routed r = run({5, 2, Gating::kSoftmax, 1, 1, false, 1.0f}, {1.0f, 1.0f, 1.0f, 1.0f, 1.0f});
  EXPECT_EQ(r.ids, (std::vector<int32_t>{0, 1}));
}

TEST(Routing, WeighsOnlyTheChosen_WhenSoftmaxComesAfterSelection) {
  Routed r = run({3, 2, Gating::kSoftmaxSelected, 1, 1, false, 1.0f}, {1.0f, 5.0f, 3.0f});
  EXPECT_EQ(r.ids, (std::vector<int32_t>{1, 2}));
  EXPECT_NEAR(r.weights[0] + r.weights[1], 1.0, 1e-6);
  EXPECT_NEAR(r.weights[0] / r.weights[1], std::exp(2.0), 1e-4);
}

TEST(Routing, PicksDistinctValidExperts_WhenLogitsAreNotNumbers) {
  std::vector<float> logits(8, std::nanf(""));
  Routed r = run({8, 3, Gating::kSigmoid, 4, 2, true, 1.0f}, logits);
  for (size_t i = 0; i < 3; i++) {
    EXPECT_GE(r.ids[i], 0);
    EXPECT_LT(r.ids[i], 8);
    if (i > 0) {
      EXPECT_LT(r.ids[i - 1], r.ids[i]);
    }
  }
}

}  // namespace
}  // namespace llmd
