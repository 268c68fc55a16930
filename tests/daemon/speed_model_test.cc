// The arithmetic of expected speed, against cases that can be done by hand.
#include "daemon/speed_model.h"

#include <gtest/gtest.h>

namespace llmd {
namespace {

SpeedInputs machine() {
  SpeedInputs in;
  in.moe_layers = 10;
  in.used = 4;
  in.experts = 64;
  in.other_seconds = 0.005;
  in.shared_seconds = 0.0005;
  in.expert_seconds = 0.0002;
  in.chunk_seconds = 0.4;
  in.chunk_tokens = 128;
  in.expert_bytes = 2e6;
  in.bytes_per_second = 1e9;
  in.lone_seconds = 0.002;  // no latency beyond the transfer
  in.hit_rate = 0.5;
  return in;
}

TEST(SpeedModel, StatesItsHitRate) {
  EXPECT_NEAR(expected_hit_rate(100, 1000), 0.53, 0.01);
  EXPECT_NEAR(expected_hit_rate(250, 1000), 0.81, 0.01);
  EXPECT_NEAR(expected_hit_rate(500, 1000), 0.95, 0.01);
  EXPECT_EQ(expected_hit_rate(1000, 1000), 1.0);
  EXPECT_EQ(expected_hit_rate(0, 1000), 0.0);
  EXPECT_EQ(expected_hit_rate(0, 0), 1.0);
}

TEST(SpeedModel, StatesHowManyExpertsAPromptTouches) {
  EXPECT_NEAR(expected_touched_share(1, 6, 64), 6.0 / 64, 0.03);
  EXPECT_NEAR(expected_touched_share(32, 6, 64), 0.47, 0.01);
  EXPECT_NEAR(expected_touched_share(256, 6, 64), 0.84, 0.01);
  EXPECT_EQ(expected_touched_share(1'000'000, 6, 64), 1.0);
  EXPECT_EQ(expected_touched_share(100, 0, 0), 0.0);
}

TEST(SpeedModel, AddsUpComputeAlone_WhenEverythingHits) {
  SpeedInputs in = machine();
  in.hit_rate = 1;
  EXPECT_NEAR(estimate_speed(in, 0).decode_seconds, 0.005 + 10 * (0.0005 + 4 * 0.0002), 1e-12);
  EXPECT_EQ(estimate_speed(in, 0).decode_drive_seconds, 0);
}

TEST(SpeedModel, IsTheDrivesTime_WhenNothingHitsAndTheDriveIsSlow) {
  SpeedInputs in = machine();
  in.hit_rate = 0;
  // Each layer: four experts read, everything but the last computed meanwhile, then the last.
  EXPECT_NEAR(estimate_speed(in, 0).decode_seconds, 0.005 + 10 * (4 * 0.002 + 0.0002), 1e-12);
  EXPECT_NEAR(estimate_speed(in, 0).decode_drive_seconds, 10 * 4 * 0.002, 1e-12);
}

TEST(SpeedModel, PaysTheLatencyOncePerLayerWithMisses) {
  SpeedInputs in = machine();
  in.hit_rate = 0;
  double without = estimate_speed(in, 0).decode_seconds;
  in.lone_seconds += 0.001;
  EXPECT_NEAR(estimate_speed(in, 0).decode_seconds - without, 10 * 0.001, 1e-12);
}

TEST(SpeedModel, LiesBetween_WhenHalfHits) {
  SpeedInputs in = machine();
  double half = estimate_speed(in, 0).decode_seconds;
  // The mean of a binomial number of reads, and a layer never takes less than its mean.
  EXPECT_GT(half, 0.005 + 10 * 2 * 0.002);
  EXPECT_LT(half, 0.005 + 10 * (2 * 0.002 + 0.0013 + 0.0002));
}

TEST(SpeedModel, TakesTheSlowerOfDriveAndProcessor_InPrefill) {
  SpeedInputs in = machine();
  // 640 experts of 2 MB at 1 GB/s, as many of them as 128 tokens touch.
  EXPECT_NEAR(estimate_speed(in, 128).prefill_seconds, 1.28 * expected_touched_share(128, 4, 64), 1e-9);
  in.bytes_per_second = 1e10;
  EXPECT_NEAR(estimate_speed(in, 128).prefill_seconds, 0.4, 1e-9);
  EXPECT_NEAR(estimate_speed(in, 64).prefill_seconds, 0.2, 1e-9);
}

TEST(SpeedModel, ReadsOnlyWhatThePoolLacks_AfterTheFirstChunk) {
  SpeedInputs in = machine();
  in.resident_share = 0.75;
  double touched = expected_touched_share(128, 4, 64);
  EXPECT_NEAR(estimate_speed(in, 256).prefill_drive_seconds, 1.28 * 1.25 * touched, 1e-9);
}

}  // namespace
}  // namespace llmd
