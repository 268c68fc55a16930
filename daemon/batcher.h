// Batcher: the requests that run, and how they share steps. The compute thread's own.
//
// Each turn is one decode step for up to 16 running requests (one row each), then one layer of one chunk of a prompt
// (a sweep, model/step.h): a prompt delays others by one layer, not by its length, and while anyone decodes its reads
// have only one matrix of an expert with the drive; prompts and, beyond 16, decoders
// take turns by rank (priority and waiting). Rows are batch-invariant, so who shares a step changes nothing in anyone's
// answer.
// Several answers to one prompt are one request until its first logits, from which each draws its own first token; from
// there on they run side by side on shared pages.
//
// What is computed goes into the prefix tree (kv/prefix_tree.h) and the store (kv/kv_store.h), if there is one, after
// every chunk and at the end, also of a request that was cancelled. A prompt is looked up there just before its first
// chunk; it waits while the store brings pages, and while another is computing what both begin with. When a running
// request finds no KV page, not even an idle one of the tree's, the youngest is put back: its KV is left to the tree
// and what is gone of it is later computed in the same forms, which gives the same bits. Lists are bounded by
// kRunningMax and the rows of a step; sinks hear of everything that ends here.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/model_loader.h"
#include "daemon/request.h"

namespace llmd {

/// What the turns so far were made of.
struct BatchCounters {
  uint64_t decode_steps = 0, decode_rows = 0;
  uint64_t sweep_layers = 0;          // layers of prompts
  uint64_t layers_between_steps = 0;  // the most that ran while someone who was decoding waited
  uint64_t prompt_tokens = 0, cached_tokens = 0;
  uint64_t put_back = 0;
};

struct KvPages {
  uint32_t total = 0, free = 0;
  uint32_t idle = 0;  // the prefix tree's alone
};

class Batcher {
 public:
  static constexpr size_t kRunningMax = 64;

  /// `model` is loaded; it and `store`, which may be null, outlive the batcher.
  Batcher(const LoadedModel& model, KvStore* store);
  ~Batcher();

  size_t running() const;
  /// Whether a turn would do anything; false: nothing runs, or all wait for the store.
  bool busy() const;
  /// Takes the request over if all its answers may run now; else leaves it where it is and returns false.
  bool admit(std::unique_ptr<Request>& request);
  /// One decode step, then one layer of a prompt.
  void turn();
  /// Drops what runs of these generations, with its KV; their sinks hear nothing more.
  void cancel(std::span<const uint64_t> generations);
  /// Ends everything with this error.
  void end_all(const Error& error);
  /// Whether a request has ever failed because the model's output was not a number.
  bool output_invalid() const { return output_invalid_; }
  const BatchCounters& counters() const { return counters_; }
  KvPages kv_pages() const;

 private:
  class RowSink;

  void decode_step();
  void prefill_layer();
  bool anyone_decodes() const;
  bool begin_chunk();
  bool can_begin(Request& request);
  bool waits_for_another(const Request& request) const;
  bool look_up(Request& request);
  bool begin_load(Request& request);
  void end_load(Request& request);
  void take_over(Request& request);
  void remember(const Request& request);
  void drop_load(Request& request);
  void end_chunk();
  void step(std::span<Request* const> requests);
  void prepare(Request& request);
  void fork(Request& request);
  void hand_out(std::span<const Row> rows, std::span<const std::optional<Error>> errors,
                std::span<Request* const> requests);
  bool make_room(Request& request, int32_t tokens);
  bool put_back_younger(const Request& request);
  void put_back(Request& request);
  void accept_token(Request& request, int32_t token);
  void finish(Request& request, FinishReason reason);
  void fail(Request& request, const Error& error);
  void remove_ended();
  void drop_sweep_of(const Request& request);

  Runtime& runtime_;
  const Tokenizer& tokenizer_;
  KvStore* store_;
  const int32_t context_tokens_;
  std::vector<int32_t> end_ids_;  // of the model: what ends a generation
  SamplerWorkspace sampler_workspace_;
  bool output_invalid_ = false;
  BatchCounters counters_;
  uint64_t layers_since_step_ = 0;

  std::list<std::unique_ptr<Request>> running_;
  std::vector<Request*> batch_, candidates_;
  std::vector<Row> rows_;
  std::vector<std::optional<Error>> row_errors_;
  std::vector<uint8_t> found_forms_;
  Request* swept_ = nullptr;  // whose chunk the sweep computes; null: there is no sweep
  std::vector<Row> sweep_rows_;
  std::vector<std::optional<Error>> sweep_errors_;
  double sweep_reported_at_ = 0;
};

}  // namespace llmd
