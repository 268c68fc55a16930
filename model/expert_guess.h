// ExpertGuess: which experts the next layer will want, before its turn.
//
// The residual stream changes little from one layer to the next. So the next layer's router is asked at once, of the
// rows as they are when this layer has attended and its shared expert is in; only the routed experts are missing:
//
//     guess(l + 1) = router(l + 1) of norm(l + 1) of (hidden + shared expert)
//
// It costs a router's product for each layer and nothing where every expert of the next layer is there. A guess decides
// only what is read early (Residency::prefetch), never what is computed. Thread: the one that leads the step. Nothing
// is allocated after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/activation_buffer.h"
#include "model/residency.h"

namespace llmd {

/// The layer after the one that runs.
struct NextMoeLayer {
  int32_t layer = -1;           // -1: it has no experts, or there is none
  const float* norm = nullptr;  // [width] its ffn_norm
  Matrix router;                // [experts, width]
  const float* bias = nullptr;  // [experts] or null
};

/// How well that went, over the layers that were guessed; counted only where some of the experts were not there.
struct GuessCounts {
  uint64_t predicted = 0, routed = 0, right = 0;  // experts: predicted, wanted, both
  uint64_t missing = 0, missing_right = 0;        // wanted and not there when guessed; of those, predicted
};

/// Working memory for up to rows_max rows, carved once.
struct GuessBuffers {
  ActivationBuffer rows;     // [rows, width]
  float* logits = nullptr;   // [rows, experts]
  float* scratch = nullptr;  // [2 * experts]
  float* weights = nullptr;  // [used]
  int32_t* ids = nullptr;    // [used]
  void carve(Carver& carver, const ModelShape& shape, int64_t rows_max);
};

class ExpertGuess {
 public:
  explicit ExpertGuess(const ModelShape& shape);

  /// The experts of the next layer that `rows` rows may want, the likeliest first; empty when all of that layer are
  /// there. hidden and shared: [rows, width]. Rows with an error are left out.
  std::span<const int32_t> predict(const NextMoeLayer& next, int64_t rows, const float* hidden, const float* shared,
                                   std::span<const std::optional<Error>> row_errors, const Residency& residency,
                                   GuessBuffers& buffers, ThreadPool& threads);
  /// What `layer` wants, now that it is routed: counted if the last prediction was about it, which is then done with.
  void begin_layer(int32_t layer) {
    counting_ = predicted_layer_ == layer;
    predicted_layer_ = -1;
  }
  void wanted(int32_t expert);
  const GuessCounts& counts() const { return counts_; }

 private:
  struct Mark {
    bool missing = false, predicted = false;
    float weight = 0;  // summed over the rows
  };

  bool mark_missing(int32_t layer, const Residency& residency);

  ModelShape shape_;
  int32_t predicted_layer_ = -1;  // -1: none
  bool counting_ = false;
  std::vector<Mark> marks_;         // per expert
  std::vector<int32_t> predicted_;  // the likeliest first
  GuessCounts counts_;
};

}  // namespace llmd
