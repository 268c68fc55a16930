#include "io/thread_backend.h"

#include <algorithm>
#include <chrono>

#include "io/pread_backend.h"

namespace llmd {

Result<std::unique_ptr<ThreadBackend>> ThreadBackend::create(uint32_t threads, const std::string& why,
                                                             std::function<void()> on_result) {
  uint32_t wanted = std::clamp(threads, 1u, kBackendReadsMax);
  std::unique_ptr<ThreadBackend> backend(new ThreadBackend);
  backend->on_result_ = std::move(on_result);
  backend->threads_.reserve(wanted);
  while (backend->threads_.size() < wanted) {
    auto thread = Thread::start("io-" + std::to_string(backend->threads_.size()), kIoStackBytes,
                                [self = backend.get()] { self->work(); });
    if (!thread.ok() && backend->threads_.empty()) return std::move(thread).error();
    if (!thread.ok()) break;  // fewer threads are slower, not wrong
    backend->threads_.push_back(std::move(thread).value());
  }
  backend->reason_ = why + "; " + std::to_string(backend->threads_.size()) + " preadv threads";
  return backend;
}

void ThreadBackend::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    started_changed_.wait(lock, [&] { return started_.count > 0 || closing_; });
    if (started_.count == 0) return;
    BackendRead read = started_.pop();
    lock.unlock();
    BackendResult result{read.tag, pread_once(read)};
    lock.lock();
    results_.push(result);
    if (results_.count > 1) continue;
    results_changed_.notify_one();
    if (on_result_) on_result_();
  }
}

void ThreadBackend::start(const BackendRead& read) {
  {
    std::lock_guard lock(mutex_);
    started_.push(read);
  }
  started_changed_.notify_one();
}

size_t ThreadBackend::wait(std::span<BackendResult> results, int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  auto ready = [&] { return woken_ || results_.count > 0; };
  if (timeout_ns < 0) {
    results_changed_.wait(lock, ready);
  } else {
    results_changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), ready);
  }
  woken_ = false;
  size_t count = 0;
  while (count < results.size() && results_.count > 0) results[count++] = results_.pop();
  return count;
}

void ThreadBackend::wake() {
  {
    std::lock_guard lock(mutex_);
    woken_ = true;
  }
  results_changed_.notify_one();
}

void ThreadBackend::close() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  started_changed_.notify_all();
  for (Thread& thread : threads_) thread.join();
}

}  // namespace llmd
