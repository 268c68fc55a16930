// After READY a step allocates nothing: every operator new of the process is counted while one runs.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "model/sampler.h"
#include "model/sampler_logprobs.h"
#include "tests/model/demo_runtime.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace llmd {
namespace {

// Few slots, so that the steps also read, evict and run in waves.
TEST(Allocation, DoesNotHappenInAStep_OfAnyKind) {
  DemoOptions options;
  options.chunk = 40;
  options.prefetch = true;
  Result<DemoModel> planned = open_demo(options);
  ASSERT_TRUE(planned.ok());
  options.memory_bytes = planned->runtime->plan().floor_bytes;
  DemoModel model = load_demo(options);
  Generator generator(*model.runtime, 1024);
  uint64_t checksum = 0;
  const Generator::LogitsFn keep = [&](int32_t position, std::span<const float> logits) {
    checksum += static_cast<uint64_t>(position) + static_cast<uint64_t>(argmax(logits));
  };
  std::vector<int32_t> prompt = some_tokens(300, 1), generated = some_tokens(40, 2);
  ASSERT_TRUE(generator.prefill(prompt, false, keep).ok());  // the reader's first reads may set things up

  uint64_t before = allocations.load();
  ASSERT_TRUE(generator.prefill(prompt, false, keep).ok());
  uint64_t after_prefill = allocations.load();
  for (int32_t token : generated) ASSERT_TRUE(generator.decode(token, keep).ok());
  uint64_t after_decode = allocations.load();
  EXPECT_EQ(after_prefill - before, 0u);
  EXPECT_EQ(after_decode - after_prefill, 0u);
  EXPECT_GT(model.runtime->residency()->statistics().evictions, 0u);
  EXPECT_GT(model.runtime->moe()->guesses().predicted, 0u);
  EXPECT_GT(checksum, 0u);
}

TEST(Allocation, DoesNotHappenInASampler_WhateverItsSettings) {
  constexpr int32_t kVocab = 5000;
  SamplingParams all, open;
  all.typical_p = 0.9f;
  all.repeat_penalty = 1.1f;
  all.presence_penalty = 0.5f;
  all.repeat_last_n = -1;
  all.logit_bias = {{3, 5.0f}, {4, -5.0f}};
  all.min_tokens = 3;
  open.top_k = 0;
  open.top_p = 0.999f;
  open.min_p = 0;
  const std::vector<int32_t> end_ids = {1, 2}, tokens = some_tokens(300, 3);
  std::vector<float> logits(kVocab);
  for (size_t i = 0; i < logits.size(); i++) logits[i] = static_cast<float>(i * 7919 % 1000) / 100;
  SamplerWorkspace workspace(kVocab);
  Sampler first(all, end_ids, workspace), second(open, end_ids, workspace);
  int64_t sum = 0;
  const uint64_t before = allocations.load();
  for (int32_t i = 0; i < 20; i++) {
    sum += first.sample(logits, tokens, i) + second.sample(logits, tokens, i);
    sum += token_logprobs(logits, 0, kTopLogprobsMax).top[0].id;
  }
  EXPECT_EQ(allocations.load() - before, 0u);
  EXPECT_GT(sum, 0);
}

}  // namespace
}  // namespace llmd

#endif
