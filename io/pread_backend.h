// PreadBackend: does each read in start(), in the calling thread, and delivers the results in order.
//
// For tests, where the order of everything must follow from a seed, and for tools that do not know io_uring. The owner
// and wake() rules of io/backend.h hold. A failing read comes back as a negative errno.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "io/backend.h"

namespace llmd {

class PreadBackend final : public Backend {
 public:
  void start(const BackendRead& read) override;
  size_t wait(std::span<BackendResult> results, int64_t timeout_ns) override;
  void wake() override;
  void close() override {}
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return reason_; }

 private:
  std::string name_ = "pread", reason_ = "pread in the calling thread";
  std::deque<BackendResult> results_;  // the owner's
  std::mutex mutex_;
  std::condition_variable woken_changed_;
  bool woken_ = false;
};

/// One preadv: bytes read or a negative errno.
int32_t pread_once(const BackendRead& read);

}  // namespace llmd
