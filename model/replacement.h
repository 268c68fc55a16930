// ReplacementPolicy: which resident expert is given up for one that is wanted.
//
// The pool (model/expert_pool.h) tells a policy of every use while decoding, hit or miss, and which experts it may give
// up: residents that nobody uses are *offered*. It asks for a victim among those of one size class. Sweeps are not told
// of: a prompt must not change what decoding keeps. `llmd bench cache` replays a recorded trace through each;
// docs/PERFORMANCE.md has the figures that chose the default. Experts are numbered layer * experts + id. Owned by one
// pool and its thread; nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "model/expert_heat.h"
#include "model/pool_layout.h"

namespace llmd {

class ReplacementPolicy {
 public:
  virtual ~ReplacementPolicy() = default;
  virtual void next_step() {}
  /// Of an expert that is not offered.
  virtual void use(int32_t expert) = 0;
  /// The expert may be given up from now on; until it is withdrawn.
  virtual void offer(int32_t expert) = 0;
  virtual void withdraw(int32_t expert) = 0;
  /// The expert of the class to give up first while `layer` runs; -1: none is offered. It stays offered.
  virtual int32_t victim(int32_t size_class, int32_t layer) = 0;
  /// Whether one expert is to be kept rather than the other while `layer` runs.
  virtual bool hotter(int32_t expert, int32_t other, int32_t layer) const = 0;
  /// The heat that the policy was made with was replaced.
  virtual void heat_replaced() {}
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

/// When each expert was used last, in uses of any expert.
class LastUse {
 public:
  explicit LastUse(const PoolShape& shape) : last_(shape.layers.size() * static_cast<size_t>(shape.experts), 0) {}
  void use(int32_t expert) { last_[static_cast<size_t>(expert)] = ++now_; }
  uint64_t operator[](int32_t expert) const { return last_[static_cast<size_t>(expert)]; }

 private:
  uint64_t now_ = 0;
  std::vector<uint64_t> last_;
};

}  // namespace llmd
