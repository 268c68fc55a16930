// A prompt must not drive out what decoding works with: hit rates of decoding with and without a long prompt before it.
#include <gtest/gtest.h>

#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

// Tokens of a narrow topic, so that routing is as skewed as in a conversation.
std::vector<int32_t> topic(size_t count, uint64_t seed) {
  std::vector<int32_t> tokens = some_tokens(count, seed);
  for (int32_t& token : tokens) token = 300 + token % 24;
  return tokens;
}

struct Rates {
  double before = 0, after = 0;
};

// Decodes a topic, reads a prompt of 300 others `prompts` times, and goes on with the topic.
Rates hit_rates(int prompts) {
  DemoOptions options;
  options.chunk = 64;
  Result<DemoModel> planned = open_demo(options);
  EXPECT_TRUE(planned.ok());
  const MemoryPlan& plan = planned->runtime->plan();
  options.memory_bytes = plan.floor_bytes + (plan.full_bytes - plan.floor_bytes) * 4 / 10;
  DemoModel model = load_demo(options);
  Generator chat(*model.runtime, 1024);
  auto ignore = [](int32_t, std::span<const float>) {};
  const std::vector<int32_t> tokens = topic(400, 5);
  size_t at = 0;
  auto decode = [&](size_t count) {
    ResidencyStatistics from = model.runtime->residency()->statistics();
    for (size_t i = 0; i < count; i++) EXPECT_TRUE(chat.decode(tokens[at++], ignore).ok());
    ResidencyStatistics to = model.runtime->residency()->statistics();
    double hits = static_cast<double>(to.decode_hits - from.decode_hits);
    return hits / (hits + static_cast<double>(to.decode_misses - from.decode_misses));
  };
  decode(250);
  Rates rates;
  rates.before = decode(50);
  for (int i = 0; i < prompts; i++) {
    Generator other(*model.runtime, 512);
    EXPECT_TRUE(other.prefill(some_tokens(300, 90 + static_cast<uint64_t>(i)), false, ignore).ok());
  }
  rates.after = decode(50);
  return rates;
}

TEST(SweepResidency, LeavesTheHitRateOfDecodingAsItWas) {
  Rates without = hit_rates(0), with = hit_rates(3);
  EXPECT_EQ(without.before, with.before);
  EXPECT_GT(without.after, 0.5);
  EXPECT_GT(with.after, without.after - 0.02);
}

// However few rows a prompt, or the rest of its last chunk, has.
TEST(SweepResidency, CountsNoUseByDecoding_WhenAPromptIsShort) {
  DemoOptions options;
  options.chunk = 16;
  DemoModel model = load_demo(options);
  auto ignore = [](int32_t, std::span<const float>) {};
  Generator generator(*model.runtime, 64);
  ASSERT_TRUE(generator.prefill(some_tokens(10, 1), false, ignore).ok());
  ASSERT_TRUE(generator.prefill(some_tokens(21, 2), false, ignore).ok());
  for (float rate : model.runtime->residency()->heat()) ASSERT_EQ(rate, 0.0f);
  ResidencyStatistics after = model.runtime->residency()->statistics();
  EXPECT_GT(after.misses, 0u);
  EXPECT_EQ(after.decode_hits + after.decode_misses, 0u);
  ASSERT_TRUE(generator.decode(5, ignore).ok());
  after = model.runtime->residency()->statistics();
  EXPECT_GT(after.decode_hits + after.decode_misses, 0u);
  float sum = 0;
  for (float rate : model.runtime->residency()->heat()) sum += rate;
  EXPECT_GT(sum, 0.0f);
}

}  // namespace
}  // namespace llmd
