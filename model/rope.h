// Rope: rotary positions with YaRN scaling, as tables of cosines and sines for the rows of a step.
//
// Pairs are interleaved: (x[2i], x[2i+1]) turns by position * frequency[i]. Frequencies are computed once in double;
// a step's table is filled before layer 0 and read by all layers and threads.
// Source: YaRN (arXiv 2309.00071), section 3.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "io/result.h"
#include "model/activation_buffer.h"
#include "model/gguf/gguf.h"

namespace llmd {

struct RopeShape {
  int32_t dims = 0;
  double base = 10000.0;
  bool yarn = false;
  double factor = 1.0;  // also of linear scaling
  double original_context = 0;
  double beta_fast = 32.0, beta_slow = 1.0;
  double log_multiplier = 0.0;  // yarn_log_multiplier, which already holds the factor 0.1; 0: absent

  /// What YaRN multiplies the softmax scale by: (1 + log_multiplier * ln factor)^2, or 1.
  double score_factor() const;
  /// What cosines and sines are multiplied by: 1 where log_multiplier is given, else 1 + 0.1 ln factor under YaRN.
  double magnitude() const;
};

/// Reads `<arch>.rope.*`. Errors: "model_unsupported" for a scaling type that is not none, linear or yarn;
/// "gguf_invalid" for values out of range.
Result<RopeShape> read_rope_shape(const GgufModel& model, std::string_view arch, int32_t dims);

class Rope {
 public:
  Rope() = default;
  explicit Rope(const RopeShape& shape);

  const RopeShape& shape() const { return shape_; }
  const std::vector<double>& frequencies() const { return frequencies_; }
  void carve(Carver& carver, int64_t rows_max);
  /// Fills row r of the table for a position.
  void set_position(int64_t r, int32_t position);
  /// Turns x[dims] by the position of row r.
  void apply(int64_t r, float* x) const;

 private:
  RopeShape shape_;
  std::vector<double> frequencies_;
  float* cos_ = nullptr;
  float* sin_ = nullptr;
};

}  // namespace llmd
