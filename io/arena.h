// Arena: the one large memory range that everything of size lives in (weights, KV, activations, expert pool).
//
// Address space is reserved at once, asked to be huge-paged, prefaulted by several threads (MADV_POPULATE_WRITE), then
// locked, and kept out of core dumps and forks. take() hands out fixed partitions front to back; nothing is returned
// before the arena dies. Set-up calls come from one thread; afterwards the memory itself is anybody's.
// Failing to lock or to get huge pages is not fatal: warnings() has one line each, with its cure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/result.h"

namespace llmd {

class Arena {
 public:
  /// Reserves `bytes` (rounded up to 2 MiB) of zeroed address space. Errors: "out_of_memory".
  static Result<Arena> reserve(uint64_t bytes);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  ~Arena();

  /// The next `bytes` bytes at `alignment` (a power of two up to 2 MiB). Asking for more than is left is a bug.
  std::span<std::byte> take(uint64_t bytes, uint64_t alignment = 4096);
  /// Touches every page of [begin, begin + bytes) with `threads` threads. Errors: "out_of_memory".
  Status populate(uint64_t begin, uint64_t bytes, int threads);
  /// mlock of the whole arena; on failure adds a warning that names RLIMIT_MEMLOCK and the cure, and goes on.
  void lock();

  std::byte* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t taken_bytes() const { return taken_; }
  bool locked() const { return locked_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Arena() = default;
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0, taken_ = 0;
  bool locked_ = false;
  std::vector<std::string> warnings_;
};

}  // namespace llmd
