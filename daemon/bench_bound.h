// DecodeBound: the time that a decode run would have taken had nothing been lost between drive and processor.
//
//   sum over layers of  attention and router + max(reading the misses, shared expert + hits) + the last miss's compute
//
// and what is outside of expert layers (embedding, dense layers, output head). Reading time is bytes by the rate at
// which the drive answered in this very run. Filled by the thread that leads the steps.
#pragma once

#include <vector>

#include "model/moe_executor.h"

namespace llmd {

class DecodeBound {
 public:
  /// Room for so many runs of layers, so that nothing is allocated while the clock runs.
  void reserve(size_t runs, size_t layers) {
    runs_.reserve(runs);
    layers_.resize(layers);
  }
  /// A MoeExecutor::TimesFn; the context is the bound.
  static void add(void* bound, int32_t layer, const MoeTimes& times);

  /// Bytes per second while reads were queued, of the layers whose last read the leader waited for: when it did not
  /// wait, nobody knows when the read landed. 0: nothing was read.
  double read_rate() const;
  /// Of a run that took `seconds` in all.
  double seconds(double seconds) const;
  /// Summed over the steps, per layer.
  const std::vector<MoeTimes>& layers() const { return layers_; }

 private:
  std::vector<MoeTimes> runs_;  // of one layer of one step each
  std::vector<MoeTimes> layers_;
};

}  // namespace llmd
