#include "io/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

#include "io/process_memory.h"

namespace llmd {
namespace {

constexpr uint64_t kMiB = 1 << 20;

uint64_t resident_pages(const Arena& arena) {
  std::vector<unsigned char> pages(arena.bytes() / 4096);
  EXPECT_EQ(mincore(arena.base(), arena.bytes(), pages.data()), 0);
  uint64_t count = 0;
  for (unsigned char page : pages) count += page & 1;
  return count;
}

TEST(Arena, IsAlignedAndRoundedUp) {
  auto arena = Arena::reserve(3 * kMiB);
  ASSERT_TRUE(arena.ok()) << arena.error().to_string();
  EXPECT_EQ(arena->bytes(), 4 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->base()) % (2 * kMiB), 0u);
}

TEST(Arena, TakesNoMemory_BeforeItIsTouched) {
  auto arena = Arena::reserve(uint64_t{1} << 36);  // more than any test machine has free
  ASSERT_TRUE(arena.ok()) << arena.error().to_string();
}

TEST(Arena, ReportsOutOfMemory_WhenAddressSpaceIsNotThere) {
  auto arena = Arena::reserve(uint64_t{1} << 62);
  ASSERT_FALSE(arena.ok());
  EXPECT_EQ(arena.error().code, "out_of_memory");
}

TEST(Arena, HandsOutAlignedPartitionsInOrder) {
  auto arena = Arena::reserve(4 * kMiB);
  ASSERT_TRUE(arena.ok());
  auto first = arena->take(100, 64);
  auto second = arena->take(4096);
  auto third = arena->take(kMiB, 2 * kMiB);
  EXPECT_EQ(first.data(), arena->base());
  EXPECT_EQ(second.data(), arena->base() + 4096);
  EXPECT_EQ(third.data(), arena->base() + 2 * kMiB);
  EXPECT_EQ(arena->taken_bytes(), 3 * kMiB);
  auto rest = arena->take(kMiB, 1);
  EXPECT_EQ(rest.size(), kMiB);
  EXPECT_EQ(arena->taken_bytes(), arena->bytes());
}

TEST(ArenaDeathTest, Aborts_WhenMoreIsTakenThanIsLeft) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto arena = Arena::reserve(2 * kMiB);
        arena->take(2 * kMiB + 1);
      },
      "bug");
}

TEST(Arena, PopulatesExactlyTheRangeAskedFor) {
  auto arena = Arena::reserve(64 * kMiB);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(resident_pages(*arena), 0u);
  ASSERT_TRUE(arena->populate(16 * kMiB, 32 * kMiB, 3).ok());
  EXPECT_EQ(resident_pages(*arena), 32 * kMiB / 4096);
  EXPECT_EQ(arena->base()[16 * kMiB], std::byte{0});
}

TEST(Arena, PopulateKeepsWhatIsThere) {
  auto arena = Arena::reserve(8 * kMiB);
  ASSERT_TRUE(arena.ok());
  std::memset(arena->base(), 0x77, 8 * kMiB);
  ASSERT_TRUE(arena->populate(0, 8 * kMiB, 2).ok());
  for (uint64_t i = 0; i < 8 * kMiB; i += 1021) ASSERT_EQ(arena->base()[i], std::byte{0x77});
}

TEST(Arena, MovesItsMemory) {
  Arena first = Arena::reserve(2 * kMiB).value();
  first.base()[5] = std::byte{9};
  Arena second = Arena::reserve(2 * kMiB).value();
  second = std::move(first);
  EXPECT_EQ(second.base()[5], std::byte{9});
}

[[noreturn]] void lock_as_a_poor_user() {
  rlimit limit{1 << 20, 1 << 20};
  setrlimit(RLIMIT_MEMLOCK, &limit);
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(2);
  auto arena = Arena::reserve(4 * kMiB);
  arena->lock();
  for (const auto& warning : arena->warnings()) std::fprintf(stderr, "%s\n", warning.c_str());
  _exit(arena->locked() ? 1 : 0);
}

TEST(ArenaDeathTest, WarnsWithLimitAndCure_WhenLockingIsDenied) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIPPED: sanitizers turn mlock into nothing";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lock_as_a_poor_user(), testing::ExitedWithCode(0),
              "RLIMIT_MEMLOCK is 1 MiB, needed are 4 MiB.*LimitMEMLOCK=infinity");
}

TEST(Arena, LocksItsMemory_WhenAllowed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIPPED: sanitizers turn mlock into nothing";
#endif
  auto arena = Arena::reserve(4 * kMiB);
  ASSERT_TRUE(arena.ok());
  uint64_t before = process_memory().locked_bytes;
  arena->lock();
  if (!arena->locked()) GTEST_SKIP() << "SKIPPED: " << arena->warnings().back();
  EXPECT_EQ(process_memory().locked_bytes - before, 4 * kMiB);
}

}  // namespace
}  // namespace llmd
