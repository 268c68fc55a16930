// HeatPolicy: the default replacement policy. It gives up the expert with the least
//
//     (uses lately + 0.05 x uses long ago) x nearness of its layer
//
// the one used longest ago among equals. An expert of the layer at hand is not wanted before the next step, one of the
// layer after it may be wanted at once. What was used long ago decides between experts that were not used lately, such
// as those that a warm start brought.
//
// A pool has thousands of slots and a step hundreds of misses, so no miss looks at them all. Offered experts stand in
// one heap per layer (their nearness is the same), and a victim is the least of the layers' tops, weighed:
//
//   layer 3 [least .. ]   layer 4 [least .. ]   layer 5 [least .. ] ...      x nearness, of which the least
//
// All counts fade, the short ones faster. Divided by the fading of the short ones, the sum that a heap is ordered by
// can only grow while its expert is offered. So what stands in a heap is a lower bound from the time it was last looked
// at, and only a top has to be brought up to date: it sinks, until a top is its own value. Once in some hundred steps
// the counts are rescaled and all heaps are built anew. Thread: the pool's. Nothing is allocated after construction.
#pragma once

#include <vector>

#include "model/replacement.h"

namespace llmd {

class HeatPolicy final : public ReplacementPolicy {
 public:
  HeatPolicy(const PoolShape& shape, const ExpertHeat& heat);

  void next_step() override;
  void use(int32_t expert) override;
  void offer(int32_t expert) override;
  void withdraw(int32_t expert) override;
  int32_t victim(int32_t size_class, int32_t layer) override;
  bool hotter(int32_t expert, int32_t other, int32_t layer) const override;
  void heat_replaced() override { rebuild(); }

 private:
  struct Heap {
    int32_t size_class = -1;
    std::vector<int32_t> experts;  // heap by before()
  };

  Heap& heap_of(int32_t expert) { return heaps_[static_cast<size_t>(expert / experts_)]; }
  /// (uses lately + kLongAgo x uses long ago), as rates, divided by the rate of one short use.
  double value(int32_t expert) const { return lately_[expert] + long_share_ * (*long_ago_)[expert]; }
  double nearness(int32_t layer, int32_t running) const;
  bool before(int32_t a, int32_t b) const;
  void put(Heap& heap, size_t at, int32_t expert);
  void rise(Heap& heap, size_t at);
  void sink(Heap& heap, size_t at);
  int32_t top(Heap& heap);
  void rebuild();

  static constexpr double kLatelySteps = 6;  // half-life
  static constexpr double kLongAgo = 0.05;
  static constexpr double kNextLayer = 3;
  int32_t experts_, layers_;
  LastUse last_;
  ExpertHeat lately_;
  const ExpertHeat* long_ago_;
  double long_share_;
  std::vector<Heap> heaps_;     // per layer
  std::vector<int32_t> place_;  // of every expert in its heap; -1: not offered
  std::vector<double> value_;   // of every offered expert when it was last looked at
};

}  // namespace llmd
