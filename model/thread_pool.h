// ThreadPool: the compute threads. One thread leads (the one that calls run); the others spin briefly, then sleep.
//
// run(tasks, f) calls f(task, thread) once for every task in [0, tasks), on any thread in [0, threads()), and returns
// when all are done. Each thread begins with a contiguous range of the tasks, in order, so that neighbouring pieces of
// a matrix are read by one thread as one run of memory; whoever has finished takes tasks from the far end of the
// others' ranges, so uneven ones do not idle a core. Results must not depend on which thread ran a task. Only one
// thread may lead at a time; f must not call run. Nothing is allocated by run.
//
// A worker *joins* a job while it is open; the leader closes it when no task is left to claim and waits for those that
// joined only. So a worker that sleeps or has no core (more threads than cores) holds nobody up.
//
// When the threads are exactly as many as the physical cores that this process may use, each has a core of its own and
// is pinned to it. With fewer the others are somebody else's, with more there is nothing to own: then nobody is pinned.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace llmd {

class ThreadPool {
 public:
  /// `threads` in total, the leader included; at least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  /// Pins the calling thread, which leads from now on and starts no threads any more (they would inherit the pin).
  void pin_leader();

  template <typename F>
  void run(int64_t tasks, F&& f) {
    using Function = std::remove_reference_t<F>;
    run_job(
        tasks, [](void* context, int64_t task, int thread) { (*static_cast<Function*>(context))(task, thread); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

  /// run() over [0, items) in pieces of `grain`: f(begin, end, thread).
  template <typename F>
  void run_range(int64_t items, int64_t grain, F&& f) {
    run((items + grain - 1) / grain, [&](int64_t task, int thread) {
      int64_t begin = task * grain;
      f(begin, begin + grain < items ? begin + grain : items, thread);
    });
  }

 private:
  using JobFn = void (*)(void* context, int64_t task, int thread);
  void run_job(int64_t tasks, JobFn function, void* context);
  void work(int thread);
  void share_out(int64_t tasks);
  void work_off(int thread);
  bool join(uint32_t epoch);
  uint64_t workers_inside() const { return state_.load(std::memory_order_acquire) & (kOpen - 1); }

  static constexpr uint64_t kOpen = 1u << 31;

  // Written by the leader while the job is closed and nobody is in it; read by workers that have joined.
  JobFn function_ = nullptr;
  void* context_ = nullptr;
  /// The tasks of one thread that nobody has taken: first << 32 | end.
  struct alignas(64) Range {
    std::atomic<uint64_t> tasks{0};
  };
  std::unique_ptr<Range[]> ranges_;  // [threads]
  // epoch << 32 | open << 31 | workers inside
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // what workers sleep on
  alignas(64) std::atomic<uint32_t> left_{0};   // counts workers that left a job; what the leader sleeps on
  std::atomic<bool> stop_{false};
  int spins_ = 0;
  int leader_cpu_ = -1;  // -1: nobody is pinned
  std::vector<std::thread> workers_;
};

}  // namespace llmd
