// Reads that take too long: who is told, how often, and how a waiter gives up without giving the buffer away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>

#include "io/reader.h"
#include "scripted_backend.h"
#include "temp_file.h"

namespace llmd {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

class ReaderAge : public testing::Test {
 protected:
  void create(uint32_t chunk_bytes = 64 << 10) {
    auto backend =
        std::make_unique<ScriptedBackend>([](const BackendRead& read) { return static_cast<int32_t>(read.length); });
    backend_ = backend.get();
    backend_->hold();
    ReaderOptions options;
    options.chunk_bytes = chunk_bytes;
    options.clock = &clock_;
    options.on_late = [this](const LateRead& late) { reports_.push_back(late); };
    reader_ = Reader::create_with_backend(options, std::move(backend)).value();
  }
  void submit(OwnedRead& read) {
    reader_->submit({{read.get()}});
    submitted_ += (read->length + (64 << 10) - 1) / (64 << 10);
    backend_->wait_until_started(submitted_);
  }
  void pass_ns(uint64_t ns) {
    clock_.advance_ns(ns);
    backend_->go_round();
  }

  ManualClock clock_{5 * kSecondNs};
  TempFile temp_{4096};
  DirectFile file_ = DirectFile::open_buffered(temp_.path()).value();
  std::vector<LateRead> reports_;  // written by the reader's thread, read after go_round()
  std::unique_ptr<Reader> reader_;
  ScriptedBackend* backend_ = nullptr;
  size_t submitted_ = 0;
};

TEST_F(ReaderAge, ReportsAReadOnce_WhenItIsOlderThanASecond) {
  create();
  OwnedRead read(file_, 4096, 4096 + 200'000);  // four pieces
  submit(read);
  pass_ns(kSecondNs - 1);
  EXPECT_EQ(reports_.size(), 0u);
  EXPECT_EQ(reader_->statistics().late_reads, 0u);
  pass_ns(1);
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].file, &file_);
  EXPECT_EQ(reports_[0].offset, 4096u);
  EXPECT_EQ(reports_[0].age_ns, kSecondNs);
  EXPECT_EQ(reports_[0].others, 0u);
  pass_ns(100 * kSecondNs);
  EXPECT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reader_->statistics().late_reads, 1u);
  EXPECT_EQ(reader_->statistics().oldest_age_ns, 101 * kSecondNs);
  backend_->release();
  wait_for(*read.get());
  EXPECT_EQ(read.state(), ReadState::kDone);  // late is not failed
  EXPECT_EQ(reader_->statistics().oldest_age_ns, 0u);
}

TEST_F(ReaderAge, ReportsOneReadAPeriodAndCountsTheOthers_WhenManyAreLate) {
  create();
  std::vector<std::unique_ptr<OwnedRead>> reads;
  auto submit_one = [&] {
    uint64_t begin = reads.size() << 20;
    reads.push_back(std::make_unique<OwnedRead>(file_, begin, begin + 4096));
    submit(*reads.back());
  };
  for (int i = 0; i < 5; ++i) submit_one();
  pass_ns(kSecondNs / 2);
  submit_one();
  pass_ns(kSecondNs / 2);
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reader_->statistics().late_reads, 5u);
  pass_ns(kSecondNs / 2);  // the sixth: too soon after the first report
  EXPECT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reader_->statistics().late_reads, 6u);
  submit_one();
  pass_ns(kSecondNs);
  ASSERT_EQ(reports_.size(), 2u);
  EXPECT_EQ(reports_[1].offset, 6u << 20);
  EXPECT_EQ(reports_[1].others, 5u);
  backend_->release();
  for (auto& read : reads) wait_for(*read->get());
}

TEST_F(ReaderAge, CountsFromTheStart_NotFromTheSubmission) {
  create();
  reader_->set_bytes_in_flight_max(64 << 10);
  OwnedRead first(file_, 0, 65536), queued(file_, 1 << 20, (1 << 20) + 4096);
  submit(first);
  reader_->submit({{queued.get()}});
  pass_ns(2 * kSecondNs);
  EXPECT_EQ(reader_->statistics().late_reads, 1u);
  EXPECT_EQ(reader_->now_ns() - queued->submitted_ns, 2 * kSecondNs);  // what a request's limit goes by
  backend_->release();
  wait_for(*queued.get());
  EXPECT_EQ(reader_->statistics().late_reads, 1u);
}

TEST_F(ReaderAge, WakesByItself_WhenARealReadIsLate) {
  auto backend =
      std::make_unique<ScriptedBackend>([](const BackendRead& read) { return static_cast<int32_t>(read.length); });
  ScriptedBackend* scripted = backend.get();
  scripted->hold();
  std::promise<uint64_t> reported;
  ReaderOptions options;
  options.late_after_ns = 1'000'000;
  options.on_late = [&](const LateRead& late) { reported.set_value(late.age_ns); };
  auto reader = Reader::create_with_backend(options, std::move(backend)).value();
  OwnedRead read(file_, 0, 4096);
  reader->submit({{read.get()}});
  EXPECT_GE(reported.get_future().get(), 1'000'000u);
  scripted->release();
  wait_for(*read.get());
}

TEST_F(ReaderAge, LetsAWaiterGiveUpAndComeBack_WhenTheDeadlineHasPassed) {
  create();
  ReadGate gate;
  OwnedRead read(file_, 0, 4096, 0, &gate);
  submit(read);
  EXPECT_EQ(wait_for_any(gate, 0, real_clock().now_ns() + 1'000'000), 0u);
  EXPECT_EQ(wait_for_any(gate, 0, 0), 0u);
  EXPECT_FALSE(read->finished());
  backend_->release();
  EXPECT_EQ(wait_for_any(gate, 0, real_clock().now_ns() + 60 * kSecondNs), 1u);
  EXPECT_EQ(read.state(), ReadState::kDone);
}

TEST_F(ReaderAge, StartsMore_WhenTheBytesInFlightAreRaised) {
  create();
  reader_->set_bytes_in_flight_max(64 << 10);
  OwnedRead read(file_, 0, 10 * 65536);
  reader_->submit({{read.get()}});
  backend_->wait_until_started(1);
  backend_->go_round();
  EXPECT_EQ(backend_->started().size(), 1u);
  reader_->set_bytes_in_flight_max(5 * 65536);
  backend_->wait_until_started(5);
  backend_->go_round();
  EXPECT_EQ(backend_->started().size(), 5u);
  EXPECT_EQ(reader_->bytes_in_flight_max(), 5u * 65536);
  backend_->release();
  wait_for(*read.get());
}

}  // namespace
}  // namespace llmd
