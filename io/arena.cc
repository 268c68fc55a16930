#include "io/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "io/thread.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace llmd {

namespace {

constexpr uint64_t kHugePageBytes = 2u << 20;
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kPopulateStepBytes = 64u << 20;  // keeps one call short and the slices of the threads even
constexpr int kPopulateThreadsMax = 256;

uint64_t align_up(uint64_t value, uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

/// Writes to every page without changing it: other threads may be reading weights into the same range.
void touch_pages(std::byte* begin, uint64_t bytes) {
  auto* at = reinterpret_cast<unsigned char*>(begin);
  for (uint64_t i = 0; i < bytes; i += kPageBytes) std::atomic_ref<unsigned char>(at[i]).fetch_or(0);
}

/// Returns 0 or an errno.
int populate_step(std::byte* begin, uint64_t bytes) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (madvise(begin, bytes, MADV_POPULATE_WRITE) == 0) return 0;
    if (errno == EINVAL) {
      touch_pages(begin, bytes);
      return 0;
    }
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return errno;
}

bool huge_pages_switched_off() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  return line.find("[never]") != std::string::npos;
}

}  // namespace

Result<Arena> Arena::reserve(uint64_t bytes) {
  if (bytes > (uint64_t{1} << 46)) {
    return operating_error("out_of_memory", "cannot reserve " + mebibytes(bytes) + " of address space");
  }
  uint64_t wanted = std::max(align_up(bytes, kHugePageBytes), kHugePageBytes);
  // One huge page more than needed, so that an aligned range lies inside; the rest is given back.
  uint64_t mapped = wanted + kHugePageBytes;
  void* map = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) {
    return operating_error("out_of_memory", "cannot reserve " + mebibytes(wanted) +
                                                " of address space: " + std::strerror(errno) +
                                                "; give less memory with --memory, or raise LimitAS= or ulimit -v");
  }
  auto begin = reinterpret_cast<uint64_t>(map);
  uint64_t aligned = align_up(begin, kHugePageBytes);
  if (aligned != begin) munmap(map, aligned - begin);
  uint64_t tail = begin + mapped - (aligned + wanted);
  if (tail != 0) munmap(reinterpret_cast<void*>(aligned + wanted), tail);

  Arena arena;
  arena.base_ = reinterpret_cast<std::byte*>(aligned);
  arena.bytes_ = wanted;
  if (madvise(arena.base_, wanted, MADV_HUGEPAGE) != 0 || huge_pages_switched_off()) {
    arena.warnings_.push_back(
        "memory is not huge-paged, decoding is slower; allow it with: echo madvise > "
        "/sys/kernel/mm/transparent_hugepage/enabled");
  }
  // Prompts live here: they belong neither into a core dump nor into a child.
  if (madvise(arena.base_, wanted, MADV_DONTDUMP) != 0) {
    arena.warnings_.push_back("memory cannot be kept out of core dumps; set LimitCORE=0 in the unit or ulimit -c 0");
  }
  if (madvise(arena.base_, wanted, MADV_DONTFORK) != 0) {
    arena.warnings_.push_back("memory cannot be kept out of forked children; they may double its use");
  }
  return arena;
}

Arena::Arena(Arena&& other) noexcept {
  *this = std::move(other);
}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this == &other) return *this;
  if (base_ != nullptr) munmap(base_, bytes_);
  base_ = std::exchange(other.base_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  taken_ = std::exchange(other.taken_, 0);
  locked_ = std::exchange(other.locked_, false);
  warnings_ = std::move(other.warnings_);
  return *this;
}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

std::span<std::byte> Arena::take(uint64_t bytes, uint64_t alignment) {
  LLMD_CHECK(std::has_single_bit(alignment) && alignment <= kHugePageBytes);
  uint64_t begin = align_up(taken_, alignment);
  LLMD_CHECK(begin <= bytes_ && bytes <= bytes_ - begin);
  taken_ = begin + bytes;
  return {base_ + begin, bytes};
}

Status Arena::populate(uint64_t begin, uint64_t bytes, int threads) {
  LLMD_CHECK(begin <= bytes_ && bytes <= bytes_ - begin);
  uint64_t first = begin & ~(kPageBytes - 1);
  uint64_t end = std::min(align_up(begin + bytes, kPageBytes), bytes_);
  std::atomic<uint64_t> next{first};
  std::atomic<int> error{0};
  auto work = [&] {
    while (error.load(std::memory_order_relaxed) == 0) {
      uint64_t at = next.fetch_add(kPopulateStepBytes, std::memory_order_relaxed);
      if (at >= end) return;
      int result = populate_step(base_ + at, std::min(kPopulateStepBytes, end - at));
      if (result != 0) error.store(result, std::memory_order_relaxed);
    }
  };
  {
    std::vector<Thread> helpers;  // joined at the end of this block; this thread works too
    for (int i = 1; i < std::min(threads, kPopulateThreadsMax); ++i) {
      auto helper = Thread::start("populate", kIoStackBytes, work);
      if (!helper.ok()) break;  // fewer threads are slower, not wrong
      helpers.push_back(std::move(helper).value());
    }
    work();
  }
  if (error.load() == 0) return {};
  return operating_error("out_of_memory", "cannot get " + mebibytes(bytes) + " of memory: " +
                                              std::strerror(error.load()) + "; give less memory with --memory");
}

void Arena::lock() {
  if (base_ == nullptr || locked_) return;
  if (mlock(base_, bytes_) == 0) {
    locked_ = true;
    return;
  }
  int error_number = errno;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  std::string allowed = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : mebibytes(limit.rlim_cur);
  warnings_.push_back("memory is not locked and may be swapped out: " + std::string(std::strerror(error_number)) +
                      " (RLIMIT_MEMLOCK is " + allowed + ", needed are " + mebibytes(bytes_) +
                      "); set LimitMEMLOCK=infinity in the unit or ulimit -l unlimited");
}

}  // namespace llmd
