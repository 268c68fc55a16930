#include "io/pread_backend.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace llmd {

int32_t pread_once(const BackendRead& read) {
  iovec vector{read.buffer, read.length};
  ssize_t got = preadv(read.fd, &vector, 1, static_cast<off_t>(read.offset));
  return got < 0 ? -errno : static_cast<int32_t>(got);
}

void PreadBackend::start(const BackendRead& read) {
  results_.push_back({read.tag, pread_once(read)});
}

size_t PreadBackend::wait(std::span<BackendResult> results, int64_t timeout_ns) {
  {
    std::unique_lock lock(mutex_);
    auto ready = [&] { return woken_ || !results_.empty(); };
    if (timeout_ns < 0) {
      woken_changed_.wait(lock, ready);
    } else {
      woken_changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), ready);
    }
    woken_ = false;
  }
  size_t count = std::min(results.size(), results_.size());
  std::copy_n(results_.begin(), count, results.begin());
  results_.erase(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void PreadBackend::wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  woken_changed_.notify_one();
}

}  // namespace llmd
