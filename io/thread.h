// Thread: a joinable thread with a name, a stack of a stated size and no asynchronous signals.
//
// The daemon handles its signals in one place; threads that sit in the kernel for the disk must not take them. Stacks
// are sized explicitly because they count against the memory budget. start() may be called from any thread; on failure
// ("thread_start", operating) nothing runs. join() once; the destructor joins what still runs.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "io/result.h"

namespace llmd {

class Thread {
 public:
  /// `name` is cut to 15 characters, the kernel's limit.
  static Result<Thread> start(const std::string& name, size_t stack_bytes, std::function<void()> body);
  Thread() = default;
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) noexcept;
  Thread(const Thread&) = delete;
  ~Thread() { join(); }

  void join();
  bool running() const { return running_; }
  /// Processor time that the thread has used; 0 when it was never started or has been joined.
  uint64_t cpu_ns() const;

 private:
  pthread_t handle_{};
  bool running_ = false;
};

/// Enough for the input/output threads, also with a sanitizer's larger frames.
inline constexpr size_t kIoStackBytes = 256 << 10;

}  // namespace llmd
