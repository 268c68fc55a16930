// UringBackend: positional reads through one io_uring, submitted and reaped by one thread.
//
// create() proves the ring by a round trip before anything relies on it: features, the opcode, and every system call
// that a seccomp filter could deny. Its error ("io_unavailable") names the cause and the cure. The owner and wake()
// rules of io/backend.h hold; start(), wait() and wake() allocate nothing.
//
//   any thread: wake() --write--> eventfd
//                                    | a read of it always sits in the ring
//   owner: start() -> SQ -> wait(): io_uring_enter (submits and sleeps) -> CQ -> results
//             \-> preadv threads, which wake() when they have results
//
// Reads that may block (BackendRead::may_block) go to threads, for two reasons. A file system that sleeps would stop
// the owner. And after a short direct read the kernel goes on by itself, for which FUSE (seen on 6.18, also with
// IOSQE_ASYNC) leaves the position unmoved: wrong bytes would come back as a success.
//
// Sizes: at most kBackendReadsMax reads and one eventfd read are in flight, the submission queue has twice that and
// the completion queue four times: neither can be full, and the completion queue cannot overflow.
#pragma once

#include <liburing.h>

#include <memory>
#include <string_view>

#include "io/backend.h"
#include "io/result.h"
#include "io/thread_backend.h"

namespace llmd {

class UringBackend final : public Backend {
 public:
  /// `threads` serve the reads that may block.
  static Result<std::unique_ptr<UringBackend>> create(uint32_t threads = 4);
  ~UringBackend() override;

  void start(const BackendRead& read) override;
  size_t wait(std::span<BackendResult> results, int64_t timeout_ns) override;
  void wake() override;
  void close() override;
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return reason_; }

 private:
  UringBackend() = default;
  Status set_up();
  Status prove();
  void arm_wake();
  size_t reap(std::span<BackendResult> results);
  size_t take_from_threads(std::span<BackendResult> results);

  std::string name_ = "io_uring", reason_;
  io_uring ring_{};
  bool ring_made_ = false;
  int event_fd_ = -1;
  uint64_t event_value_ = 0;  // the kernel writes here while the eventfd read is armed
  bool wake_armed_ = false, closing_ = false;
  std::unique_ptr<ThreadBackend> threads_;
  uint32_t in_threads_ = 0;
};

/// Why the kernel denies io_uring, in one line with the cure. `error_number` is the errno of the call that failed,
/// `sysctl` the contents of /proc/sys/kernel/io_uring_disabled (empty where there is none).
std::string uring_denial(int error_number, std::string_view sysctl);

}  // namespace llmd
