#include "model/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

namespace llmd {
namespace {

void relax() {
  __builtin_ia32_pause();
}

// One line of a small text file, "" when it cannot be read.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// CPUs' worth of time that the cgroup of this process allows, or 0 for no limit (v2, then v1).
int cgroup_cpu_quota() {
  std::string max = first_line("/sys/fs/cgroup/cpu.max");
  if (!max.empty() && max.rfind("max", 0) != 0) {
    long long quota = 0, period = 0;
    if (std::sscanf(max.c_str(), "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0)
      return static_cast<int>(std::max(1LL, quota / period));
  }
  long long quota = std::atoll(first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").c_str());
  long long period = std::atoll(first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us").c_str());
  return quota > 0 && period > 0 ? static_cast<int>(std::max(1LL, quota / period)) : 0;
}

}  // namespace

int default_thread_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  std::set<std::string> cores;  // SMT siblings share a "thread_siblings_list"
  int cpus = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpus++;
    cores.insert(first_line("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list"));
  }
  int physical = cores.count("") ? cpus : static_cast<int>(cores.size());
  int quota = cgroup_cpu_quota();
  return std::max(1, quota > 0 ? std::min(physical, quota) : physical);
}

ThreadPool::ThreadPool(int threads) {
  // Spinning only helps while every thread has a core of its own.
  spins_ = threads > 1 && threads <= default_thread_count() ? 20000 : 1;
  for (int i = 1; i < threads; i++) workers_.emplace_back([this, i] { work(i); });
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
  tasks_ = tasks;
  next_.store(0, std::memory_order_relaxed);
  uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  state_.store(static_cast<uint64_t>(epoch) << 32 | kOpen, std::memory_order_release);
  epoch_.store(epoch, std::memory_order_release);
  epoch_.notify_all();
  claim(0);
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int spin = 0; spin < spins_ && workers_inside() != 0; spin++) relax();
  while (true) {
    uint32_t left = left_.load(std::memory_order_acquire);
    if (workers_inside() == 0) return;
    left_.wait(left, std::memory_order_acquire);
  }
}

void ThreadPool::claim(int thread) {
  for (int64_t task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_;)
    function_(context_, task, thread);
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
    claim(thread);
    state_.fetch_sub(1, std::memory_order_acq_rel);
    left_.fetch_add(1, std::memory_order_release);
    left_.notify_one();
  }
}

}  // namespace llmd
