// The reader's logic against scripted answers: order, bounds, retries, and which error a read ends with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "io/reader.h"
#include "scripted_backend.h"
#include "temp_file.h"

namespace llmd {
namespace {

using testing::ElementsAre;

class ReaderLogic : public testing::Test {
 protected:
  void create(ScriptedBackend::Answer answer, uint64_t bytes_in_flight_max = 1 << 20, uint32_t chunk_bytes = 64 << 10) {
    auto backend = std::make_unique<ScriptedBackend>(std::move(answer));
    backend_ = backend.get();
    ReaderOptions options;
    options.bytes_in_flight_max = bytes_in_flight_max;
    options.chunk_bytes = chunk_bytes;
    options.retry_pause_us = 1;
    reader_ = Reader::create_with_backend(options, std::move(backend)).value();
  }
  static int32_t all(const BackendRead& read) { return static_cast<int32_t>(read.length); }
  std::vector<uint64_t> started_offsets() {
    std::vector<uint64_t> offsets;
    for (const BackendRead& read : backend_->started()) offsets.push_back(read.offset);
    return offsets;
  }

  TempFile temp_{4096};
  DirectFile file_ = DirectFile::open_buffered(temp_.path()).value();  // blocks of 4096 wherever it runs
  std::unique_ptr<Reader> reader_;
  ScriptedBackend* backend_ = nullptr;
};

TEST_F(ReaderLogic, StartsTheMostUrgentFirst_WhenAllWait) {
  create(all, 4096);
  backend_->hold();
  OwnedRead first(file_, 0, 4096), warm(file_, 4096, 8192), prefetch(file_, 8192, 12288);
  OwnedRead sweep(file_, 12288, 16384), demand(file_, 16384, 20480);
  reader_->submit({{first.get()}});
  backend_->wait_until_started(1);
  warm->priority = ReadPriority::kWarm;
  prefetch->priority = ReadPriority::kPrefetch;
  sweep->priority = ReadPriority::kSweep;
  reader_->submit({{warm.get(), prefetch.get(), sweep.get(), demand.get()}});
  backend_->release();
  for (OwnedRead* read : {&first, &warm, &prefetch, &sweep, &demand}) wait_for(*read->get());
  EXPECT_THAT(started_offsets(), ElementsAre(0, 16384, 12288, 8192, 4096));
}

TEST_F(ReaderLogic, LetsADemandOvertake_BetweenThePiecesOfALargeRead) {
  create(all, 8192, 8192);
  backend_->hold();
  OwnedRead large(file_, 0, 32768), demand(file_, 65536, 65536 + 4096);
  large->priority = ReadPriority::kWarm;
  reader_->submit({{large.get()}});
  backend_->wait_until_started(1);
  reader_->submit({{demand.get()}});
  backend_->release();
  wait_for(*large.get());
  wait_for(*demand.get());
  EXPECT_THAT(started_offsets(), ElementsAre(0, 65536, 8192, 16384, 24576));
}

TEST_F(ReaderLogic, StartsNoPrefetch_WhileSomethingMoreUrgentIsQueuedOrInFlight) {
  create(all, 1 << 20, 64 << 10);
  backend_->hold();
  OwnedRead demand(file_, 0, 4096), sweep(file_, 8192, 12288), prefetch(file_, 1 << 20, (1 << 20) + 4096);
  prefetch->priority = ReadPriority::kPrefetch;
  sweep->priority = ReadPriority::kSweep;
  reader_->submit({{demand.get()}});
  backend_->wait_until_started(1);
  reader_->submit({{prefetch.get()}});
  backend_->go_round();
  EXPECT_THAT(started_offsets(), ElementsAre(0));
  reader_->submit({{sweep.get()}});  // there is room for it
  backend_->wait_until_started(2);
  backend_->go_round();
  EXPECT_THAT(started_offsets(), ElementsAre(0, 8192));
  backend_->release();
  wait_for(*prefetch.get());
  EXPECT_THAT(started_offsets(), ElementsAre(0, 8192, 1 << 20));
}

TEST_F(ReaderLogic, KeepsFewPrefetchesInFlight_AndStartsADemandBesideThem) {
  create(all, 1 << 20, 1 << 20);
  backend_->hold();
  OwnedRead prefetch(file_, 0, 1 << 20), demand(file_, 4 << 20, (4 << 20) + 4096);
  prefetch->priority = ReadPriority::kPrefetch;
  reader_->submit({{prefetch.get()}});
  backend_->wait_until_started(2);
  backend_->go_round();
  EXPECT_THAT(started_offsets(), ElementsAre(0, 64 << 10));  // an eighth of what may be in flight, in two pieces
  reader_->submit({{demand.get()}});
  backend_->wait_until_started(3);
  EXPECT_EQ(backend_->started().back().offset, 4u << 20);
  backend_->release();
  wait_for(*prefetch.get());
  wait_for(*demand.get());
  EXPECT_LE(backend_->in_flight_bytes_peak(), (128u << 10) + 4096);
}

TEST_F(ReaderLogic, GoesOnWithARaisedRead_AsWithADemand) {
  create(all, 1 << 20, 256 << 10);
  backend_->hold();
  OwnedRead prefetch(file_, 0, 512 << 10), other(file_, 2 << 20, (2 << 20) + 4096);
  prefetch->priority = other->priority = ReadPriority::kPrefetch;
  reader_->submit({{prefetch.get(), other.get()}});
  backend_->wait_until_started(2);
  reader_->raise({{prefetch.get()}}, ReadPriority::kDemand);
  backend_->wait_until_started(4);  // the rest in pieces of a demand, beside those that fly
  backend_->go_round();
  EXPECT_THAT(started_offsets(), ElementsAre(0, 64 << 10, 128 << 10, (128 + 256) << 10));
  backend_->release();
  wait_for(*prefetch.get());
  wait_for(*other.get());
  EXPECT_EQ(prefetch.state(), ReadState::kDone);
  EXPECT_EQ(started_offsets().back(), 2u << 20);
  EXPECT_EQ(reader_->statistics().bytes, (512u << 10) + 4096);
}

TEST_F(ReaderLogic, KeepsFewBytesOfASweepInFlight_WhenAsked) {
  create(all, 1 << 20, 64 << 10);
  reader_->set_sweep_bytes_in_flight_max(128 << 10);
  backend_->hold();
  OwnedRead sweep(file_, 0, 512 << 10), demand(file_, 4 << 20, (4 << 20) + (256 << 10));
  sweep->priority = ReadPriority::kSweep;
  reader_->submit({{sweep.get()}});
  backend_->wait_until_started(2);
  backend_->go_round();
  EXPECT_THAT(started_offsets(), ElementsAre(0, 64 << 10));
  reader_->submit({{demand.get()}});  // is not held back, nor counted
  backend_->wait_until_started(6);
  EXPECT_EQ(backend_->started().back().offset, (4u << 20) + (192u << 10));
  reader_->set_sweep_bytes_in_flight_max(UINT64_MAX);  // the rest at once
  backend_->wait_until_started(12);
  backend_->release();
  wait_for(*sweep.get());
  wait_for(*demand.get());
  EXPECT_EQ(sweep.state(), ReadState::kDone);
}

TEST_F(ReaderLogic, KeepsAQuarterForAWarmStart) {
  create(all, 1 << 20, 64 << 10);
  OwnedRead warm(file_, 0, 2 << 20);
  warm->priority = ReadPriority::kWarm;
  backend_->hold();
  reader_->submit({{warm.get()}});
  backend_->wait_until_started(4);
  backend_->go_round();
  EXPECT_EQ(backend_->started().size(), 4u);
  backend_->release();
  wait_for(*warm.get());
  EXPECT_EQ(backend_->in_flight_bytes_peak(), 256u << 10);
}

TEST_F(ReaderLogic, StartsOnePieceOfASweep_HoweverLittleIsAllowed) {
  create(all, 1 << 20, 64 << 10);
  reader_->set_sweep_bytes_in_flight_max(1);
  OwnedRead sweep(file_, 0, 512 << 10);
  sweep->priority = ReadPriority::kSweep;
  reader_->submit({{sweep.get()}});
  wait_for(*sweep.get());
  EXPECT_EQ(sweep.state(), ReadState::kDone);
  EXPECT_EQ(backend_->in_flight_bytes_peak(), 64u << 10);
}

TEST_F(ReaderLogic, KeepsBytesInFlightBounded) {
  create(all, 256 << 10, 64 << 10);
  std::vector<std::unique_ptr<OwnedRead>> reads;
  std::vector<Read*> pointers;
  for (uint64_t i = 0; i < 40; ++i) {
    reads.push_back(std::make_unique<OwnedRead>(file_, i << 20, (i << 20) + 300'000));
    pointers.push_back(reads.back()->get());
  }
  reader_->submit(pointers);
  for (Read* read : pointers) wait_for(*read);
  EXPECT_LE(backend_->in_flight_bytes_peak(), 256u << 10);
  EXPECT_GE(backend_->in_flight_bytes_peak(), 192u << 10);
  for (const BackendRead& read : backend_->started()) EXPECT_LE(read.length, 64u << 10);
}

TEST_F(ReaderLogic, ReadsAPieceLargerThanTheBudget) {
  create(all, 4096, 64 << 10);
  OwnedRead read(file_, 0, 200'000);
  reader_->submit({{read.get()}});
  wait_for(*read.get());
  EXPECT_EQ(read.state(), ReadState::kDone);
  EXPECT_LE(backend_->in_flight_bytes_peak(), 64u << 10);
}

TEST_F(ReaderLogic, KeepsEverySlotBusyAndNoMore_WhenReadsAreSmall) {
  create(all, 1 << 30, 4096);
  backend_->hold();
  OwnedRead read(file_, 0, 4096 * 1000);
  reader_->submit({{read.get()}});
  backend_->wait_until_started(kBackendReadsMax);
  EXPECT_EQ(backend_->started().size(), kBackendReadsMax);
  backend_->release();
  wait_for(*read.get());
  EXPECT_EQ(backend_->started().size(), 1000u);
}

TEST_F(ReaderLogic, SkipsBlocksBehindTheNeededBytes) {
  create(all);
  OwnedRead read(file_, 0, 40'960);
  read->needed_end = 5000;
  reader_->submit({{read.get()}});
  wait_for(*read.get());
  EXPECT_EQ(reader_->statistics().bytes, 8192u);
}

TEST_F(ReaderLogic, ContinuesAtTheLastWholeBlock_WhenAResultIsShort) {
  int call = 0;
  create([&](const BackendRead& read) { return call++ == 0 ? 10'000 : static_cast<int32_t>(read.length); });
  OwnedRead read(file_, 4096, 4096 + 40'960);
  reader_->submit({{read.get()}});
  wait_for(*read.get());
  ASSERT_EQ(read.state(), ReadState::kDone);
  auto started = backend_->started();
  ASSERT_EQ(started.size(), 2u);
  EXPECT_EQ(started[1].offset, 4096u + 8192);
  EXPECT_EQ(started[1].length, 40'960u - 8192);
  EXPECT_EQ(started[1].buffer, read->buffer + 8192);
  EXPECT_EQ(reader_->statistics().short_reads, 1u);
  EXPECT_EQ(reader_->statistics().bytes, 40'960u);
}

TEST_F(ReaderLogic, GivesUp_WhenNoWholeBlockEverComes) {
  create([](const BackendRead&) { return 100; });
  OwnedRead read(file_, 8192, 40'960);
  reader_->submit({{read.get()}});
  wait_for(*read.get());
  ASSERT_EQ(read.state(), ReadState::kFailed);
  EXPECT_EQ(read->error_number, 0);
  EXPECT_EQ(read->error_offset, 8292u);
  EXPECT_LE(backend_->started().size(), 12u);
}

TEST_F(ReaderLogic, RetriesABoundedNumberOfTimes_WhenTheKernelSaysAgain) {
  for (int error : {EAGAIN, EINTR, ENOMEM}) {
    create([&](const BackendRead&) { return -error; });
    OwnedRead read(file_, 0, 4096);
    reader_->submit({{read.get()}});
    wait_for(*read.get());
    ASSERT_EQ(read.state(), ReadState::kFailed);
    EXPECT_EQ(read->error_number, error);
    EXPECT_EQ(backend_->started().size(), 11u);
  }
}

TEST_F(ReaderLogic, Succeeds_WhenTheKernelSaysAgainForAWhile) {
  int call = 0;
  create([&](const BackendRead& read) { return ++call % 10 != 0 ? -EAGAIN : static_cast<int32_t>(read.length); }, 4096,
         4096);
  OwnedRead read(file_, 0, 40'960);
  reader_->submit({{read.get()}});
  wait_for(*read.get());
  EXPECT_EQ(read.state(), ReadState::kDone);
  EXPECT_EQ(reader_->statistics().retries, 90u);
}

TEST_F(ReaderLogic, NamesTheBadPage_WhenTheMediumFails) {
  constexpr uint64_t kBad = 4096 * 77 + 1000;
  create([](const BackendRead& read) {
    bool touches = read.offset <= kBad && kBad < read.offset + read.length;
    return touches ? -EIO : static_cast<int32_t>(read.length);
  });
  OwnedRead read(file_, 0, 1 << 20), other(file_, 0, 4096 * 70);
  reader_->submit({{read.get(), other.get()}});
  wait_for(*read.get());
  wait_for(*other.get());
  ASSERT_EQ(read.state(), ReadState::kFailed);
  EXPECT_EQ(read->error_number, EIO);
  EXPECT_EQ(read->error_offset, 4096u * 77);
  EXPECT_EQ(read_error(*read.get()).code, "model_read_error");
  EXPECT_EQ(read_error(*read.get()).offset, 4096u * 77);
  EXPECT_EQ(other.state(), ReadState::kDone);
  EXPECT_LT(backend_->started().size(), 50u);
}

TEST_F(ReaderLogic, Survives_WhenTheMediumFailsOnce) {
  int call = 0;
  create([&](const BackendRead& read) { return call++ == 0 ? -EIO : static_cast<int32_t>(read.length); });
  OwnedRead read(file_, 0, 4096);
  reader_->submit({{read.get()}});
  wait_for(*read.get());
  EXPECT_EQ(read.state(), ReadState::kDone);
  EXPECT_EQ(reader_->statistics().errors, 0u);
}

TEST_F(ReaderLogic, FailsAtOnce_WhenARepeatCannotHelp) {
  for (int error : {EBADF, EINVAL, EFAULT, ECANCELED}) {
    create([&](const BackendRead&) { return -error; });
    OwnedRead read(file_, 0, 65536);
    reader_->submit({{read.get()}});
    wait_for(*read.get());
    ASSERT_EQ(read.state(), ReadState::kFailed);
    EXPECT_EQ(read->error_number, error);
    EXPECT_EQ(backend_->started().size(), 1u);
  }
}

TEST_F(ReaderLogic, ReportsTheLowestOffset_WhenSeveralPiecesFail) {
  create([](const BackendRead& read) { return read.offset >= 65536 ? -EBADF : static_cast<int32_t>(read.length); });
  backend_->hold();
  OwnedRead read(file_, 0, 65536 * 8);
  reader_->submit({{read.get()}});
  backend_->wait_until_started(8);
  backend_->release();
  wait_for(*read.get());
  ASSERT_EQ(read.state(), ReadState::kFailed);
  EXPECT_EQ(read->error_offset, 65536u);
}

TEST_F(ReaderLogic, StartsNoFurtherPieces_WhenOneHasFailed) {
  create([](const BackendRead&) { return -EBADF; }, 64 << 10, 64 << 10);
  OwnedRead read(file_, 0, 65536 * 8);
  reader_->submit({{read.get()}});
  wait_for(*read.get());
  ASSERT_EQ(read.state(), ReadState::kFailed);
  EXPECT_EQ(backend_->started().size(), 1u);
}

TEST_F(ReaderLogic, TrustsNothing_WhenMoreBytesComeThanAsked) {
  create([](const BackendRead& read) { return static_cast<int32_t>(read.length) + 1; });
  OwnedRead read(file_, 0, 4096);
  reader_->submit({{read.get()}});
  wait_for(*read.get());
  ASSERT_EQ(read.state(), ReadState::kFailed);
  EXPECT_EQ(read->error_number, EIO);
}

TEST_F(ReaderLogic, CancelsOnlyWhatHasNotBeenStarted) {
  create(all, 64 << 10, 64 << 10);
  backend_->hold();
  OwnedRead started(file_, 0, 200'000), queued(file_, 1 << 20, (1 << 20) + 4096), kept(file_, 2 << 20, (2 << 20) + 5);
  reader_->submit({{started.get(), queued.get(), kept.get()}});
  backend_->wait_until_started(1);
  reader_->cancel({{started.get(), queued.get()}});
  ASSERT_EQ(queued.state(), ReadState::kFailed);  // at once, without the disk
  EXPECT_EQ(queued->error_number, ECANCELED);
  EXPECT_EQ(started.state(), ReadState::kPending);
  backend_->release();
  wait_for(*started.get());
  wait_for(*kept.get());
  EXPECT_EQ(started.state(), ReadState::kDone);
  EXPECT_EQ(kept.state(), ReadState::kDone);
}

TEST_F(ReaderLogic, CanBeSubmittedAgain_AfterACancel) {
  create(all, 64 << 10, 64 << 10);
  backend_->hold();
  OwnedRead blocker(file_, 0, 65536), read(file_, 1 << 20, (1 << 20) + 4096);
  reader_->submit({{blocker.get(), read.get()}});
  backend_->wait_until_started(1);
  reader_->cancel({{read.get()}});
  reader_->submit({{read.get()}});
  backend_->release();
  wait_for(*read.get());
  wait_for(*blocker.get());
  EXPECT_EQ(read.state(), ReadState::kDone);
  EXPECT_EQ(read->error_number, 0);
}

TEST_F(ReaderLogic, DropsTheRestOfAStartedRead_WhenDestroyed) {
  create(all, 64 << 10, 64 << 10);
  backend_->hold();
  OwnedRead read(file_, 0, 64 << 20);
  reader_->submit({{read.get()}});
  backend_->wait_until_started(1);
  std::thread releaser([&] { backend_->release(); });
  releaser.join();
  reader_.reset();
  ASSERT_TRUE(read->finished());
}

using ReaderLogicDeathTest = ReaderLogic;

TEST_F(ReaderLogicDeathTest, Aborts_WhenAReadIsNotAligned) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        create(all);
        OwnedRead read(file_, 0, 8192);
        read->offset = 100;
        reader_->submit({{read.get()}});
      },
      "bug");
}

}  // namespace
}  // namespace llmd
