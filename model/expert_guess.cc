#include "model/expert_guess.h"

#include <algorithm>

#include "model/routing.h"

namespace llmd {

void GuessBuffers::carve(Carver& carver, const ModelShape& shape, int64_t rows_max) {
  uint64_t experts = static_cast<uint64_t>(shape.routing.experts), used = static_cast<uint64_t>(shape.routing.used);
  rows.carve(carver, rows_max, shape.width);
  logits = carver.take<float>(static_cast<uint64_t>(rows_max) * experts);
  scratch = carver.take<float>(2 * experts);
  weights = carver.take<float>(used);
  ids = carver.take<int32_t>(used);
}

ExpertGuess::ExpertGuess(const ModelShape& shape) : shape_(shape), marks_(static_cast<size_t>(shape.routing.experts)) {
  predicted_.reserve(marks_.size());
}

std::span<const int32_t> ExpertGuess::predict(const NextMoeLayer& next, int64_t rows, const float* hidden,
                                              const float* shared, std::span<const std::optional<Error>> row_errors,
                                              const Residency& residency, GuessBuffers& buffers, ThreadPool& threads) {
  int64_t experts = shape_.routing.experts, width = shape_.width;
  predicted_.clear();
  if (!mark_missing(next.layer, residency)) return {};
  for (int64_t r = 0; r < rows; r++) {
    float* row = buffers.rows.row(r);
    std::copy(hidden + r * width, hidden + (r + 1) * width, row);
    kernels().add(shared + r * width, width, row);
    kernels().rms_norm(row, next.norm, shape_.rms_epsilon, width, row);
    buffers.rows.quantize(r);
  }
  matmul(next.router, buffers.rows, nullptr, rows, buffers.logits, experts, threads);
  for (int64_t r = 0; r < rows; r++) {
    if (row_errors[static_cast<size_t>(r)]) continue;
    route(shape_.routing, buffers.logits + r * experts, next.bias, buffers.scratch, buffers.ids, buffers.weights);
    for (int32_t i = 0; i < shape_.routing.used; i++) {
      Mark& mark = marks_[static_cast<size_t>(buffers.ids[i])];
      if (!mark.predicted) predicted_.push_back(buffers.ids[i]);
      mark.predicted = true;
      mark.weight += buffers.weights[i];
    }
  }
  std::sort(predicted_.begin(), predicted_.end(), [&](int32_t a, int32_t b) {
    float x = marks_[static_cast<size_t>(a)].weight, y = marks_[static_cast<size_t>(b)].weight;
    return x > y || (x == y && a < b);
  });
  predicted_layer_ = next.layer;
  counts_.predicted += predicted_.size();
  return predicted_;
}

bool ExpertGuess::mark_missing(int32_t layer, const Residency& residency) {
  bool any = false;
  for (int32_t expert = 0; expert < shape_.routing.experts; expert++) {
    bool missing = !residency.is_resident(layer, expert);
    marks_[static_cast<size_t>(expert)] = {missing, false, 0};
    any = any || missing;
  }
  return any;
}

void ExpertGuess::wanted(int32_t expert) {
  if (!counting_) return;
  const Mark& mark = marks_[static_cast<size_t>(expert)];
  counts_.routed++;
  counts_.right += mark.predicted;
  counts_.missing += mark.missing;
  counts_.missing_right += mark.missing && mark.predicted;
}

}  // namespace llmd
