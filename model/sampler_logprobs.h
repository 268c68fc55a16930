// Log-probabilities of a token and of the likeliest ones, for replies that show them.
//
// They are natural logarithms of the model's own distribution, before any bias, penalty, filter or temperature, over
// the whole vocabulary in double. Pure, without allocation; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace llmd {

inline constexpr int32_t kTopLogprobsMax = 20;

struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;
};

struct TokenLogprobs {
  TokenLogprob chosen;
  std::array<TokenLogprob, kTopLogprobsMax> top;  // the likeliest first, of equal ones the lower id
  int32_t top_count = 0;
};

/// `top`: how many of the likeliest, 0 to kTopLogprobsMax; fewer when the vocabulary is smaller. Logits are finite.
TokenLogprobs token_logprobs(std::span<const float> logits, int32_t chosen, int32_t top);

}  // namespace llmd
