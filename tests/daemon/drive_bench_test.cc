// The benchmarks' own machinery on the demo model: that they read what they say, at the depth they say, and end.
#include "daemon/drive_bench.h"

#include <gtest/gtest.h>

#include "daemon/plan_measure.h"

namespace llmd {
namespace {

class DriveBenchTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<GgufModel> gguf = GgufModel::open(std::string(LLMD_SOURCE_DIR) + "/demo/llmd-demo.gguf");
    ASSERT_TRUE(gguf.ok());
    gguf_ = std::make_unique<GgufModel>(std::move(gguf).value());
    RuntimeOptions options;
    options.plan.memory_bytes = 1ull << 30;
    Result<std::unique_ptr<Runtime>> runtime = Runtime::open(*gguf_, options);
    ASSERT_TRUE(runtime.ok());
    runtime_ = std::move(runtime).value();
    Result<std::unique_ptr<DriveBench>> bench =
        DriveBench::open(*gguf_, runtime_->catalog(), ReaderOptions::Path::kAuto);
    ASSERT_TRUE(bench.ok());
    bench_ = std::move(bench).value();
  }

  std::unique_ptr<GgufModel> gguf_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<DriveBench> bench_;
};

TEST_F(DriveBenchTest, CountsWhatItReads_AtEverySizeAndDepth) {
  for (uint64_t slice : {0u, 4096u, 65536u, 64u << 20}) {  // the last is larger than any tensor here
    for (uint64_t depth : {4096u, 1u << 20}) {
      Result<DriveRun> run = bench_->random_reads(slice, depth, 0.005);
      ASSERT_TRUE(run.ok());
      EXPECT_GT(run->reads, 0u);
      EXPECT_EQ(run->bytes_in_flight, depth);
      EXPECT_EQ(bench_->reader().bytes_in_flight_max(), depth);
      EXPECT_GE(run->bytes, run->reads * 512);
      bool fits = slice == 4096 || slice == 65536;
      EXPECT_EQ(fits ? run->slice_bytes : slice, slice);
    }
  }
}

TEST_F(DriveBenchTest, SeesEveryReadOnce_SleepingAndSpinning) {
  for (auto waiter : {DriveBench::Waiter::kSleeping, DriveBench::Waiter::kSpinning}) {
    uint64_t before = bench_->reader().statistics().reads;
    Result<HandOff> hand_off = bench_->hand_off(waiter, 0.01);
    ASSERT_TRUE(hand_off.ok());
    EXPECT_EQ(hand_off->samples, bench_->reader().statistics().reads - before);
    EXPECT_LE(hand_off->p50, hand_off->p99);
    EXPECT_LE(hand_off->p99, hand_off->max);
  }
  Result<double> lone = bench_->lone_expert_seconds(0.005);
  ASSERT_TRUE(lone.ok());
  EXPECT_GT(*lone, 0);
}

TEST_F(DriveBenchTest, PredictsASpeed_FromWhatItMeasures) {
  Result<PlanMeasurement> measured = measure_plan(*gguf_, *runtime_, ReaderOptions::Path::kAuto);
  ASSERT_TRUE(measured.ok());
  EXPECT_GT(measured->processor.other_seconds, 0);
  EXPECT_GT(measured->processor.expert_seconds, 0);
  EXPECT_GT(measured->processor.chunk_seconds, 0);
  EXPECT_EQ(measured->inputs.hit_rate, 1.0);  // everything fits
  EXPECT_GT(measured->estimate.decode_seconds, 0);
  EXPECT_NE(measurement_text(*measured).find("expected decode: "), std::string::npos);
}

TEST(Percentile, IsTheNearestSample) {
  std::vector<double> samples = {5, 1, 4, 2, 3};
  EXPECT_EQ(percentile(samples, 0.5), 3);
  EXPECT_EQ(percentile(samples, 0), 1);
  EXPECT_EQ(percentile(samples, 1), 5);
  samples.clear();
  EXPECT_EQ(percentile(samples, 0.5), 0);
}

}  // namespace
}  // namespace llmd
