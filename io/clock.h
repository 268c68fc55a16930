// Clock: the one way to ask for the time where a test must be able to set it.
//
// now_ns() is monotonic and counts from an arbitrary start; it may be called from any thread and cannot fail. Code that
// decides by time takes a `const Clock&`; real_clock() is what the daemon passes, ManualClock what a test does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace llmd {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual uint64_t now_ns() const = 0;
};

class RealClock final : public Clock {
 public:
  uint64_t now_ns() const override {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }
};

/// Stands still until it is advanced. advance_ns() may be called from any thread.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(uint64_t start_ns = 0) : now_ns_(start_ns) {}
  uint64_t now_ns() const override { return now_ns_.load(std::memory_order_acquire); }
  void advance_ns(uint64_t by_ns) { now_ns_.fetch_add(by_ns, std::memory_order_acq_rel); }

 private:
  std::atomic<uint64_t> now_ns_;
};

inline const Clock& real_clock() {
  static const RealClock clock;
  return clock;
}

}  // namespace llmd
