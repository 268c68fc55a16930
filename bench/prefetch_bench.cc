// Decoding with and without guesses at the next layer's experts, on a drive of a fixed speed.
//
// A throttle of the kernel credits the time in which a drive is idle; a drive cannot. The one here serves one piece
// after the other, each at so many MiB/s (the first argument), and what it did not do while idle is lost. The second
// argument is --prefetch. LLMD_BENCH_MODEL, LLMD_BENCH_MEMORY (MiB) and LLMD_BENCH_TOKENS (a file of token ids) take
// another model than the demo's.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <mutex>
#include <thread>

#include "io/backend.h"
#include "model/generator.h"

namespace llmd {
namespace {

using Clock = std::chrono::steady_clock;

class PacedBackend final : public Backend {
 public:
  explicit PacedBackend(double bytes_per_second) : bytes_per_second_(bytes_per_second), drive_([this] { serve(); }) {}
  ~PacedBackend() override {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    drive_.join();
  }

  void start(const BackendRead& read) override {
    std::lock_guard lock(mutex_);
    queue_.push_back(read);
    changed_.notify_all();
  }
  size_t wait(std::span<BackendResult> results, int64_t timeout_ns) override {
    std::unique_lock lock(mutex_);
    auto ready = [&] { return woken_ || !done_.empty(); };
    if (timeout_ns < 0)
      answered_.wait(lock, ready);
    else
      answered_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), ready);
    woken_ = false;
    size_t count = 0;
    for (; count < results.size() && !done_.empty(); done_.pop_front()) results[count++] = done_.front();
    return count;
  }
  void wake() override {
    std::lock_guard lock(mutex_);
    woken_ = true;
    answered_.notify_all();
  }
  void close() override {}
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return name_; }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || !queue_.empty(); });
      if (stopped_) return;
      BackendRead read = queue_.front();
      queue_.pop_front();
      lock.unlock();
      Clock::time_point due = std::max(Clock::now(), free_at_) +
                              std::chrono::nanoseconds(static_cast<int64_t>(read.length * 1e9 / bytes_per_second_));
      ssize_t got = pread(read.fd, read.buffer, read.length, static_cast<off_t>(read.offset));
      std::this_thread::sleep_until(due);
      free_at_ = due;
      lock.lock();
      done_.push_back({read.tag, static_cast<int32_t>(got)});
      answered_.notify_all();
    }
  }

  const double bytes_per_second_;
  const std::string name_ = "paced";
  std::mutex mutex_;
  std::condition_variable changed_, answered_;  // for the drive, for the reader
  std::deque<BackendRead> queue_;
  std::deque<BackendResult> done_;
  bool woken_ = false, stopped_ = false;
  Clock::time_point free_at_{};  // the drive's own
  std::thread drive_;
};

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

std::vector<int32_t> tokens_of(int32_t vocab) {
  std::vector<int32_t> tokens;
  std::ifstream file(setting("LLMD_BENCH_TOKENS", ""));
  for (int32_t token = 0; file >> token;) tokens.push_back(token);
  for (uint32_t i = 0; tokens.size() < 200; i++) tokens.push_back(static_cast<int32_t>(i * 2654435761u >> 8) % vocab);
  return tokens;
}

void decode(benchmark::State& state) {
  Result<GgufModel> model = GgufModel::open(setting("LLMD_BENCH_MODEL", LLMD_SOURCE_DIR "/demo/llmd-demo.gguf"));
  if (!model.ok()) return state.SkipWithError(model.error().message.c_str());
  RuntimeOptions options;
  options.plan.memory_bytes = std::stoull(setting("LLMD_BENCH_MEMORY", "72")) << 20;
  options.plan.context_tokens = 1024;
  options.plan.threads = 2;
  options.prefetch = state.range(1) != 0;
  options.make_reader = [&](const ReaderOptions& reader) {
    return Reader::create_with_backend(reader,
                                       std::make_unique<PacedBackend>(static_cast<double>(state.range(0) << 20)));
  };
  Result<std::unique_ptr<Runtime>> runtime = Runtime::open(*model, options);
  Status loaded = runtime.ok() ? (*runtime)->load(nullptr) : Status(runtime.error());
  if (!loaded.ok()) return state.SkipWithError(loaded.error().message.c_str());
  std::vector<int32_t> tokens = tokens_of((*runtime)->shape().vocab);
  Generator generator(**runtime, 1000);
  size_t at = 0;
  auto next = [&] {
    return generator.decode(tokens[at++ % tokens.size()], [](int32_t, std::span<const float>) {}).ok();
  };
  while (at < 30) next();  // the pool fills
  for (auto _ : state)
    if (!next()) return state.SkipWithError("a step failed");
  ResidencyStatistics s = (*runtime)->residency()->statistics();
  double all = static_cast<double>(at);
  state.counters["MB_per_token"] = static_cast<double>(s.bytes_read + s.prefetch_bytes) / 1e6 / all;
  state.counters["wasted"] = static_cast<double>(s.guesses_wasted) / all;
  state.counters["useful"] = static_cast<double>(s.guesses_useful) / all;
}

BENCHMARK(decode)
    ->ArgsProduct({{64, 128, 256, 512, 1024}, {0, 1}})
    ->Iterations(100)
    ->Repetitions(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace llmd
