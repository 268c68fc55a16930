// Step: one forward pass over a batch of rows, layer by layer.
//
//   embed -> for each layer: norm -> attention -> add -> norm -> dense FFN or experts -> add
//         -> norm -> output head, for the rows that want logits
//
// Rows of one sequence stand together with ascending positions, and the sequence has room for them. The caller (the one
// leading thread) owns the sequences. Row results do not depend on the other rows. A row whose expert could not be
// read, or whose logits are not all finite numbers ("model_output_invalid"), gets its Error in row_errors and no
// logits; the others are unaffected. run() allocates nothing.
//
// A long prompt takes seconds a layer when its experts come from the drive. Such a pass can be run as a *sweep* that
// rests between layers: only its residual stream is kept, at the front of the buffers, and run() uses what is behind
// it. Prompts are swept, however short: what they use is not counted as use by decoding.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/architecture.h"
#include "model/core_weights.h"
#include "model/moe_executor.h"

namespace llmd {

class LogitsSink {
 public:
  virtual ~LogitsSink() = default;
  /// Logits [vocab] of rows[row]; valid during the call.
  virtual void on_logits(size_t row, std::span<const float> logits) = 0;
};

class Step {
 public:
  /// `threads` and `moe` may be null where only carve() is wanted; moe also for a model without experts.
  Step(Architecture& architecture, ThreadPool* threads, MoeExecutor* moe)
      : architecture_(&architecture), threads_(threads), moe_(moe) {}
  /// Lays out the buffers for batches of up to rows_max rows (a Carver without memory only counts them).
  void carve(Carver& carver, int32_t rows_max, int threads);
  void bind(const CoreWeights& weights);

  /// row_errors has one entry per row, all empty on entry.
  void run(std::span<const Row> rows, LogitsSink& sink, std::span<std::optional<Error>> row_errors);
  int32_t rows_max() const { return rows_max_; }

  /// Begins a sweep; one at a time. `rows` and `row_errors` (all empty) are its own until it has ended. Meanwhile run()
  /// takes at most rows_max() - rows.size() rows.
  void begin_sweep(std::span<const Row> rows, std::span<std::optional<Error>> row_errors);
  /// Runs the next layer; false when that was the last one.
  bool sweep_layer();
  /// Hands out the logits and ends the sweep, whose layers have all run.
  void end_sweep(LogitsSink& sink);
  /// Gives the sweep up, if there is one.
  void drop_sweep();
  bool sweeping() const { return !sweep_.rows.empty(); }
  /// Layers of the sweep that have run.
  int32_t sweep_layers() const { return sweep_.layer; }

 private:
  struct Pass {
    std::span<const Row> rows;
    std::span<std::optional<Error>> errors;
    float* hidden = nullptr;  // [rows, width], the residual stream
    ExpertUse use = ExpertUse::kDecode;
    int32_t layer = 0;  // the next one
  };
  /// Rows whose logits are computed at once.
  static constexpr int64_t kLogitsRows = 16;
  struct Layer {
    const float* attention_norm = nullptr;
    const float* ffn_norm = nullptr;
    Matrix gate, up, down;  // dense layers
    MoeLayerWeights moe;
  };

  void begin(Pass& pass);
  void layer(Pass& pass);
  void add(const float* from, int64_t rows, float* hidden);
  void norm(const float* weight, const float* hidden, int64_t rows);
  void output(const Pass& pass, LogitsSink& sink);

  Architecture* architecture_;
  ThreadPool* threads_;
  MoeExecutor* moe_;
  std::vector<Layer> layers_;
  Matrix embedding_, output_;
  const float* output_norm_ = nullptr;

  int32_t rows_max_ = 0;
  float* hidden_ = nullptr;    // [rows, width]: the sweep's residual stream, then that of the other rows
  ActivationBuffer normed_;    // [rows, width]
  float* sublayer_ = nullptr;  // [rows, width]: attention or FFN output
  float* logits_ = nullptr;    // [kLogitsRows, vocab]
  Ffn dense_;
  Pass sweep_;                      // no rows: there is none
  bool sweep_interrupted_ = false;  // the architecture was told of other rows since the sweep's last layer
  MoeBuffers moe_buffers_;
};

}  // namespace llmd
