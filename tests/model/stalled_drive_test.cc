// A drive that stops answering: requests fail after the limit, also when every slot waits for it, and go on when it is
// back.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/io/scripted_backend.h"
#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

class StalledDrive : public testing::Test {
 protected:
  void SetUp() override {
    DemoOptions options;
    options.chunk = 64;
    Result<DemoModel> planned = open_demo(options);
    ASSERT_TRUE(planned.ok());
    options.memory_bytes = planned->runtime->plan().floor_bytes;  // few slots: nearly every token reads
    options.residency.read_timeout_ns = 20'000'000;  // by a clock that only goes on while the drive is stalled
    options.residency.bad_expert_ns = 0;
    options.make_reader = [this](const ReaderOptions& reader_options) {
      auto backend = std::make_unique<ScriptedBackend>([](const BackendRead& read) {
        return static_cast<int32_t>(pread(read.fd, read.buffer, read.length, static_cast<off_t>(read.offset)));
      });
      backend_ = backend.get();
      ReaderOptions with_clock = reader_options;
      with_clock.clock = &clock_;
      return Reader::create_with_backend(with_clock, std::move(backend));
    };
    model_ = load_demo(options);
  }
  void TearDown() override {
    go_on();
    model_ = {};
  }
  void stall() {
    backend_->hold();
    stalled_ = true;
    time_ = std::thread([this] {
      while (stalled_) {
        clock_.advance_ns(50'000'000);
        usleep(1000);
      }
    });
  }
  void go_on() {
    stalled_ = false;
    if (time_.joinable()) time_.join();
    if (backend_ != nullptr) backend_->release();
  }
  Status decode() {
    Generator generator(*model_.runtime, 64);
    for (int32_t token : some_tokens(12, 3)) LLMD_RETURN_IF_ERROR(generator.decode(token, ignore_));
    return {};
  }
  Status prefill() {
    Generator generator(*model_.runtime, 256);
    return generator.prefill(some_tokens(100, 4), false, ignore_);
  }
  // Steps that fail while reads come back late, until one is whole.
  bool recovers() {
    for (int i = 0; i < 200; i++) {
      if (decode().ok() && prefill().ok()) return true;
      usleep(10'000);
    }
    return false;
  }

  const Generator::LogitsFn ignore_ = [](int32_t, std::span<const float>) {};
  ManualClock clock_{1'000'000'000};
  std::atomic<bool> stalled_{false};
  std::thread time_;
  ScriptedBackend* backend_ = nullptr;
  DemoModel model_;
};

TEST_F(StalledDrive, FailsRequestsByName_AndServesAgainAfterwards) {
  ASSERT_TRUE(decode().ok());
  ASSERT_TRUE(prefill().ok());
  stall();
  // More often than there are slots to wait for: the later ones find none left.
  for (int i = 0; i < 12; i++) {
    Status status = i % 3 == 2 ? prefill() : decode();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, "model_read_timeout") << status.error().to_string();
    EXPECT_EQ(status.error().file, demo_path());
    EXPECT_TRUE(status.error().offset.has_value());
  }
  EXPECT_GT(model_.runtime->residency()->statistics().reads_overdue, 3u);
  EXPECT_GT(model_.runtime->residency()->statistics().bad_experts, 0u);
  go_on();
  EXPECT_TRUE(recovers());
  while (model_.runtime->maintain(true)) {
  }
  EXPECT_EQ(model_.runtime->residency()->statistics().bad_experts, 0u);
}

}  // namespace
}  // namespace llmd
