// What a barrier of the compute threads costs: a job of one empty task for each thread, from start to everyone done.
//
// A token of a 60-layer model runs some hundred such jobs. Warm: jobs follow each other and workers spin. Cold: the
// pool slept before, as it does after a wait for the drive. The argument is the number of threads.
#include <benchmark/benchmark.h>

#include <chrono>
#include <thread>

#include "model/processors.h"
#include "model/thread_pool.h"

namespace llmd {
namespace {

void bm_job_warm(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) pool.run(pool.threads(), [](int64_t task, int) { benchmark::DoNotOptimize(task); });
}

void bm_job_cold(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto begin = std::chrono::steady_clock::now();
    pool.run(pool.threads(), [](int64_t task, int) { benchmark::DoNotOptimize(task); });
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
}

void thread_counts(benchmark::internal::Benchmark* bench) {
  int cores = allowed_processors().cores;
  for (int threads = 1; threads < cores; threads *= 2) bench->Arg(threads);
  bench->Arg(cores)->Arg(2 * cores);  // the last: more threads than cores
}
BENCHMARK(bm_job_warm)->Apply(thread_counts)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(bm_job_cold)->Apply(thread_counts)->UseManualTime()->Iterations(200)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace llmd
