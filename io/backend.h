// Backend: the narrow waist between the reader's logic (io/reader_core.h) and whatever really reads.
//
// It starts one positional read and later says how many bytes came or which errno; nothing else. Cutting, retrying,
// continuing and bounding are the reader's. Four implementations: the ring (uring_backend.h), a pool of preadv threads
// (thread_backend.h), plain pread in the calling thread (pread_backend.h) and a seeded liar for tests
// (fault_backend.h).
//
// One thread, the owner, calls start(), wait() and close(); any thread may call wake(). Nothing here fails: a read that
// cannot be done comes back with a negative errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace llmd {

/// Started and not yet delivered at once, at most. Rings and queues are sized for it, so none can overflow.
inline constexpr uint32_t kBackendReadsMax = 256;

struct BackendRead {
  int fd = -1;
  uint32_t length = 0;
  uint64_t offset = 0;
  std::byte* buffer = nullptr;
  uint32_t tag = 0;       // below kBackendReadsMax, unique among the reads in flight
  bool may_block = true;  // starting it may sleep in the kernel (DirectFile::may_block)
};

struct BackendResult {
  uint32_t tag = 0;
  int32_t result = 0;  // bytes read, 0 at the end of the file, or a negative errno
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// Takes one read. The buffer belongs to the backend until wait() delivers the tag.
  virtual void start(const BackendRead& read) = 0;
  /// Hands everything started to the kernel, then sleeps until a result, a wake() or the timeout (negative: none).
  /// A wake() before the call counts. Returns how many results were written; 0 is legal at any time.
  virtual size_t wait(std::span<BackendResult> results, int64_t timeout_ns) = 0;
  /// Makes the current or the next wait() return.
  virtual void wake() = 0;
  /// The owner's last call, with no read in flight: takes back what the backend itself has in the kernel.
  virtual void close() = 0;

  virtual const std::string& name() const = 0;    // "io_uring", "threads", ...
  virtual const std::string& reason() const = 0;  // one line: why this one, and how it is set up
};

}  // namespace llmd
