// Replaying a routing trace through the expert pool: what a policy would have read.
//
// The pool is the real one (model/expert_pool.h) with its segments and classes; a miss is loaded at once. Belady's
// optimum knows the trace to come and gives up the expert whose next use is farthest: no policy that loads on demand
// can read less. Its segments move like those of the others. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/expert_pool.h"
#include "model/routing_trace.h"

namespace llmd {

struct ReplayResult {
  std::string policy;
  uint64_t steps = 0;  // decode steps that were counted
  uint64_t hits = 0, misses = 0, miss_bytes = 0, segment_moves = 0;
  double hit_rate() const { return hits + misses ? static_cast<double>(hits) / static_cast<double>(hits + misses) : 0; }
  double bytes_per_step() const { return steps ? static_cast<double>(miss_bytes) / static_cast<double>(steps) : 0; }
};

/// Replays the whole trace and counts its decode steps after the first quarter, when the pool has filled. No policy:
/// Belady's optimum. `pool_bytes` is at least the floor.
ReplayResult replay(const RoutingTrace& trace, uint64_t pool_bytes, std::optional<PolicyKind> policy);

}  // namespace llmd
