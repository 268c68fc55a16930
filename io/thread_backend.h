// ThreadBackend: positional reads by a pool of threads, for kernels and containers that deny io_uring.
//
// A started read goes into a fixed queue; the first idle thread does one preadv and puts the result into another fixed
// queue, which wait() empties. The owner and wake() rules of io/backend.h hold; start() and wait() allocate nothing.
// create() fails ("thread_start") only when not a single thread can be had; close() or the destructor joins them.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "io/backend.h"
#include "io/result.h"
#include "io/thread.h"

namespace llmd {

class ThreadBackend final : public Backend {
 public:
  /// `threads` is clamped to [1, kBackendReadsMax]; `why` is the start of reason(). `on_result`, if any, is called by a
  /// pool thread when there are results after there were none; it must not call back.
  static Result<std::unique_ptr<ThreadBackend>> create(uint32_t threads, const std::string& why,
                                                       std::function<void()> on_result = {});
  ~ThreadBackend() override { close(); }

  void start(const BackendRead& read) override;
  size_t wait(std::span<BackendResult> results, int64_t timeout_ns) override;
  void wake() override;
  void close() override;
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return reason_; }

 private:
  /// A queue of at most kBackendReadsMax items in place.
  template <typename T>
  struct FixedQueue {
    std::array<T, kBackendReadsMax> items;
    uint32_t begin = 0, count = 0;
    void push(const T& item) {
      LLMD_CHECK(count < kBackendReadsMax);
      items[(begin + count++) % kBackendReadsMax] = item;
    }
    T pop() {
      LLMD_CHECK(count > 0);
      --count;
      return items[begin++ % kBackendReadsMax];
    }
  };

  ThreadBackend() = default;
  void work();

  std::string name_ = "threads", reason_;
  std::function<void()> on_result_;
  std::mutex mutex_;  // guards everything down to the threads
  std::condition_variable started_changed_, results_changed_;
  FixedQueue<BackendRead> started_;
  FixedQueue<BackendResult> results_;
  bool woken_ = false, closing_ = false;
  std::vector<Thread> threads_;
};

}  // namespace llmd
