#include "model/thread_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace llmd {
namespace {

// More threads than cores on purpose: workers that get no core must hold nobody up, and miss nothing.
class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryTaskOnce_InManyJobs) {
  ThreadPool pool(GetParam());
  for (int64_t job = 0; job < 300; job++) {
    std::vector<int> runs(static_cast<size_t>(job % 40));
    pool.run(static_cast<int64_t>(runs.size()), [&](int64_t task, int thread) {
      EXPECT_LT(thread, pool.threads());
      runs[static_cast<size_t>(task)]++;
    });
    for (int count : runs) ASSERT_EQ(count, 1);
  }
}

TEST_P(ThreadPoolTest, CoversARange_InPieces) {
  ThreadPool pool(GetParam());
  std::vector<int> seen(1000);
  pool.run_range(1000, 7, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) seen[static_cast<size_t>(i)]++;
  });
  for (int count : seen) EXPECT_EQ(count, 1);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

}  // namespace
}  // namespace llmd
