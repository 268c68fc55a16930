// What a depth sweep decides, what it leaves alone, and that it reads everything whatever happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "io/depth_sweep.h"
#include "io/thread_backend.h"
#include "scripted_backend.h"
#include "temp_file.h"

namespace llmd {
namespace {

constexpr uint64_t kMiB = 1 << 20;

uint64_t chosen(std::vector<double> rates) {
  std::vector<DepthSample> samples;
  for (size_t i = 0; i < rates.size(); ++i) samples.push_back({kMiB << i, rates[i]});
  return shallowest_good_depth(samples).bytes_in_flight / kMiB;
}

TEST(DepthSweep, TakesTheShallowestWithin95Percent) {
  EXPECT_EQ(chosen({100, 200, 390, 400, 401}), 4u);
  EXPECT_EQ(chosen({100, 200, 379, 400, 401}), 8u);
  EXPECT_EQ(chosen({400, 400, 400, 400, 400}), 1u);
  EXPECT_EQ(chosen({100, 200, 300, 400, 500}), 16u);
  EXPECT_EQ(chosen({100}), 1u);
}

TEST(DepthSweep, KeepsFourMillisecondsInFlight_WhenEveryDepthIsGood) {
  EXPECT_EQ(chosen({500e6, 500e6, 500e6, 500e6}), 2u);
  EXPECT_EQ(chosen({2e9, 2e9, 2e9, 2e9}), 8u);
  EXPECT_EQ(chosen({50e9, 50e9, 50e9, 50e9}), 8u);  // there is nothing deeper to choose
}

// A drive whose every read takes the time that its bytes and the number of reads in flight give it, by a clock of its
// own: up to `good_depth` bytes in flight the rate grows, beyond it does not.
class ModelDrive : public testing::Test {
 protected:
  void create(uint64_t good_depth, int error_after = INT32_MAX) {
    auto backend = std::make_unique<ScriptedBackend>([=, this](const BackendRead& read) {
      uint64_t depth = std::min(reader_->bytes_in_flight_max(), good_depth);
      clock_.advance_ns(static_cast<uint64_t>(read.length) * (1000 * kMiB) / depth);
      return ++answers_ > error_after ? -EBADF : static_cast<int32_t>(read.length);
    });
    backend_ = backend.get();
    ReaderOptions options;
    options.clock = &clock_;
    options.late_after_ns = UINT64_MAX / 2;
    reader_ = Reader::create_with_backend(options, std::move(backend)).value();
  }
  Result<DriveSpeed> read(uint64_t bytes) {
    reads_.clear();
    for (uint64_t at = 0; at < bytes; at += 4 * kMiB) {
      reads_.push_back(std::make_unique<Read>());
      Read& one = *reads_.back();
      one.file = &file_;
      one.offset = at;
      one.length = std::min(4 * kMiB, bytes - at);
      one.needed_end = at + one.length;
      one.buffer = reinterpret_cast<std::byte*>(4096);  // never touched: the answers are scripted
    }
    std::vector<Read*> list;
    for (auto& one : reads_) list.push_back(one.get());
    taken_ = 0;
    return read_finding_depth(*reader_, list, [this](const Read& one) -> Status {
      EXPECT_EQ(&one, reads_[taken_ / (4 * kMiB)].get());  // in the order of the list
      taken_ += one.length;
      if (taken_ > refused_after_) return operating_error("refused", "not what was wanted");
      return {};
    });
  }

  ManualClock clock_{1};
  TempFile temp_{4096};
  DirectFile file_ = DirectFile::open_buffered(temp_.path()).value();
  int answers_ = 0;
  uint64_t taken_ = 0, refused_after_ = UINT64_MAX;
  std::vector<std::unique_ptr<Read>> reads_;
  std::unique_ptr<Reader> reader_;
  ScriptedBackend* backend_ = nullptr;
};

TEST_F(ModelDrive, IsReadAtItsDepth_WhenThereAreEnoughBytes) {
  for (uint64_t depth : {4, 8, 16, 32}) {
    create(depth * kMiB);
    Result<DriveSpeed> speed = read(400 * kMiB);
    ASSERT_TRUE(speed.ok());
    EXPECT_EQ(speed->bytes_in_flight, depth * kMiB);
    EXPECT_EQ(reader_->bytes_in_flight_max(), depth * kMiB);
    EXPECT_NEAR(speed->bytes_per_second, static_cast<double>(depth) * 1e6, static_cast<double>(depth) * 0.15e6);
    ASSERT_EQ(speed->samples.size(), 5u);
    EXPECT_LT(speed->samples[0].bytes_per_second, speed->bytes_per_second);
    EXPECT_EQ(speed->bytes, 400 * kMiB);
    EXPECT_EQ(taken_, 400 * kMiB);
    EXPECT_EQ(reader_->statistics().bytes, 400 * kMiB);
  }
}

TEST_F(ModelDrive, KeepsTheReadersDepth_WhenThereAreFewBytes) {
  create(4 * kMiB);
  for (uint64_t bytes : {uint64_t{0}, uint64_t{4096}, 300 * kMiB}) {
    Result<DriveSpeed> speed = read(bytes);
    ASSERT_TRUE(speed.ok());
    EXPECT_TRUE(speed->samples.empty());
    EXPECT_EQ(reader_->bytes_in_flight_max(), ReaderOptions{}.bytes_in_flight_max);
    EXPECT_EQ(speed->bytes_in_flight, ReaderOptions{}.bytes_in_flight_max);
    EXPECT_EQ(speed->bytes, bytes);
  }
}

TEST_F(ModelDrive, EndsWithTheReadsError_WhereverItComes) {
  for (int good : {0, 3, 100, 399}) {
    create(8 * kMiB, good);
    answers_ = 0;
    Result<DriveSpeed> speed = read(400 * kMiB);
    ASSERT_FALSE(speed.ok());
    EXPECT_EQ(speed.error().code, "model_read_error");
    // Nothing is left behind: what was submitted has come back.
    EXPECT_EQ(reader_->statistics().in_flight_bytes, 0u);
    for (auto& one : reads_) EXPECT_NE(one->state.load(), ReadState::kPending);
  }
}

TEST_F(ModelDrive, EndsWithTheTakersError_WhereverItComes) {
  for (uint64_t good : {uint64_t{0}, 100 * kMiB, 396 * kMiB}) {
    create(8 * kMiB);
    refused_after_ = good;
    Result<DriveSpeed> speed = read(400 * kMiB);
    ASSERT_FALSE(speed.ok());
    EXPECT_EQ(speed.error().code, "refused");
    EXPECT_EQ(taken_, good + 4 * kMiB);
    for (auto& one : reads_) EXPECT_NE(one->state.load(), ReadState::kPending);
  }
}

}  // namespace
}  // namespace llmd
