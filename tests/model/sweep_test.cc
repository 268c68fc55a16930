// A sweep rests between layers: what others compute meanwhile must not change its bits, nor it theirs, and a sweep that
// is given up leaves nothing behind.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

constexpr int32_t kPrompt = 300, kDecoded = 12;

class Logits final : public LogitsSink {
 public:
  void on_logits(size_t, std::span<const float> logits) override { values.assign(logits.begin(), logits.end()); }
  std::vector<float> values;
};

struct Conversation {
  Conversation(Runtime& runtime, uint64_t seed)
      : sequence(runtime.kv(), 1024), tokens(some_tokens(kPrompt + kDecoded, seed)) {}
  std::vector<Row> prompt() {
    std::vector<Row> rows;
    EXPECT_TRUE(sequence.extend(kPrompt).ok());
    for (int32_t p = 0; p < kPrompt; p++)
      rows.push_back({&sequence, p, tokens[static_cast<size_t>(p)], AttentionForm::kExpanded, p + 1 == kPrompt});
    return rows;
  }
  std::vector<float> decode(Runtime& runtime, int32_t position) {
    EXPECT_TRUE(sequence.extend(position + 1).ok());
    Row row{&sequence, position, tokens[static_cast<size_t>(position)], AttentionForm::kAbsorbed, true};
    std::vector<std::optional<Error>> errors(1);
    Logits logits;
    runtime.step().run({&row, 1}, logits, errors);
    EXPECT_FALSE(errors[0]);
    return logits.values;
  }
  KvSequence sequence;
  std::vector<int32_t> tokens;
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class SweepTest : public testing::TestWithParam<int> {
 protected:
  // A pool of the given share (in tenths) of what would hold everything.
  DemoModel load() {
    DemoOptions options;
    options.chunk = kPrompt;
    Result<DemoModel> planned = open_demo(options);
    EXPECT_TRUE(planned.ok());
    const MemoryPlan& plan = planned->runtime->plan();
    uint64_t room = plan.full_bytes - plan.floor_bytes;
    options.memory_bytes = plan.floor_bytes + room * static_cast<uint64_t>(GetParam()) / 10;
    return load_demo(options);
  }
};

TEST_P(SweepTest, GivesTheBitsOfAPassAlone_WhenOthersDecodeBetweenItsLayers) {
  DemoModel model = load();
  Runtime& runtime = *model.runtime;
  std::vector<float> alone_prompt, decoded_alone[kDecoded];
  {
    Conversation chat(runtime, 1), prompt(runtime, 2);
    for (int32_t i = 0; i < kDecoded; i++) decoded_alone[i] = chat.decode(runtime, i);
    std::vector<Row> rows = prompt.prompt();
    std::vector<std::optional<Error>> errors(rows.size());
    Logits logits;
    runtime.step().run(rows, logits, errors);
    alone_prompt = logits.values;
  }
  Conversation chat(runtime, 1), prompt(runtime, 2);
  std::vector<Row> rows = prompt.prompt();
  std::vector<std::optional<Error>> errors(rows.size());
  int32_t decoded = 0, layers = 0;
  bool more = true;
  for (runtime.step().begin_sweep(rows, errors); more; layers++) {
    if (decoded < kDecoded) {
      EXPECT_TRUE(same(chat.decode(runtime, decoded), decoded_alone[decoded])) << "decoded token " << decoded;
      decoded++;
    }
    more = runtime.step().sweep_layer();
  }
  EXPECT_EQ(layers, runtime.shape().layers);
  EXPECT_GT(decoded, 2);
  Logits logits;
  runtime.step().end_sweep(logits);
  EXPECT_FALSE(runtime.step().sweeping());
  EXPECT_TRUE(same(logits.values, alone_prompt));
}

TEST_P(SweepTest, LeavesNothingBehind_WhenGivenUp) {
  DemoModel model = load();
  Runtime& runtime = *model.runtime;
  std::vector<float> results[2];
  for (int32_t layers = 0; layers < runtime.shape().layers; layers++) {
    Conversation prompt(runtime, 3);
    std::vector<Row> rows = prompt.prompt();
    std::vector<std::optional<Error>> errors(rows.size());
    runtime.step().begin_sweep(rows, errors);
    for (int32_t i = 0; i < layers; i++) runtime.step().sweep_layer();
    runtime.step().drop_sweep();
    EXPECT_FALSE(runtime.step().sweeping());
  }
  const ExpertPool& pool = runtime.residency()->pool();
  for (size_t slot = 0; slot < pool.slot_numbers(); slot++) EXPECT_EQ(pool.pins(static_cast<int32_t>(slot)), 0);
  for (std::vector<float>& result : results) {
    Conversation chat(runtime, 1);
    for (int32_t i = 0; i < 3; i++) result = chat.decode(runtime, i);
  }
  EXPECT_TRUE(same(results[0], results[1]));
}

TEST_P(SweepTest, ReadsEachMissingExpertOnce_AndHardlyMore) {
  DemoModel model = load();
  Runtime& runtime = *model.runtime;
  Conversation prompt(runtime, 4);
  std::vector<Row> rows = prompt.prompt();
  std::vector<std::optional<Error>> errors(rows.size());
  ResidencyStatistics before = runtime.residency()->statistics();
  Logits logits;
  runtime.step().run(rows, logits, errors);
  ResidencyStatistics after = runtime.residency()->statistics();
  double read = static_cast<double>(after.bytes_read - before.bytes_read);
  double touched = static_cast<double>(after.touched_bytes - before.touched_bytes);
  EXPECT_GT(read, 0);
  EXPECT_LE(read, 1.05 * touched);
}

INSTANTIATE_TEST_SUITE_P(PoolTenths, SweepTest, testing::Values(0, 3, 10));

}  // namespace
}  // namespace llmd
