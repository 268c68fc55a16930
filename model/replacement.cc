#include "model/replacement.h"

#include <algorithm>
#include <vector>

#include "model/heat_policy.h"
#include "model/scanning_policy.h"

namespace llmd {
namespace {

size_t experts_total(const PoolShape& shape) {
  return shape.layers.size() * static_cast<size_t>(shape.experts);
}

// The index of the resident with the least `value`, the one used longest ago among equals.
template <typename Value>
size_t least(std::span<const int32_t> residents, const LastUse& last, Value value) {
  size_t best = 0;
  for (size_t i = 1; i < residents.size(); i++) {
    auto a = value(residents[i]), b = value(residents[best]);
    if (a < b || (a == b && last[residents[i]] < last[residents[best]])) best = i;
  }
  return best;
}

class LruPolicy final : public ScanningPolicy {
 public:
  explicit LruPolicy(const PoolShape& shape) : ScanningPolicy(shape), last_(shape) {}
  void use(int32_t expert) override { last_.use(expert); }
  size_t choose(std::span<const int32_t> residents, int32_t) override {
    return least(residents, last_, [&](int32_t expert) { return last_[expert]; });
  }

 private:
  LastUse last_;
};

class LfuPolicy final : public ScanningPolicy {
 public:
  explicit LfuPolicy(const PoolShape& shape) : ScanningPolicy(shape), last_(shape), uses_(experts_total(shape), 0) {}
  void use(int32_t expert) override {
    last_.use(expert);
    uses_[static_cast<size_t>(expert)]++;
  }
  size_t choose(std::span<const int32_t> residents, int32_t) override {
    return least(residents, last_, [&](int32_t expert) { return uses_[static_cast<size_t>(expert)]; });
  }

 private:
  LastUse last_;
  std::vector<uint32_t> uses_;
};

class RandomOldPolicy final : public ScanningPolicy {
 public:
  explicit RandomOldPolicy(const PoolShape& shape) : ScanningPolicy(shape), last_(shape) {
    order_.reserve(experts_total(shape));
  }
  void use(int32_t expert) override { last_.use(expert); }
  size_t choose(std::span<const int32_t> residents, int32_t) override {
    order_.clear();
    for (size_t i = 0; i < residents.size(); i++) order_.push_back(i);
    size_t old = (residents.size() + 3) / 4;
    std::nth_element(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(old - 1), order_.end(),
                     [&](size_t a, size_t b) { return last_[residents[a]] < last_[residents[b]]; });
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return order_[(random_ >> 33) % old];
  }

 private:
  LastUse last_;
  std::vector<size_t> order_;
  uint64_t random_ = 1;
};

// The pool's slots are shared out evenly over the layers of a class. A layer with its share gives up one of its own.
class LayerSharesPolicy final : public ScanningPolicy {
 public:
  explicit LayerSharesPolicy(const PoolShape& shape)
      : ScanningPolicy(shape), experts_(shape.experts), last_(shape), counts_(shape.layers.size(), 0) {
    for (const PoolShape::Layer& layer : shape.layers)
      layers_.push_back(layer.size_class < 0 ? 1 : shape.classes[static_cast<size_t>(layer.size_class)].layers);
  }
  void use(int32_t expert) override { last_.use(expert); }
  size_t choose(std::span<const int32_t> residents, int32_t running) override {
    std::fill(counts_.begin(), counts_.end(), 0);
    for (int32_t expert : residents) counts_[layer_of(expert)]++;
    size_t layer = static_cast<size_t>(running);
    size_t share = std::max<size_t>(1, residents.size() / static_cast<size_t>(layers_[layer]));
    if (counts_[layer] < share)
      layer = static_cast<size_t>(std::max_element(counts_.begin(), counts_.end()) - counts_.begin());
    return least(residents, last_, [&](int32_t expert) { return layer_of(expert) == layer ? 0 : 1; });
  }

 private:
  size_t layer_of(int32_t expert) const { return static_cast<size_t>(expert / experts_); }
  int32_t experts_;
  LastUse last_;
  std::vector<size_t> counts_;
  std::vector<int32_t> layers_;  // how many share the class of this one
};

}  // namespace

std::string_view policy_name(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::kHeat:
      return "heat";
    case PolicyKind::kLru:
      return "lru";
    case PolicyKind::kLfu:
      return "lfu";
    case PolicyKind::kRandomOld:
      return "random-old";
    case PolicyKind::kLayerShares:
      return "layer-shares";
  }
  return "";
}

std::unique_ptr<ReplacementPolicy> make_policy(PolicyKind kind, const PoolShape& shape, const ExpertHeat& heat) {
  switch (kind) {
    case PolicyKind::kLru:
      return std::make_unique<LruPolicy>(shape);
    case PolicyKind::kLfu:
      return std::make_unique<LfuPolicy>(shape);
    case PolicyKind::kRandomOld:
      return std::make_unique<RandomOldPolicy>(shape);
    case PolicyKind::kLayerShares:
      return std::make_unique<LayerSharesPolicy>(shape);
    case PolicyKind::kHeat:
      break;
  }
  return std::make_unique<HeatPolicy>(shape, heat);
}

}  // namespace llmd
