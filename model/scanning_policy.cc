#include "model/scanning_policy.h"

namespace llmd {

ScanningPolicy::ScanningPolicy(const PoolShape& shape)
    : experts_(shape.experts),
      offered_(shape.classes.size()),
      place_(shape.layers.size() * static_cast<size_t>(shape.experts), -1) {
  for (const PoolShape::Layer& layer : shape.layers) class_of_layer_.push_back(layer.size_class);
  for (size_t c = 0; c < offered_.size(); c++) offered_[c].reserve(shape.slots_full(c));
}

std::vector<int32_t>& ScanningPolicy::offered(int32_t expert) {
  return offered_[static_cast<size_t>(class_of_layer_[static_cast<size_t>(expert / experts_)])];
}

void ScanningPolicy::offer(int32_t expert) {
  std::vector<int32_t>& all = offered(expert);
  place_[static_cast<size_t>(expert)] = static_cast<int32_t>(all.size());
  all.push_back(expert);
}

void ScanningPolicy::withdraw(int32_t expert) {
  std::vector<int32_t>& all = offered(expert);
  int32_t at = place_[static_cast<size_t>(expert)], last = all.back();
  all[static_cast<size_t>(at)] = last;
  place_[static_cast<size_t>(last)] = at;
  place_[static_cast<size_t>(expert)] = -1;
  all.pop_back();
}

int32_t ScanningPolicy::victim(int32_t size_class, int32_t layer) {
  const std::vector<int32_t>& all = offered_[static_cast<size_t>(size_class)];
  return all.empty() ? -1 : all[choose(all, layer)];
}

}  // namespace llmd
