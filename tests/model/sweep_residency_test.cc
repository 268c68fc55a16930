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

}  // namespace
}  // namespace llmd
