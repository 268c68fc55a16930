#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace llmd {

double RopeShape::score_factor() const {
  if (!yarn || factor <= 1 || log_multiplier == 0) return 1.0;
  double m = 1.0 + log_multiplier * std::log(factor);
  return m * m;
}

double RopeShape::magnitude() const {
  return yarn && factor > 1 && log_multiplier == 0 ? 1.0 + 0.1 * std::log(factor) : 1.0;
}

Result<RopeShape> read_rope_shape(const GgufModel& model, std::string_view arch, int32_t dims) {
  std::string prefix = std::string(arch) + ".rope.";
  RopeShape shape;
  shape.dims = dims;
  shape.base = model.get_f64(prefix + "freq_base").value_or(10000.0);
  const std::string* type = model.get_string(prefix + "scaling.type");
  if (type != nullptr && *type != "none") {
    if (*type != "yarn" && *type != "linear")
      return operating_error("model_unsupported",
                             prefix + "scaling.type is " + *type + "; llmd knows none, linear, yarn",
                             model.shards()[0].path);
    shape.yarn = *type == "yarn";
    shape.factor = model.get_f64(prefix + "scaling.factor").value_or(1.0);
    shape.original_context = model.get_f64(prefix + "scaling.original_context_length")
                                 .value_or(model.get_f64(std::string(arch) + ".context_length").value_or(0));
    shape.log_multiplier = model.get_f64(prefix + "scaling.yarn_log_multiplier").value_or(0.0);
    shape.beta_fast = model.get_f64(prefix + "scaling.yarn_beta_fast").value_or(32.0);
    shape.beta_slow = model.get_f64(prefix + "scaling.yarn_beta_slow").value_or(1.0);
  }
  bool sane = shape.base > 1 && shape.base < 1e12 && shape.factor >= 1 && shape.factor <= 1e6 &&
              std::abs(shape.log_multiplier) <= 10 && shape.beta_fast > 0 && shape.beta_slow > 0 &&
              (!shape.yarn || shape.original_context >= 1);
  if (!sane)
    return operating_error("gguf_invalid", "the values of " + prefix + "* are out of range", model.shards()[0].path);
  return shape;
}

Rope::Rope(const RopeShape& shape) : shape_(shape) {
  double low = 0, high = 0;
  if (shape.yarn) {
    auto correction = [&](double beta) {
      return shape.dims * std::log(shape.original_context / (2 * M_PI * beta)) / (2 * std::log(shape.base));
    };
    low = std::max(0.0, std::floor(correction(shape.beta_fast)));
    high = std::min(shape.dims - 1.0, std::ceil(correction(shape.beta_slow)));
  }
  for (int32_t i = 0; i < shape.dims / 2; i++) {
    double frequency = std::pow(shape.base, -2.0 * i / shape.dims);
    double interpolated = frequency / shape.factor;
    // Under YaRN fast pairs keep their frequency and slow ones are interpolated, with a ramp between.
    double ramp = shape.yarn ? std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0) : 1.0;
    frequencies_.push_back(frequency * (1 - ramp) + interpolated * ramp);
  }
}

void Rope::carve(Carver& carver, int64_t rows_max) {
  uint64_t values = static_cast<uint64_t>(rows_max) * frequencies_.size();
  cos_ = carver.take<float>(values);
  sin_ = carver.take<float>(values);
}

void Rope::set_position(int64_t r, int32_t position) {
  double magnitude = shape_.magnitude();
  int64_t pairs = static_cast<int64_t>(frequencies_.size());
  for (int64_t i = 0; i < pairs; i++) {
    double angle = position * frequencies_[static_cast<size_t>(i)];
    cos_[r * pairs + i] = static_cast<float>(std::cos(angle) * magnitude);
    sin_[r * pairs + i] = static_cast<float>(std::sin(angle) * magnitude);
  }
}

void Rope::apply(int64_t r, float* x) const {
  int64_t pairs = static_cast<int64_t>(frequencies_.size());
  kernels().rope(x, cos_ + r * pairs, sin_ + r * pairs, pairs);
}

}  // namespace llmd
