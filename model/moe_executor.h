// MoeExecutor: one mixture-of-experts layer, computed while its missing experts are read.
//
// The defined sum. For every row, whatever is resident and in whatever order reads land:
//     acc = shared(x);  for each of 8 equal ranges of expert ids: partial = 0;
//                           for the row's ids in the range, ascending: partial += weight * expert(x);  acc += partial
// Two ways to get there, same bits:
//   step   (few rows)  outputs of all (row, expert) pairs are kept, hits computed while misses fly, each miss when its
//                      matrices land, then summed in the defined order. More experts than slots: in waves, by id.
//   sweep  (many rows) experts in id order, read a few ahead; the partial sums are kept, not the pairs. Where a layer
//   has
//                      touched nearly all its experts the next one will too: its first are read before it is routed,
//                      while attention computes.
// While decoding, and with prefetch on, what the next layer may want is read in idle time of the drive
// (model/expert_guess.h).
//
// A read error fails the rows that need that expert (row_errors) and no others. Thread: the one that leads the step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/activation_buffer.h"
#include "model/expert_guess.h"
#include "model/ffn.h"
#include "model/residency.h"

namespace llmd {

struct MoeLayerWeights {
  Matrix router;                               // [experts, width] F32
  const float* bias = nullptr;                 // [experts] or null
  Matrix shared_gate, shared_up, shared_down;  // empty: no shared expert
};

/// Where time went, of one run of a layer or summed over many.
struct MoeTimes {
  double outside_seconds = 0;    // since the expert layer before: attention, norms, dense layers, output head
  double router_seconds = 0;     // router and grouping
  double resident_seconds = 0;   // shared expert and experts that were here already
  double miss_seconds = 0;       // experts that had to be read
  double last_miss_seconds = 0;  // of those, the one that landed last
  double wait_seconds = 0;       // the leader had nothing to compute
  double handoff_seconds = 0;    // the rest: bookkeeping, queueing reads, waking up, adding up
  double read_seconds = 0;       // from queueing the reads to the last one's landing, where the leader waited for it
  uint64_t read_bytes = 0;       // of the same reads
  uint64_t miss_bytes = 0;       // of all reads

  double compute_seconds() const { return resident_seconds + miss_seconds; }
  void add(const MoeTimes& other);
};

/// The executor's working memory, carved once for steps of up to rows_max rows.
struct MoeBuffers {
  float* logits = nullptr;        // [rows, experts]
  float* scratch = nullptr;       // [rows, 2 * experts]
  int32_t* ids = nullptr;         // [rows, used], ascending per row
  float* weights = nullptr;       // [rows, used]
  float* acc = nullptr;           // [rows, width]
  float* partial = nullptr;       // [rows, width]
  float* outputs = nullptr;       // [pairs, width]
  uint32_t* pair_rows = nullptr;  // [rows * used] grouped by expert
  float* pair_weights = nullptr;  // [rows * used] in the same order
  uint32_t* pair_of = nullptr;    // [rows, used] index of a row's i-th pair in that order
  Ffn shared, experts;
  GuessBuffers guess;
};

class MoeExecutor {
 public:
  /// Rows up to which outputs per (row, expert) are kept.
  static constexpr int64_t kStepRows = 16;
  /// Called after routing with (context, layer, ids of all rows, how many ids): for routing traces.
  using TraceFn = void (*)(void* context, int32_t layer, const int32_t* ids, int64_t count);
  /// Called after each run of a layer with (context, layer, its times).
  using TimesFn = void (*)(void* context, int32_t layer, const MoeTimes& times);

  MoeExecutor(const ModelShape& shape, Residency& residency, ThreadPool& threads);
  static void carve(Carver& carver, const ModelShape& shape, int64_t rows_max, MoeBuffers& buffers);
  void set_buffers(const MoeBuffers& buffers) { buffers_ = buffers; }

