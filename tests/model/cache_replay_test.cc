// Routing traces: what is written is read again, nothing else is accepted, and a replay ranks policies as theory says.
#include "model/cache_replay.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/model/pool_shapes.h"

namespace llmd {
namespace {

class RoutingTraceTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  // 300 steps of one row; expert e is wanted with a weight that falls with e, or in turn for a skew of 0.
  void write(double skew) {
    auto writer = RoutingTraceWriter::create(path_, shape_);
    ASSERT_TRUE(writer.ok());
    std::mt19937 random(7);
    int32_t turn = 0;
    for (int step = 0; step < 300; step++) {
      for (int32_t layer = 0; layer < 6; layer++) {
        std::vector<double> weights;
        for (int32_t e = 0; e < 32; e++) weights.push_back(std::pow(1.0 + (e * 7 + layer) % 32, -skew));
        std::vector<int32_t> ids;
        while (ids.size() < 4) {
          std::discrete_distribution<int32_t> draw(weights.begin(), weights.end());
          int32_t id = skew > 0 ? draw(random) : turn++ / 6 % 32;
          if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
        }
        RoutingTraceWriter::record(&*writer, layer, ids.data(), 4);
      }
    }
    ASSERT_TRUE(writer->close().ok());
  }
  ReplayResult play(uint64_t bytes, std::optional<PolicyKind> kind) {
    auto trace = RoutingTrace::load(path_);
    EXPECT_TRUE(trace.ok());
    return replay(*trace, bytes, kind);
  }

  std::string path_ = testing::TempDir() + "llmd_trace_" + std::to_string(getpid());
  PoolShape shape_ = mixed_shape(512, 256, 6, 32, 4, {{kBitsQ4K, kBitsQ4K}});
};

TEST_F(RoutingTraceTest, ComesBackAsItWasWritten) {
  auto writer = RoutingTraceWriter::create(path_, shape_);
  ASSERT_TRUE(writer.ok());
  const int32_t one[] = {0, 3, 30, 31}, two[] = {1, 2, 3, 4, 5, 6, 7, 8};
  RoutingTraceWriter::record(&*writer, 2, one, 4);
  RoutingTraceWriter::record(&*writer, 5, two, 8);
  RoutingTraceWriter::record(&*writer, 2, one, 4);
  ASSERT_TRUE(writer->close().ok());
  auto trace = RoutingTrace::load(path_);
  ASSERT_TRUE(trace.ok()) << trace.error().to_string();
  EXPECT_EQ(trace->shape.used, 4);
  EXPECT_EQ(trace->shape.layers.size(), 6u);
  EXPECT_EQ(pool_full_bytes(trace->shape), pool_full_bytes(shape_));
  ASSERT_EQ(trace->records.size(), 3u);
  EXPECT_EQ(trace->records[1].layer, 5);
  EXPECT_EQ(trace->records[1].rows, 2u);
  EXPECT_EQ(trace->records[1].step, 0u);
  EXPECT_EQ(trace->records[2].step, 1u);
  EXPECT_EQ(trace->ids, (std::vector<uint16_t>{0, 3, 30, 31, 1, 2, 3, 4, 5, 6, 7, 8, 0, 3, 30, 31}));
}

TEST_F(RoutingTraceTest, IsRefusedWithAnError_WhenCutOrChangedAnywhere) {
  write(1);
  std::ifstream file(path_, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  bytes.resize(600);
  auto load = [&](const std::vector<char>& content) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return RoutingTrace::load(path_);
  };
  size_t refused = 0;
  for (size_t n = 0; n < bytes.size(); n++)
    refused += !load({bytes.begin(), bytes.begin() + static_cast<long>(n)}).ok();
  EXPECT_GT(refused, bytes.size() * 8 / 10);  // a cut between two records cannot be seen
  for (size_t at = 0; at < bytes.size(); at++) {
    std::vector<char> changed = bytes;
    changed[at] = static_cast<char>(0xff);
    auto trace = load(changed);  // accepted or refused, and then runs
    if (trace.ok()) {
      EXPECT_LE(trace->records.size(), bytes.size());
    }
  }
}

TEST_F(RoutingTraceTest, HitsMostWithBeladysOptimum_AndMoreWithFrequencyThanWithRecencyOnSkewedRouting) {
  write(1.2);
  uint64_t bytes = pool_full_bytes(shape_) / 4;
  double belady = play(bytes, std::nullopt).hit_rate(), heat = play(bytes, PolicyKind::kHeat).hit_rate(),
         lru = play(bytes, PolicyKind::kLru).hit_rate();
  for (PolicyKind kind : kPolicyKinds) EXPECT_LT(play(bytes, kind).hit_rate(), belady) << policy_name(kind);
  EXPECT_GT(heat, lru);
  EXPECT_GT(lru, 0.3);
}

TEST_F(RoutingTraceTest, HitsNothingWithRecencyAlone_WhenThePoolHoldsLessThanOneTokensExperts) {
  write(1.2);
  uint64_t bytes = shape_.token_bytes() * 8 / 10;
  EXPECT_LT(play(bytes, PolicyKind::kLru).hit_rate(), 0.01);
  EXPECT_GT(play(bytes, PolicyKind::kHeat).hit_rate(), 0.25);
  EXPECT_GT(play(bytes, PolicyKind::kLayerShares).hit_rate(), 0.1);
}

TEST_F(RoutingTraceTest, ReadsEachExpertOnce_WhenEverythingFits) {
  write(0.5);
  for (PolicyKind kind : kPolicyKinds) EXPECT_GT(play(1ull << 40, kind).hit_rate(), 0.99) << policy_name(kind);
}

}  // namespace
}  // namespace llmd
