// The reader over a lying disk: equal bytes or a typed error, never wrong bytes, and every read finishes.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "fault_stress.h"
#include "io/fault_backend.h"
#include "io/pread_backend.h"

namespace llmd {
namespace {

TEST(FaultReader, ReturnsTheRightBytes_WhenShortByEveryResidue) {
  TempFile temp(256 << 10);
  DirectFile direct = DirectFile::open(temp.path()).value();
  DirectFile buffered = DirectFile::open_buffered(temp.path()).value();
  for (int32_t residue = 0; residue < 4096; ++residue) {
    FaultOptions faults;
    faults.seed = static_cast<uint64_t>(residue);
    faults.short_residue = residue;
    auto backend = std::make_unique<FaultBackend>(faults, std::make_unique<PreadBackend>());
    ReaderOptions options;
    options.chunk_bytes = 16 << 10;
    auto reader = Reader::create_with_backend(options, std::move(backend)).value();
    uint64_t begin = static_cast<uint64_t>(residue) * 40;
    OwnedRead read(residue % 4 == 3 ? buffered : direct, begin, begin + 40'000);
    reader->submit({{read.get()}});
    wait_for(*read.get());
    ASSERT_EQ(read.state(), ReadState::kDone) << "residue " << residue;
    ASSERT_TRUE(read.matches(temp)) << "residue " << residue;
  }
}

TEST(FaultReader, SeesTheEnd_WhenTheFileIsCutAnywhereInABlock) {
  TempFile temp(64 << 10);
  DirectFile file = DirectFile::open(temp.path()).value();
  for (uint64_t cut = 8192; cut <= 12288; cut += 37) {
    FaultOptions faults;
    faults.truncated_at = cut;
    auto backend = std::make_unique<FaultBackend>(faults, std::make_unique<PreadBackend>());
    auto reader = Reader::create_with_backend({}, std::move(backend)).value();
    OwnedRead enough(file, 4096, cut), more(file, 4096, cut + 1);
    reader->submit({{enough.get(), more.get()}});
    wait_for(*enough.get());
    wait_for(*more.get());
    ASSERT_EQ(enough.state(), ReadState::kDone) << cut;
    ASSERT_TRUE(enough.matches(temp)) << cut;
    ASSERT_EQ(more.state(), ReadState::kFailed) << cut;
    ASSERT_EQ(more->error_offset, cut);
  }
}

TEST(FaultReader, FailsOnlyTheReadsThatTouchABadRange) {
  TempFile temp(1 << 20);
  DirectFile file = DirectFile::open_buffered(temp.path()).value();
  FaultOptions faults;
  faults.bad_begin = 300 * 1024;
  faults.bad_end = 301 * 1024;
  auto backend = std::make_unique<FaultBackend>(faults, std::make_unique<PreadBackend>());
  auto reader = Reader::create_with_backend({}, std::move(backend)).value();
  OwnedRead touching(file, 0, 1 << 20), before(file, 0, 300 * 1024), behind(file, 304 * 1024, 1 << 20);
  reader->submit({{touching.get(), before.get(), behind.get()}});
  for (OwnedRead* read : {&touching, &before, &behind}) wait_for(*read->get());
  EXPECT_EQ(touching.state(), ReadState::kFailed);
  EXPECT_EQ(touching->error_number, EIO);
  EXPECT_EQ(touching->error_offset, 300u * 1024);
  EXPECT_EQ(before.state(), ReadState::kDone);
  EXPECT_TRUE(before.matches(temp));
  EXPECT_EQ(behind.state(), ReadState::kDone);
  EXPECT_TRUE(behind.matches(temp));
}

TEST(FaultReader, ReturnsEveryReadRight_WhenAllFaultsPass) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    FaultOptions faults;
    faults.seed = seed;
    faults.short_one_in = 5;
    faults.eagain_one_in = 8;
    faults.delay_one_in = 3;
    StressResult result = run_fault_stress(faults, 120);
    EXPECT_EQ(result.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(result.failed, 0u) << "seed " << seed;
    EXPECT_EQ(result.done, 120u) << "seed " << seed;
    EXPECT_GT(result.statistics.short_reads, 10u) << "seed " << seed;
    EXPECT_GT(result.statistics.retries, 10u) << "seed " << seed;
  }
}

TEST(FaultReader, ReturnsRightBytesOrATypedError_WhenTheDiskIsDying) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    StressResult result = run_fault_stress(dying_disk(seed), 120);
    EXPECT_EQ(result.wrong, 0u) << "seed " << seed;
    EXPECT_EQ(result.untyped, 0u) << "seed " << seed;
    EXPECT_EQ(result.done + result.failed, 120u) << "seed " << seed;
    EXPECT_GT(result.done, 0u) << "seed " << seed;
    EXPECT_GT(result.failed, 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace llmd
