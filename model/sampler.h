// Sampler: one token from one row of logits, as a request wants it.
//
// The order is the one llama.cpp documents (docs/SAMPLING.md):
//
//   logit_bias -> penalties -> end tokens forbidden -> top_k -> typical_p -> top_p -> min_p -> temperature -> draw
//
// Every filter looks for the last candidate it keeps and leaves the rest of the list as it stands, in ascending ids;
// nothing is ever sorted but a handful of candidates at a boundary. The state is the random generator's alone: what a
// penalty counts is read from the request's tokens, so a token depends on the seed, the logits and the tokens, not on
// neighbours and not on whether a request was put back in between.
//
// Used by the thread that leads the steps. Allocates only in its constructor; the workspace is shared by the samplers
// of one thread and outlives them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/sampler_math.h"

namespace llmd {

/// Added to a token's logit; -infinity forbids it.
struct TokenBias {
  int32_t id = 0;
  float bias = 0;
};

struct SamplingParams {
  float temperature = 0.8f;  // 0: the largest logit (lowest id on a tie), whatever the filters say
  int32_t top_k = 40;        // at most 0: off
  float typical_p = 1.0f;    // 1: off
  float top_p = 0.95f;       // 1: off
  float min_p = 0.05f;       // 0: off
  float repeat_penalty = 1.0f;
  float presence_penalty = 0.0f, frequency_penalty = 0.0f;
  int32_t repeat_last_n = 64;  // how many of the last tokens the penalties see; 0: none, -1: all
  uint64_t seed = 0;
  std::vector<TokenBias> logit_bias;
  std::vector<int32_t> stop_token_ids;  // end the answer, as the model's own end tokens do
  int32_t min_tokens = 0;               // no end before that many tokens
  bool ignore_eos = false;              // the model's end tokens never come
};

/// Room for the lists of one vocabulary.
class SamplerWorkspace {
 public:
  explicit SamplerWorkspace(int32_t vocab_size);
  static uint64_t bytes(uint64_t vocab_size) {
    return vocab_size * (sizeof(float) + sizeof(int32_t) + 2 * sizeof(Candidate) + sizeof(double) + sizeof(Weighted));
  }

 private:
  friend class Sampler;
  std::vector<float> row;         // the logits as adjusted
  std::vector<int32_t> counts;    // of each token among those the penalties see; all 0 between two calls
  std::vector<Candidate> kept;    // ascending ids
  std::vector<Candidate> chosen;  // by top_k, in no order
  std::vector<double> weights;    // of `kept`
  std::vector<Weighted> boundary;
};

class Sampler {
 public:
  /// `end_ids`: the model's end tokens. They and the workspace outlive the sampler.
  Sampler(const SamplingParams& params, std::span<const int32_t> end_ids, SamplerWorkspace& workspace);

  /// `tokens`: the prompt and what was generated, of which `generated` tokens at the end.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> tokens, int32_t generated);
  /// Whether a token ends the answer.
  bool ends(int32_t token) const;
  /// What the last sample() drew from (ascending ids); nothing at temperature 0. Valid until the workspace's next use.
  std::span<const Candidate> kept() const { return workspace_->kept; }

 private:
  std::span<const float> adjust(std::span<const float> logits, std::span<const int32_t> tokens, int32_t generated);
  void penalise(std::span<float> row, std::span<const int32_t> tokens);
  void take_top_k(std::span<const float> row);
  void take_typical_p();
  void take_top_p();
  void take_min_p();
  template <typename Keep>
  void keep_if(Keep keep);
  template <typename KeyOf>
  void keep_share(double share, KeyOf key_of);
  double largest_kept() const;
  int32_t draw();
  double next_uniform();

  SamplingParams params_;
  std::span<const int32_t> end_ids_;
  SamplerWorkspace* workspace_;
  double largest_ = 0;  // the largest logit of the row as adjusted
  uint64_t state_[4];
};

}  // namespace llmd