  /// hidden[rows, width] += the layer's output for normed, quantized inputs x. Rows whose row_errors entry is set are
  /// left out. `use`: kDecode, or kSweep for rows of a prompt, which must not change what decoding keeps.
  void run(int32_t layer, const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x, float* hidden,
           std::span<std::optional<Error>> row_errors, ExpertUse use, const NextMoeLayer& next);
  /// Whether experts of the next layer are read on a guess while decoding (off at first).
  void set_prefetch(bool on) { prefetch_ = on; }
  const GuessCounts& guesses() const { return guess_.counts(); }
  /// A sweep of so many rows begins: by even chances it touches this share of each layer's experts.
  void expect_rows(int64_t rows);
  /// After a sweep of the layer before, or expect_rows(): reads what a sweep of this layer will want first, if nearly
  /// everything will be.
  void read_ahead(int32_t layer);
  /// Lets go of what read_ahead() holds.
  void drop_ahead();
  /// Summed since the start, per layer.
  std::span<const MoeTimes> layer_times() const { return layer_times_; }
  /// Summed over the layers.
  MoeTimes times() const;
  void set_times(TimesFn function, void* context) {
    times_fn_ = function;
    times_context_ = context;
  }
  void set_trace(TraceFn trace, void* context) {
    trace_ = trace;
    trace_context_ = context;
  }

 private:
  /// One distinct expert of the layer and its pairs [first, first + count).
  struct Group {
    int32_t expert = 0;
    int64_t first = 0, count = 0;
    ExpertSlot* slot = nullptr;
    bool miss = false, done = false;
  };

  void route_rows(const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x);
  void group_pairs(int32_t layer, int64_t rows, std::span<std::optional<Error>> row_errors);
  void run_shared(const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x);
  void refuse_bad(std::span<std::optional<Error>> row_errors);
  bool acquire(Group& group);

  void run_step(const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x, const float* hidden,
                std::span<std::optional<Error>> row_errors, const NextMoeLayer& next);
  void read_guess(const NextMoeLayer& next, int64_t rows, const float* hidden,
                  std::span<const std::optional<Error>> row_errors);
  int64_t run_ready(const ActivationBuffer& x, std::span<std::optional<Error>> row_errors);
  void count_ready(int64_t hits, int64_t misses, double seconds);
  void wait_for_reads(uint32_t seen);
  int64_t fail_overdue(std::span<std::optional<Error>> row_errors);
  bool wait_for_slot(std::span<std::optional<Error>> row_errors);
  void combine(int64_t rows, std::span<std::optional<Error>> row_errors);

  void run_sweep(const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x,
                 std::span<std::optional<Error>> row_errors);
  int64_t sweep_ahead(int32_t layer) const;
  void take_ahead();
  void sweep_group(Group& group, const ActivationBuffer& x, std::span<std::optional<Error>> row_errors);
  void flush_partials(int64_t rows);
  /// The range (of 8) that an expert id belongs to.
  int32_t range_of(int32_t expert) const;
  void fail_rows(const Group& group, const Error& error, std::span<std::optional<Error>> row_errors);

  ModelShape shape_;
  Residency* residency_;
  ThreadPool* threads_;
  MoeBuffers buffers_;
  std::vector<Group> groups_;
  std::vector<ExpertSlot*> ahead_;  // of layer ahead_layer_, experts ascending
  int32_t ahead_layer_ = -1;
  bool prefetch_ = false;
  ExpertGuess guess_;
  double touched_share_ = 0;  // of a layer's experts: expected, then as the sweep's last layer had it
  std::vector<FfnJob> jobs_;
  std::vector<int64_t> counts_;
  int32_t layer_ = 0;
  ExpertUse use_ = ExpertUse::kDecode;  // of the layer that runs
  MoeTimes now_;                        // of the layer that runs
  double reads_begin_ = 0, ended_ = 0;  // when its first reads were queued; when the layer before ended
  bool waited_ = false;                 // the leader has waited since it computed last
  std::vector<MoeTimes> layer_times_;
  TimesFn times_fn_ = nullptr;
  void* times_context_ = nullptr;
  TraceFn trace_ = nullptr;
  void* trace_context_ = nullptr;
};

}  // namespace llmd
