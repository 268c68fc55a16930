// Sampler: one token from one row of logits. Deterministic for a seed; allocates only in its constructor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llmd {

struct SamplingParams {
  float temperature = 1.0f;  // 0: the largest logit (lowest id on a tie)
  float top_p = 1.0f;        // (0, 1]
  int32_t top_k = 0;         // 0: off
  float min_p = 0.0f;        // [0, 1)
  uint64_t seed = 0;
};

class Sampler {
 public:
  Sampler(const SamplingParams& params, int32_t vocab_size);
  /// logits: [vocab]. Order: top_k, min_p, top_p on the temperature-1 distribution, then temperature, then the draw.
  int32_t sample(std::span<const float> logits);

 private:
  struct Candidate {
    int32_t id;
    float logit;
    float probability;
  };
  double next_uniform();
  SamplingParams params_;
  uint64_t state_[4];
  std::vector<Candidate> candidates_;
};

}  // namespace llmd
