// Scheduler: the engine behind the API. One compute thread loads the model, then turns requests into steps.
//
// Each turn of the loop is one decode step for up to 16 running requests (one row each), then one layer of
// one chunk of a prompt (a sweep, model/step.h): a prompt delays others by one layer, not by its length;
// prompts and, beyond 16, decoders take turns. Rows are batch-invariant, so who shares a step changes nothing in
// anyone's answer. A request waits while KV pages for its prompt are not free. When a running one finds no page, the
// youngest is put back: its KV is dropped and later recomputed in the same forms, which gives the same bits.
//
// submit, cancel, status: any thread, never waiting for compute. start, drain, stop: the main thread. Every list is
// bounded. A model that cannot be loaded leaves phase kFailed and load_error().
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "api/engine.h"
#include "daemon/model_loader.h"
#include "daemon/options.h"

namespace llmd {

class Scheduler final : public Engine {
 public:
  static constexpr size_t kQueueMax = 64;
  static constexpr size_t kRunningMax = 64;

  explicit Scheduler(const Options& options);
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

  EngineStatus status() const override;
  const EngineInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return *model_.tokenizer; }
  Result<uint64_t> submit(GenerationRequest request, std::shared_ptr<GenerationSink> sink) override;
  void cancel(uint64_t id) override;

 private:
  struct Request;
  class RowSink;

  void run();
  Status load();
  void set_phase(EngineStatus::Phase phase, std::string detail, double progress);
  void admit();
  void take_cancelled();
  void decode_step();
  void prefill_layer();
  bool begin_chunk();
  void end_chunk();
  void step(std::span<Request* const> requests);
  void hand_out(std::span<const Row> rows, std::span<const std::optional<Error>> errors,
                std::span<Request* const> requests);
  bool make_room(Request& request, int32_t tokens);
  void put_back(Request& request);
  void accept_token(Request& request, int32_t token);
  void finish(Request& request, FinishReason reason);
  void fail(Request& request, const Error& error);
  void remove_ended();
  void drop_sweep_of(const Request& request);
  void care_for_pool();
  void save_heat();

  const Options options_;
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
  bool output_invalid_ = false;  // for good: what can heal is the drive
  size_t running_count_ = 0;

  // The compute thread's own.
  std::list<std::unique_ptr<Request>> running_;
  std::vector<Request*> batch_;
  std::vector<Row> rows_;
  std::vector<std::optional<Error>> row_errors_;
  Request* swept_ = nullptr;  // whose chunk the sweep computes; null: there is no sweep
  std::vector<Row> sweep_rows_;
  std::vector<std::optional<Error>> sweep_errors_;
  double sweep_reported_at_ = 0;
  std::chrono::milliseconds care_pause_{0};  // when idle, until the pool is looked after again
  double heat_saved_at_ = 0;
};

}  // namespace llmd
