#include "io/process_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "io/clock.h"

namespace llmd {
namespace {

TEST(ProcessMemory, ParsesProcFiles_WhenNameHoldsBracketsAndBlanks) {
  ProcessMemory memory = parse_process_memory(
      "Name:\ta) b (c\nVmLck:\t      8 kB\nVmHWM:\t   2000 kB\nVmRSS:\t   1000 kB\nRssAnon:\t 1 kB\nRssFile:\t 300 "
      "kB\n",
      "17 (a) b (c) S 1 17 17 0 -1 4194560 5000 60 77 8 1 2 3 4 20 0 1 0");
  EXPECT_EQ(memory.resident_bytes, 1000u * 1024);
  EXPECT_EQ(memory.resident_peak_bytes, 2000u * 1024);
  EXPECT_EQ(memory.file_resident_bytes, 300u * 1024);
  EXPECT_EQ(memory.locked_bytes, 8u * 1024);
  EXPECT_EQ(memory.major_faults, 77u);
}

TEST(ProcessMemory, IsZero_WhenProcFilesAreEmptyOrCutShort) {
  EXPECT_EQ(parse_process_memory("", "").resident_bytes, 0u);
  EXPECT_EQ(parse_process_memory("VmRSS:", "17 (x").resident_bytes, 0u);
  EXPECT_EQ(parse_process_memory("VmRSS:\tmany kB", "17 (x) S 1").major_faults, 0u);
}

TEST(ProcessMemory, PeakGrows_WhenMemoryIsTouched) {
  uint64_t before = process_memory().resident_bytes;
  constexpr size_t kBytes = 64 << 20;
  auto memory = std::make_unique<char[]>(kBytes);
  std::memset(memory.get(), 1, kBytes);
  ProcessMemory now = process_memory();
  EXPECT_GE(now.resident_bytes, before + kBytes / 2);
  EXPECT_GE(now.resident_peak_bytes, now.resident_bytes / 2);
}

TEST(ProgramRanges, TakesReadableMappingsOfProgramsOnly) {
  std::vector<MappedRange> ranges = program_ranges(
      "1000-2000 r--p 00000000 fe:00 1   /usr/bin/a name\n"
      "2000-3000 r-xp 00001000 fe:00 1   /usr/bin/a name\n"
      "3000-4000 rw-p 00002000 fe:00 1   /usr/bin/a name\n"
      "4000-5000 ---p 00002000 fe:00 1   /usr/bin/a name\n"
      "5000-6000 rw-p 00000000 00:00 0 \n"
      "6000-7000 r--p 00000000 fe:00 2   /usr/lib/locale-archive\n"
      "7000-8000 r--s 00000000 fe:00 1   /usr/bin/a name\n"
      "8000-9000 r-xp 00000000 00:00 0   [vdso]\n"
      "nonsense");
  EXPECT_EQ(ranges, (std::vector<MappedRange>{{0x1000, 0x2000}, {0x2000, 0x3000}, {0x3000, 0x4000}}));
}

TEST(ProgramText, IsLocked_WhenAllowed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIPPED: sanitizers turn mlock into nothing";
#endif
  raise_memlock_limit();
  TextLock lock = lock_program_text();
  if (!lock.warning.empty()) GTEST_SKIP() << "SKIPPED: " << lock.warning;
  EXPECT_GT(lock.bytes, 100'000u);
  EXPECT_GE(process_memory().locked_bytes, lock.bytes);
  EXPECT_GE(process_memory().file_resident_bytes, lock.bytes / 2);
}

TEST(ManualClock, StandsStill_UntilAdvanced) {
  ManualClock clock(5);
  EXPECT_EQ(clock.now_ns(), 5u);
  clock.advance_ns(10);
  EXPECT_EQ(clock.now_ns(), 15u);
  uint64_t before = real_clock().now_ns();
  EXPECT_LE(before, real_clock().now_ns());
}

}  // namespace
}  // namespace llmd
