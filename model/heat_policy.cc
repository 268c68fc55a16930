#include "model/heat_policy.h"

#include <algorithm>

namespace llmd {

HeatPolicy::HeatPolicy(const PoolShape& shape, const ExpertHeat& heat)
    : experts_(shape.experts),
      layers_(static_cast<int32_t>(shape.layers.size())),
      last_(shape),
      lately_(shape.layers.size() * static_cast<size_t>(shape.experts), kLatelySteps),
      long_ago_(&heat),
      long_share_(kLongAgo * heat.rate(1) / lately_.rate(1)),
      heaps_(shape.layers.size()),
      place_(shape.layers.size() * static_cast<size_t>(shape.experts), -1),
      value_(place_.size(), 0) {
  for (size_t layer = 0; layer < heaps_.size(); layer++) {
    heaps_[layer].size_class = shape.layers[layer].size_class;
    heaps_[layer].experts.reserve(static_cast<size_t>(shape.experts));
  }
}

void HeatPolicy::next_step() {
  lately_.next_step();
  double before = long_share_;
  long_share_ = kLongAgo * long_ago_->rate(1) / lately_.rate(1);
  // It grows a little with every step, unless one of the counts was rescaled.
  if (long_share_ < before || long_share_ > 2 * before) rebuild();
}

void HeatPolicy::use(int32_t expert) {
  last_.use(expert);
  lately_.use(expert);
}

double HeatPolicy::nearness(int32_t layer, int32_t running) const {
  int32_t distance = (layer - running + layers_ - 1) % layers_;  // 0: the next layer
  return 1 + kNextLayer * (layers_ - 1 - distance) / layers_;
}

bool HeatPolicy::hotter(int32_t expert, int32_t other, int32_t layer) const {
  return value(expert) * nearness(expert / experts_, layer) > value(other) * nearness(other / experts_, layer);
}

int32_t HeatPolicy::victim(int32_t size_class, int32_t layer) {
  int32_t best = -1;
  double best_value = 0;
  for (int32_t l = 0; l < layers_; l++) {
    Heap& heap = heaps_[static_cast<size_t>(l)];
    if (heap.size_class != size_class || heap.experts.empty()) continue;
    int32_t expert = top(heap);
    double weighed = value_[static_cast<size_t>(expert)] * nearness(l, layer);
    if (best >= 0 && (weighed > best_value || (weighed == best_value && last_[expert] >= last_[best]))) continue;
    best = expert;
    best_value = weighed;
  }
  return best;
}

// ---------------------------------------------------------------- heaps

void HeatPolicy::offer(int32_t expert) {
  Heap& heap = heap_of(expert);
  value_[static_cast<size_t>(expert)] = value(expert);
  heap.experts.push_back(expert);
  put(heap, heap.experts.size() - 1, expert);
  rise(heap, heap.experts.size() - 1);
}

void HeatPolicy::withdraw(int32_t expert) {
  Heap& heap = heap_of(expert);
  size_t at = static_cast<size_t>(place_[static_cast<size_t>(expert)]);
  place_[static_cast<size_t>(expert)] = -1;
  int32_t last = heap.experts.back();
  heap.experts.pop_back();
  if (last == expert) return;
  put(heap, at, last);
  rise(heap, at);
  sink(heap, static_cast<size_t>(place_[static_cast<size_t>(last)]));
}

// The least of a heap, up to date.
int32_t HeatPolicy::top(Heap& heap) {
  while (true) {
    int32_t expert = heap.experts.front();
    double now = value(expert);
    if (now <= value_[static_cast<size_t>(expert)]) return expert;
    value_[static_cast<size_t>(expert)] = now;
    sink(heap, 0);
    if (heap.experts.front() == expert) return expert;
  }
}

bool HeatPolicy::before(int32_t a, int32_t b) const {
  double x = value_[static_cast<size_t>(a)], y = value_[static_cast<size_t>(b)];
  return x < y || (x == y && last_[a] < last_[b]);
}

void HeatPolicy::put(Heap& heap, size_t at, int32_t expert) {
  heap.experts[at] = expert;
  place_[static_cast<size_t>(expert)] = static_cast<int32_t>(at);
}

void HeatPolicy::rise(Heap& heap, size_t at) {
  int32_t expert = heap.experts[at];
  while (at > 0 && before(expert, heap.experts[(at - 1) / 2])) {
    put(heap, at, heap.experts[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  put(heap, at, expert);
}

void HeatPolicy::sink(Heap& heap, size_t at) {
  int32_t expert = heap.experts[at];
  size_t count = heap.experts.size();
  while (2 * at + 1 < count) {
    size_t child = 2 * at + 1;
    if (child + 1 < count && before(heap.experts[child + 1], heap.experts[child])) child++;
    if (!before(heap.experts[child], expert)) break;
    put(heap, at, heap.experts[child]);
    at = child;
  }
  put(heap, at, expert);
}

void HeatPolicy::rebuild() {
  long_share_ = kLongAgo * long_ago_->rate(1) / lately_.rate(1);
  for (Heap& heap : heaps_) {
    for (int32_t expert : heap.experts) value_[static_cast<size_t>(expert)] = value(expert);
    for (size_t at = heap.experts.size() / 2; at > 0; at--) sink(heap, at - 1);
  }
}

}  // namespace llmd
