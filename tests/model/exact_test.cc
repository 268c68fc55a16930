// P1: the logits of a request are the same bytes whatever the budget, threads, chunk, read path and neighbours.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

// The logits of every row of a prompt and of 12 rows decoded after it.
std::vector<float> run(const DemoOptions& options, size_t prompt_tokens, ResidencyStatistics* statistics = nullptr) {
  DemoModel model = load_demo(options);
  std::vector<float> all;
  auto keep = [&](int32_t, std::span<const float> logits) { all.insert(all.end(), logits.begin(), logits.end()); };
  std::vector<int32_t> tokens = some_tokens(prompt_tokens + 12, 7);
  Generator generator(*model.runtime, static_cast<int32_t>(tokens.size()));
  EXPECT_TRUE(generator.prefill(std::span(tokens).first(prompt_tokens), true, keep).ok());
  for (size_t i = prompt_tokens; i < tokens.size(); i++) EXPECT_TRUE(generator.decode(tokens[i], keep).ok());
  if (statistics != nullptr) *statistics = model.runtime->residency()->statistics();
  return all;
}

std::string describe(const DemoOptions& o) {
  return "memory " + std::to_string(o.memory_bytes) + " threads " + std::to_string(o.threads) + " chunk " +
         std::to_string(o.chunk) + (o.read_path == ReaderOptions::Path::kThreads ? " preadv" : " io_uring");
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Five budgets for the given chunk and threads: the floor, three between, everything.
std::vector<uint64_t> budgets(int32_t chunk, int threads) {
  DemoOptions options;
  options.chunk = chunk;
  options.threads = threads;
  Result<DemoModel> model = open_demo(options);
  EXPECT_TRUE(model.ok());
  uint64_t low = model->runtime->plan().floor_bytes, high = model->runtime->plan().full_bytes;
  return {low, low + (high - low) / 4, (low + high) / 2, high, high + high / 4};
}

class Exact : public testing::TestWithParam<size_t> {};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // fewer combinations: the sanitizers look for other things
#else
constexpr bool kSanitized = false;
#endif

TEST_P(Exact, GivesTheSameBytes_WhateverBudgetThreadsChunkAndReadPath) {
  const std::vector<float> expected = run({}, GetParam());
  ASSERT_FALSE(expected.empty());
  const std::vector<int32_t> chunks = kSanitized ? std::vector<int32_t>{7, 0} : std::vector<int32_t>{1, 7, 64, 0};
  const std::vector<int> thread_counts = kSanitized ? std::vector<int>{2} : std::vector<int>{1, 2, 4};
  for (int32_t chunk : chunks) {
    for (int threads : thread_counts) {
      std::vector<uint64_t> memory = budgets(chunk, threads);
      if (kSanitized) memory.resize(2);
      for (ReaderOptions::Path path : {ReaderOptions::Path::kAuto, ReaderOptions::Path::kThreads}) {
        for (uint64_t bytes : memory) {
          DemoOptions options;
          options.memory_bytes = bytes;
          options.threads = threads;
          options.chunk = chunk;
          options.read_path = path;
          EXPECT_TRUE(same_bytes(run(options, GetParam()), expected)) << describe(options);
        }
      }
    }
  }
}

// 40 prompt tokens take the absorbed form, 300 the expanded one over two blocks of context.
INSTANTIATE_TEST_SUITE_P(Prompts, Exact, testing::Values(40, 300));

// A guess decides what is read early, and nothing else.
TEST(ExactPrefetch, GivesTheSameBytes_WhetherExpertsAreReadOnAGuessOrNot) {
  const std::vector<float> expected = run({}, 40);
  uint64_t useful = 0;
  for (int threads : {1, 2}) {
    std::vector<uint64_t> memory = budgets(7, threads);
    for (size_t i = 0; i < 3; i++) {
      DemoOptions options;
      options.memory_bytes = memory[i];
      options.threads = threads;
      options.chunk = 7;
      EXPECT_TRUE(same_bytes(run(options, 40), expected)) << describe(options);
      options.prefetch = true;
      ResidencyStatistics statistics;
      EXPECT_TRUE(same_bytes(run(options, 40, &statistics), expected)) << describe(options);
      EXPECT_GT(statistics.guesses, 0u) << describe(options);
      useful += statistics.guesses_useful;
    }
  }
  EXPECT_GT(useful, 0u);
}

// Decodes one token for each of `tokens` beside others in the same step.
TEST(ExactBatch, GivesTheSameBytes_AloneAndBesideOthers) {
  DemoModel model = load_demo({});
  Runtime& runtime = *model.runtime;
  constexpr size_t kSequences = 5;
  struct Sink final : LogitsSink {
    std::vector<std::vector<float>> rows;
    void on_logits(size_t row, std::span<const float> logits) override {
      if (rows.size() <= row) rows.resize(row + 1);
      rows[row].assign(logits.begin(), logits.end());
    }
  };
  auto prefill = [&](KvSequence& sequence, const std::vector<int32_t>& tokens) {
    std::vector<Row> rows;
    ASSERT_TRUE(sequence.extend(static_cast<int32_t>(tokens.size()) + 1).ok());
    for (size_t i = 0; i < tokens.size(); i++)
      rows.push_back({&sequence, static_cast<int32_t>(i), tokens[i], AttentionForm::kAbsorbed, false});
    std::vector<std::optional<Error>> errors(rows.size());
    Sink sink;
    runtime.step().run(rows, sink, errors);
  };
  std::vector<std::unique_ptr<KvSequence>> sequences;
  std::vector<Row> rows;
  for (size_t s = 0; s < kSequences; s++) {
    sequences.push_back(std::make_unique<KvSequence>(runtime.kv(), 1024));
    std::vector<int32_t> prompt = some_tokens(20 + 60 * s, s);
    prefill(*sequences[s], prompt);
    rows.push_back({sequences[s].get(), static_cast<int32_t>(prompt.size()), static_cast<int32_t>(100 + s),
                    AttentionForm::kAbsorbed, true});
  }
  Sink together;
  std::vector<std::optional<Error>> errors(rows.size());
  runtime.step().run(rows, together, errors);
  for (size_t s = 0; s < kSequences; s++) {
    Sink alone;
    std::vector<std::optional<Error>> one(1);
    runtime.step().run({&rows[s], 1}, alone, one);
    EXPECT_TRUE(same_bytes(alone.rows[0], together.rows[s])) << "sequence " << s;
  }
}

}  // namespace
}  // namespace llmd
