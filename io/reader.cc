#include "io/reader.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <thread>

#include "io/reader_core.h"
#include "io/thread_backend.h"
#include "io/uring_backend.h"

namespace llmd {

namespace {

Result<std::unique_ptr<Backend>> create_threads(const ReaderOptions& options, const std::string& why) {
  LLMD_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, ThreadBackend::create(options.threads, why));
  return backend;
}

Result<std::unique_ptr<Backend>> create_backend(const ReaderOptions& options) {
  if (options.path == ReaderOptions::Path::kThreads) return create_threads(options, "asked for");
  auto ring = UringBackend::create(options.threads);
  if (ring.ok()) return std::unique_ptr<Backend>(std::move(ring).value());
  if (options.path == ReaderOptions::Path::kUring) return std::move(ring).error();
  return create_threads(options, ring.error().message);
}

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins for some microseconds while `waiting` holds: most waits of a busy machine end before a sleep would begin. On a
/// single processor the awaited thread could not run meanwhile.
template <typename Waiting>
bool spin_while(Waiting waiting) {
  static const int spins = std::thread::hardware_concurrency() > 1 ? 200 : 1;
  for (int i = 0; i < spins; ++i) {
    if (!waiting()) return true;
    pause_briefly();
  }
  return false;
}

// std::atomic::wait() knows no deadline, so gates use the futex themselves. How many threads sleep at any gate: a hint
// that saves the waker a system call. It cannot stand in the gate, which may be gone once the count has moved.
std::atomic<uint32_t> gate_sleepers{0};

void sleep_at(const ReadGate& gate, uint32_t seen, uint64_t deadline_ns) {
  timespec until{};
  until.tv_sec = static_cast<time_t>(deadline_ns / 1'000'000'000);
  until.tv_nsec = static_cast<long>(deadline_ns % 1'000'000'000);
  gate_sleepers.fetch_add(1);
  // Absolute, by CLOCK_MONOTONIC. The kernel looks at the count again before it lets the thread sleep.
  syscall(SYS_futex, &gate.completed, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline_ns == UINT64_MAX ? nullptr : &until,
          nullptr, FUTEX_BITSET_MATCH_ANY);
  gate_sleepers.fetch_sub(1);
}

}  // namespace

Result<std::unique_ptr<Reader>> Reader::create(const ReaderOptions& options) {
  LLMD_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, create_backend(options));
  return create_with_backend(options, std::move(backend));
}

Result<std::unique_ptr<Reader>> Reader::create_with_backend(const ReaderOptions& options,
                                                            std::unique_ptr<Backend> backend) {
  auto core = std::make_unique<ReaderCore>(options, std::move(backend));
  LLMD_RETURN_IF_ERROR(core->start());
  return std::unique_ptr<Reader>(std::move(core));
}

Error read_error(const Read& read) {
  if (read.error_number == 0) {
    return operating_error("model_truncated",
                           "the file ended before byte " + std::to_string(read.needed_end) + "; it was cut or replaced",
                           read.file->path(), read.error_offset);
  }
  return operating_error("model_read_error", std::string("reading failed: ") + std::strerror(read.error_number),
                         read.file->path(), read.error_offset);
}

void wait_for(const Read& read) {
  if (spin_while([&] { return !read.finished(); })) return;
  LLMD_CHECK(read.state.load(std::memory_order_relaxed) != ReadState::kIdle);
  while (!read.finished()) read.state.wait(ReadState::kPending, std::memory_order_acquire);
}

uint32_t wait_for_any(const ReadGate& gate, uint32_t seen, uint64_t deadline_ns) {
  auto unchanged = [&] { return gate.completed.load(std::memory_order_acquire) == seen; };
  if (!spin_while(unchanged)) {
    while (unchanged() && (deadline_ns == UINT64_MAX || real_clock().now_ns() < deadline_ns)) {
      sleep_at(gate, seen, deadline_ns);
    }
  }
  return gate.completed.load(std::memory_order_acquire);
}

void count_completion(ReadGate& gate) {
  const std::atomic<uint32_t>* address = &gate.completed;
  // Sequentially consistent, as is gate_sleepers: either the sleeper is seen here or the kernel sees the new count
  // there.
  gate.completed.fetch_add(1);
  if (gate_sleepers.load() != 0) syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace llmd
