#include "model/expert_heat.h"

#include <cmath>

#include "io/check.h"

namespace llmd {
namespace {

constexpr double kWeightMax = 1e18;  // far from the ends of a float

}  // namespace

ExpertHeat::ExpertHeat(size_t experts, double half_life_steps)
    : growth_(std::exp2(1 / half_life_steps)), heat_(experts, 0.0f) {}

void ExpertHeat::next_step() {
  weight_ *= growth_;
  span_ = 1 + span_ / growth_;
  if (weight_ < kWeightMax) return;
  for (float& heat : heat_) heat = static_cast<float>(heat / weight_);
  weight_ = 1;
}

std::vector<float> ExpertHeat::rates() const {
  std::vector<float> rates;
  rates.reserve(heat_.size());
  for (float heat : heat_) rates.push_back(static_cast<float>(rate(heat)));
  return rates;
}

void ExpertHeat::set_rates(std::span<const float> rates) {
  LLMD_CHECK(rates.size() == heat_.size());
  span_ = 1 / (1 - 1 / growth_);
  weight_ = 1;
  for (size_t i = 0; i < heat_.size(); i++) heat_[i] = static_cast<float>(rates[i] * span_);
}

}  // namespace llmd
