#include "daemon/speed_model.h"

#include <algorithm>
#include <cmath>

namespace llmd {
namespace {

/// Of a pool that holds this share of all experts.
double miss_rate(double share) {
  return std::exp(-5.6 * std::pow(share, 0.87));
}

/// One layer of experts: the shared expert and the hits compute while the misses are read, the last miss after that.
/// The number of misses is taken as binomial.
double layer_seconds(const SpeedInputs& in) {
  const double miss_rate = 1 - in.hit_rate,
               latency = std::max(0.0, in.lone_seconds - in.expert_bytes / in.bytes_per_second);
  double probability = std::pow(in.hit_rate, in.used), seconds = 0;  // of 0 misses
  for (int32_t misses = 0; misses <= in.used; misses++) {
    double read = misses == 0 ? 0 : latency + misses * in.expert_bytes / in.bytes_per_second;
    double beside = in.shared_seconds + (in.used - std::min(misses, 1)) * in.expert_seconds;
    seconds += probability * (std::max(read, beside) + (misses > 0 ? in.expert_seconds : 0));
    if (in.hit_rate <= 0) {
      probability = misses + 1 == in.used ? 1 : 0;
    } else {
      probability *= static_cast<double>(in.used - misses) / (misses + 1) * miss_rate / in.hit_rate;
    }
  }
  return seconds;
}

}  // namespace

double expected_hit_rate(uint64_t resident, uint64_t experts) {
  return resident >= experts ? 1 : 1 - miss_rate(static_cast<double>(resident) / static_cast<double>(experts));
}

double expected_touched_share(int32_t tokens, int32_t used, int32_t experts) {
  if (experts <= 0) return 0;
  constexpr int32_t kStepsPerToken = 4;
  double share = 0, step = static_cast<double>(used) / experts / kStepsPerToken;
  for (int32_t i = 0; i < tokens * kStepsPerToken && share < 1; i++) share += step * miss_rate(share);
  return std::min(share, 1.0);
}

SpeedEstimate estimate_speed(const SpeedInputs& in, int32_t prompt_tokens) {
  SpeedEstimate estimate;
  double token_bytes = in.moe_layers * in.used * in.expert_bytes;
  double misses = 1 - in.hit_rate;
  bool reads = in.moe_layers > 0 && in.bytes_per_second > 0;
  estimate.decode_seconds = in.other_seconds;
  if (in.moe_layers > 0) {
    estimate.decode_seconds +=
        reads ? in.moe_layers * layer_seconds(in) : in.moe_layers * (in.shared_seconds + in.used * in.expert_seconds);
  }
  if (reads) estimate.decode_drive_seconds = misses * token_bytes / in.bytes_per_second;

  double all_bytes = static_cast<double>(in.moe_layers) * in.experts * in.expert_bytes;
  double resident = 0;  // what earlier chunks have left in the pool
  for (int32_t left = prompt_tokens; left > 0 && in.chunk_tokens > 0; left -= in.chunk_tokens) {
    int32_t tokens = std::min(left, in.chunk_tokens);
    double touched = expected_touched_share(tokens, in.used, in.experts);
    double read = reads ? touched * (1 - resident) * all_bytes / in.bytes_per_second : 0;
    double compute = in.chunk_seconds * tokens / in.chunk_tokens;
    estimate.prefill_seconds += std::max(read, compute);
    estimate.prefill_drive_seconds += read;
    resident = in.resident_share;
  }
  return estimate;
}

}  // namespace llmd
