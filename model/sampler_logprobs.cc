#include "model/sampler_logprobs.h"

#include <algorithm>

#include "io/check.h"
#include "model/sampler_math.h"

namespace llmd {

TokenLogprobs token_logprobs(std::span<const float> logits, int32_t chosen, int32_t top) {
  LLMD_CHECK(top >= 0 && top <= kTopLogprobsMax && static_cast<size_t>(chosen) < logits.size());
  const double log_sum = log_sum_exp(logits);
  TokenLogprobs out;
  out.chosen = {chosen, logits[static_cast<size_t>(chosen)] - log_sum};
  if (top == 0) return out;
  // A short list in order of likelihood: few logits of a row beat its last entry, and a later equal never does.
  std::array<Candidate, kTopLogprobsMax> best;
  size_t count = 0;
  const auto most = static_cast<size_t>(top);
  for (size_t i = 0; i < logits.size(); i++) {
    if (count == most && !(logits[i] > best[count - 1].logit)) continue;
    if (count < most) count++;
    size_t place = count - 1;
    for (; place > 0 && logits[i] > best[place - 1].logit; place--) best[place] = best[place - 1];
    best[place] = {logits[i], static_cast<int32_t>(i)};
  }
  for (size_t i = 0; i < count; i++) out.top[i] = {best[i].id, best[i].logit - log_sum};
  out.top_count = static_cast<int32_t>(count);
  return out;
}

}  // namespace llmd
