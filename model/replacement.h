// ReplacementPolicy: which resident expert is given up for one that is wanted.
//
// The pool (model/expert_pool.h) tells a policy of every use while decoding, hit or miss, and asks it for a victim
// among the residents of one size class that nobody uses. Sweeps are not told of: a prompt must not change what
// decoding keeps. `llmd bench cache` replays a recorded trace through each; docs/PERFORMANCE.md has the figures that
// chose the default. Experts are numbered layer * experts + id. Owned by one pool and its thread; nothing is allocated
// after construction.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "model/expert_heat.h"
#include "model/pool_layout.h"

namespace llmd {

class ReplacementPolicy {
 public:
  virtual ~ReplacementPolicy() = default;
  virtual void next_step() {}
  virtual void use(int32_t expert) = 0;
  /// The index in `residents` (not empty) of the expert to give up for `wanted`.
  virtual size_t victim(std::span<const int32_t> residents, int32_t wanted) = 0;
};

enum class PolicyKind {
  kHeat,         // least often used lately, weighed by how soon its layer comes round; the default
  kLru,          // least recently used
  kLfu,          // least often used ever; counts survive eviction
  kRandomOld,    // any of the quarter used longest ago
  kLayerShares,  // least recently used of a layer that has more than its share
};
inline constexpr PolicyKind kPolicyKinds[] = {PolicyKind::kHeat, PolicyKind::kLru, PolicyKind::kLfu,
                                              PolicyKind::kRandomOld, PolicyKind::kLayerShares};
std::string_view policy_name(PolicyKind kind);

/// `heat` is the pool's own, which reaches far back, and outlives the policy.
std::unique_ptr<ReplacementPolicy> make_policy(PolicyKind kind, const PoolShape& shape, const ExpertHeat& heat);

}  // namespace llmd
