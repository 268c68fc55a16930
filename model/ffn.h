// Ffn: down(silu(gate x) * up x) for one or several weight sets at once, over all threads.
//
// A job is one weight set (a dense FFN, the shared expert, one routed expert) with the rows that go through it. Jobs of
// one run() share the parallel regions, so that eight small experts do not pay eight barriers. Outputs of a row do not
// depend on the other jobs or rows. Buffers are carved once for the most (job, row) pairs of a run.
#pragma once

#include <cstdint>
#include <span>

#include "model/activation_buffer.h"

namespace llmd {

struct FfnJob {
  Matrix gate, up, down;
  const uint32_t* x_rows = nullptr;  // input rows; null: 0..count-1
  int64_t count = 0;                 // how many rows
  int64_t first_pair = 0;            // where its outputs go: out rows [first_pair, first_pair + count)
};

class Ffn {
 public:
  /// `width` of inputs and outputs, `ff` of the hidden layer, at most `pairs_max` rows over all jobs of a run.
  void carve(Carver& carver, int64_t pairs_max, int64_t width, int64_t ff);
  /// out[pair, width] for every pair of every job; x must be quantized.
  void run(std::span<const FfnJob> jobs, const ActivationBuffer& x, float* out, ThreadPool& threads);
  int64_t pairs_max() const { return pairs_max_; }

 private:
  int64_t pairs_max_ = 0, width_ = 0, ff_ = 0;
  ActivationBuffer hidden_;  // [pairs, ff]: gate, then silu(gate) * up
  float* up_ = nullptr;      // [pairs, ff]
};

}  // namespace llmd
