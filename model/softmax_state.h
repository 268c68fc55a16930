// SoftmaxState: the running softmax of one (row, head) over blocks of context.
//
// Each block is computed alone (its largest score, the sum of its numerators, its weighted sum of values) and merged in
// block order; this is the one place where the order of attention sums is defined. Plain data; the owner's thread only.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "model/kernels/kernels.h"

namespace llmd {

struct SoftmaxState {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;

  /// Merges one block into out[n]; the first block of a row must find max == -inf.
  void merge(float block_max, float block_sum, const float* block_out, float* out, int64_t n) {
    if (max == -std::numeric_limits<float>::infinity()) {
      max = block_max;
      sum = block_sum;
      for (int64_t i = 0; i < n; i++) out[i] = block_out[i];
      return;
    }
    float top = max > block_max ? max : block_max;
    float keep = std::exp(max - top), add = std::exp(block_max - top);
    max = top;
    sum = sum * keep + block_sum * add;
    kernels().blend(add, block_out, keep, n, out);
  }

  /// Divides by the sum: out[n] becomes the softmax-weighted mean.
  void finish(float* out, int64_t n) const {
    float inverse = 1.0f / sum;
    for (int64_t i = 0; i < n; i++) out[i] *= inverse;
  }
};

}  // namespace llmd
