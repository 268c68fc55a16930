#include "daemon/bench_bound.h"

#include <algorithm>

namespace llmd {

void DecodeBound::add(void* context, int32_t layer, const MoeTimes& times) {
  DecodeBound& bound = *static_cast<DecodeBound*>(context);
  bound.runs_.push_back(times);
  bound.layers_[static_cast<size_t>(layer)].add(times);
}

double DecodeBound::read_rate() const {
  double bytes = 0, seconds = 0;
  for (const MoeTimes& run : runs_) {
    bytes += static_cast<double>(run.read_bytes);
    seconds += run.read_seconds;
  }
  return seconds > 0 ? bytes / seconds : 0;
}

double DecodeBound::seconds(double all) const {
  double rate = read_rate(), bound = all;
  for (const MoeTimes& run : runs_) {
    double inside = run.router_seconds + run.compute_seconds() + run.wait_seconds + run.handoff_seconds;
    double reading = rate > 0 ? static_cast<double>(run.miss_bytes) / rate : 0;
    bound += run.router_seconds + std::max(reading, run.resident_seconds) + run.last_miss_seconds - inside;
  }
  return bound;
}

}  // namespace llmd
