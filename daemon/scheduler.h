// Scheduler: the engine behind the API. One compute thread loads the model, then turns requests into steps.
//
// It looks after the queue, the model's phases and the pool; what runs, and in which steps, is the batcher's
// (daemon/batcher.h). A request waits while KV pages for its prompt are not free.
//
// submit, cancel, status: any thread, never waiting for compute. start, drain, stop: the main thread. Every list is
// bounded. A model that cannot be loaded leaves phase kFailed and load_error().
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "api/engine.h"
#include "daemon/batcher.h"
#include "daemon/model_loader.h"
#include "daemon/options.h"

namespace llmd {

class Scheduler final : public Engine {
 public:
  static constexpr size_t kQueueMax = 64;

  explicit Scheduler(const Options& options, ReaderMaker make_reader = {});
  ~Scheduler() override;

  /// Starts the compute thread, which loads the model first.
  void start();
  std::optional<Error> load_error() const;
  /// No new requests; those waiting are turned away, those running go on.
  void begin_drain();
  /// True when nothing runs.
  bool idle() const;
  /// Ends what still runs with an error and joins the thread.
  void stop();

  BatchCounters counters() const;
  /// As they were within the last second, or since nothing has run.
  KvPages kv_pages() const;
  /// Of the store on disk, likewise; all zero where there is none.
  KvStoreStatistics kv_store() const;

  EngineStatus status() const override;
  const EngineInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return *model_.tokenizer; }
  Result<uint64_t> submit(GenerationRequest request, std::vector<std::shared_ptr<GenerationSink>> sinks) override;
  void cancel(uint64_t id) override;

 private:
  void run();
  Status load();
  Status open_store();
  void set_phase(EngineStatus::Phase phase, std::string detail, double progress);
  void admit();
  void take_cancelled();
  void care_for_pool();
  void publish_counters();
  void save_heat();

  const Options options_;
  const ReaderMaker make_reader_;
  LoadedModel model_;
  EngineInfo info_;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards what follows, up to the next blank line
  std::condition_variable wake_;
  EngineStatus status_;
  std::optional<Error> load_error_;
  std::deque<std::unique_ptr<Request>> waiting_;
  std::vector<uint64_t> cancelled_;
  uint64_t next_id_ = 1;
  bool draining_ = false, stopping_ = false;
  size_t running_count_ = 0;
  BatchCounters counters_;
  KvPages kv_pages_;
  KvStoreStatistics kv_store_;

  // The compute thread's own.
  std::unique_ptr<KvStore> store_;           // null: conversations are not kept
  std::unique_ptr<Batcher> batcher_;         // once the model is loaded
  std::chrono::milliseconds care_pause_{0};  // when idle, until the pool is looked after again
  double heat_saved_at_ = 0, pages_counted_at_ = 0;
};

}  // namespace llmd
