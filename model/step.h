// Step: one forward pass over a batch of rows, layer by layer.
//
//   embed -> for each layer: norm -> attention -> add -> norm -> dense FFN or experts -> add
//         -> norm -> output head, for the rows that want logits
//
// Rows of one sequence stand together with ascending positions, and the sequence has room for them. The caller (the one
// leading thread) owns the sequences. Row results do not depend on the other rows. A row whose expert could not be
// read, or whose logits are not all finite numbers ("model_output_invalid"), gets its Error in row_errors and no
// logits; the others are unaffected. run() allocates nothing.
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

 private:
  /// Rows whose logits are computed at once.
  static constexpr int64_t kLogitsRows = 16;
  struct Layer {
    const float* attention_norm = nullptr;
    const float* ffn_norm = nullptr;
    Matrix gate, up, down;  // dense layers
    MoeLayerWeights moe;
  };

  void embed(std::span<const Row> rows);
  void norm(const float* weight, int64_t rows);
  void layer(int32_t index, std::span<const Row> rows, std::span<std::optional<Error>> row_errors);
  void output(std::span<const Row> rows, LogitsSink& sink, std::span<std::optional<Error>> row_errors);

  Architecture* architecture_;
  ThreadPool* threads_;
  MoeExecutor* moe_;
  std::vector<Layer> layers_;
  Matrix embedding_, output_;
  const float* output_norm_ = nullptr;

  int32_t rows_max_ = 0;
  float* hidden_ = nullptr;    // [rows, width], the residual stream
  ActivationBuffer normed_;    // [rows, width]
  float* sublayer_ = nullptr;  // [rows, width]: attention or FFN output
  float* logits_ = nullptr;    // [kLogitsRows, vocab]
  Ffn dense_;
  MoeBuffers moe_buffers_;
};

}  // namespace llmd
