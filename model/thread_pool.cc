#include "model/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include "io/check.h"
#include "model/processors.h"

namespace llmd {
namespace {

void relax() {
  __builtin_ia32_pause();
}

void pin_to(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(thread, sizeof(set), &set);  // refused: the thread stays free to move
}

}  // namespace

ThreadPool::ThreadPool(int threads) : ranges_(std::make_unique<Range[]>(static_cast<size_t>(threads))) {
  Processors processors = allowed_processors();
  // Spinning only helps while every thread has a core of its own.
  spins_ = threads > 1 && threads <= processors.default_threads() ? 20000 : 1;
  for (int i = 1; i < threads; i++) workers_.emplace_back([this, i] { work(i); });
  if (threads != processors.cores || threads < 2) return;
  leader_cpu_ = processors.cpus[0];
  for (int i = 1; i < threads; i++)
    pin_to(workers_[static_cast<size_t>(i) - 1].native_handle(), processors.cpus[static_cast<size_t>(i)]);
}

void ThreadPool::pin_leader() {
  if (leader_cpu_ >= 0) pin_to(pthread_self(), leader_cpu_);
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_job(int64_t tasks, JobFn function, void* context) {
  if (workers_.empty() || tasks <= 1) {
    for (int64_t task = 0; task < tasks; task++) function(context, task, 0);
    return;
  }
  function_ = function;
  context_ = context;
  share_out(tasks);
  uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  state_.store(static_cast<uint64_t>(epoch) << 32 | kOpen, std::memory_order_release);
  epoch_.store(epoch, std::memory_order_release);
  epoch_.notify_all();
  work_off(0);
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spin = 0; spin < spins_ && workers_inside() != 0; spin++) relax();
  while (true) {
    uint32_t left = left_.load(std::memory_order_acquire);
    if (workers_inside() == 0) return;
    left_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::share_out(int64_t tasks) {
  LLMD_CHECK(tasks <= UINT32_MAX);
  int64_t count = threads();
  for (int64_t i = 0; i < count; i++) {
    uint64_t first = static_cast<uint64_t>(tasks * i / count), end = static_cast<uint64_t>(tasks * (i + 1) / count);
    ranges_[static_cast<size_t>(i)].tasks.store(first << 32 | end, std::memory_order_relaxed);
  }
}

// The thread's own tasks from the front, then those of the others from the back.
void ThreadPool::work_off(int thread) {
  constexpr uint64_t kEnd = UINT32_MAX;
  int count = threads();
  for (int i = 0; i < count; i++) {
    std::atomic<uint64_t>& range = ranges_[static_cast<size_t>((thread + i) % count)].tasks;
    uint64_t tasks = range.load(std::memory_order_relaxed);
    while (tasks >> 32 < (tasks & kEnd)) {
      uint64_t rest = i == 0 ? tasks + (1ull << 32) : tasks - 1;
      if (!range.compare_exchange_weak(tasks, rest, std::memory_order_relaxed)) continue;
      function_(context_, static_cast<int64_t>(i == 0 ? tasks >> 32 : rest & kEnd), thread);
      tasks = range.load(std::memory_order_relaxed);
    }
  }
}

// Joins the job of `epoch` if it is still open.
bool ThreadPool::join(uint32_t epoch) {
  uint64_t state = state_.load(std::memory_order_acquire);
  while (state >> 32 == epoch && (state & kOpen) != 0)
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) return true;
  return false;
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  while (true) {
    for (int spin = 0; spin < spins_ && epoch_.load(std::memory_order_acquire) == seen; spin++) relax();
    uint32_t epoch;
    while ((epoch = epoch_.load(std::memory_order_acquire)) == seen) epoch_.wait(seen, std::memory_order_acquire);
    seen = epoch;
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!join(epoch)) continue;
    work_off(thread);
    state_.fetch_sub(1, std::memory_order_acq_rel);
    left_.fetch_add(1, std::memory_order_release);
    left_.notify_one();
  }
}

}  // namespace llmd
