// ExpertHeat: how often each expert has been wanted lately, resident or not.
//
// Every use adds 1; what was added fades by half every half_life steps. Instead of multiplying all counts down at each
// step, the weight of a new use grows, and everything is scaled down once in many thousand steps. So a count survives
// eviction, and two experts can be compared at any time. The thread that leads the step owns it; nothing is allocated
// after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace llmd {

class ExpertHeat {
 public:
  ExpertHeat(size_t experts, double half_life_steps);

  void next_step();
  void use(int32_t expert) { heat_[static_cast<size_t>(expert)] += static_cast<float>(weight_); }
  /// Greater = hotter. Only for comparing experts with each other at one moment.
  float operator[](int32_t expert) const { return heat_[static_cast<size_t>(expert)]; }
  /// Uses per step to be expected of a heat at this moment.
  double rate(double heat) const { return heat / weight_ / span_; }

  /// Expected uses per step of every expert, and back: what is kept over a restart.
  std::vector<float> rates() const;
  void set_rates(std::span<const float> rates);

 private:
  double growth_;      // of weight_ per step
  double weight_ = 1;  // of a use now
  double span_ = 1;    // the steps that the counts reach back, faded: (1 - fade^steps) / (1 - fade)
  std::vector<float> heat_;
};

}  // namespace llmd
