#include "model/sampler.h"

#include <algorithm>
#include <cmath>

#include "io/check.h"

namespace llmd {
namespace {

// splitmix64: spreads a small seed over the generator's state.
uint64_t mix(uint64_t& seed) {
  uint64_t z = (seed += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t rotate(uint64_t x, int by) {
  return (x << by) | (x >> (64 - by));
}

}  // namespace

Sampler::Sampler(const SamplingParams& params, int32_t vocab_size) : params_(params) {
  uint64_t seed = params.seed;
  for (uint64_t& word : state_) word = mix(seed);
  if (params.temperature > 0) candidates_.reserve(static_cast<size_t>(vocab_size));
}

// xoshiro256**, top 53 bits as a double in [0, 1).
double Sampler::next_uniform() {
  uint64_t result = rotate(state_[1] * 5, 7) * 9, t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate(state_[3], 45);
  return static_cast<double>(result >> 11) * 0x1.0p-53;
}

int32_t Sampler::sample(std::span<const float> logits) {
  LLMD_CHECK(!logits.empty());
  auto largest = std::max_element(logits.begin(), logits.end());
  if (params_.temperature <= 0) return static_cast<int32_t>(largest - logits.begin());

  // Probabilities at temperature 1; what min_p cannot keep never enters the list.
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) - *largest);
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); i++) {
    double relative = std::exp(static_cast<double>(logits[i]) - *largest);
    if (relative < params_.min_p) continue;
    candidates_.push_back({static_cast<int32_t>(i), logits[i], static_cast<float>(relative / sum)});
  }
  auto better = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  };
  if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + params_.top_k, candidates_.end(), better);
    candidates_.resize(static_cast<size_t>(params_.top_k));
  }
  if (params_.top_p < 1) {
    std::sort(candidates_.begin(), candidates_.end(), better);
    double kept = 0, all = 0;
    for (const Candidate& c : candidates_) all += c.probability;
    size_t count = 0;
    while (count < candidates_.size() && (count == 0 || kept < params_.top_p * all))
      kept += candidates_[count++].probability;
    candidates_.resize(count);
  }

  double total = 0;
  for (Candidate& c : candidates_) {
    c.probability = std::exp((c.logit - *largest) / params_.temperature);
    total += c.probability;
  }
  double point = next_uniform() * total;
  for (const Candidate& c : candidates_) {
    point -= c.probability;
    if (point < 0) return c.id;
  }
  return candidates_.back().id;
}

}  // namespace llmd
