// ScriptedBackend: lets a test see what the reader starts, in which order, and decide each result.
//
// The answer function is called by the reader's thread for every read and returns bytes or a negative errno. While
// hold() is in force nothing is delivered. The owner and wake() rules of io/backend.h hold.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "io/backend.h"

namespace llmd {

class ScriptedBackend final : public Backend {
 public:
  using Answer = std::function<int32_t(const BackendRead&)>;
  explicit ScriptedBackend(Answer answer) : answer_(std::move(answer)) {}

  void start(const BackendRead& read) override {
    std::lock_guard lock(mutex_);
    started_.push_back(read);
    in_flight_bytes_ += read.length;
    in_flight_bytes_peak_ = std::max(in_flight_bytes_peak_, in_flight_bytes_);
    queue_.push_back(read);
    changed_.notify_all();
  }
  size_t wait(std::span<BackendResult> results, int64_t timeout_ns) override {
    std::unique_lock lock(mutex_);
    ++rounds_;
    changed_.notify_all();
    auto ready = [&] { return woken_ || (!held_ && !queue_.empty()); };
    if (timeout_ns < 0) {
      changed_.wait(lock, ready);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), ready);
    }
    woken_ = false;
    if (held_ || queue_.empty()) return 0;
    BackendRead read = queue_.front();
    queue_.pop_front();
    in_flight_bytes_ -= read.length;
    results[0] = {read.tag, answer_(read)};
    return 1;
  }
  void wake() override {
    std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  void close() override {}
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return name_; }

  void hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  void wait_until_started(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return started_.size() >= count; });
  }
  /// Returns when the reader has looked at everything, clock included, after this call began.
  void go_round() {
    for (int i = 0; i < 2; ++i) {  // the first may have begun before
      std::unique_lock lock(mutex_);
      uint64_t before = rounds_;
      woken_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return rounds_ > before; });
    }
  }
  std::vector<BackendRead> started() {
    std::lock_guard lock(mutex_);
    return started_;
  }
  uint64_t in_flight_bytes_peak() {
    std::lock_guard lock(mutex_);
    return in_flight_bytes_peak_;
  }

 private:
  Answer answer_;
  std::string name_ = "scripted";
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<BackendRead> queue_;
  std::vector<BackendRead> started_;
  uint64_t rounds_ = 0;  // calls of wait()
  uint64_t in_flight_bytes_ = 0, in_flight_bytes_peak_ = 0;
  bool held_ = false, woken_ = false;
};

}  // namespace llmd
