#include "model/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llmd {
namespace {

constexpr float kDropped = -std::numeric_limits<float>::infinity();

void softmax(const float* logits, int32_t n, float* out) {
  double largest = *std::max_element(logits, logits + n);
  double sum = 0;
  for (int32_t i = 0; i < n; i++) sum += std::exp(static_cast<double>(logits[i]) - largest);
  for (int32_t i = 0; i < n; i++) out[i] = static_cast<float>(std::exp(static_cast<double>(logits[i]) - largest) / sum);
}

void probabilities(Gating gating, const float* logits, int32_t n, float* out) {
  switch (gating) {
    case Gating::kSoftmax:
      softmax(logits, n, out);
      break;
    case Gating::kSigmoid:
      for (int32_t i = 0; i < n; i++)
        out[i] = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(logits[i]))));
      break;
    case Gating::kSoftmaxSelected:
      std::copy(logits, logits + n, out);
      break;
    case Gating::kSqrtSoftplus:
      for (int32_t i = 0; i < n; i++)
        out[i] = static_cast<float>(std::sqrt(std::log1p(std::exp(static_cast<double>(logits[i])))));
      break;
  }
}

float group_score(const float* scores, int32_t n, bool best_two) {
  float first = kDropped, second = kDropped;
  for (int32_t i = 0; i < n; i++) {
    if (scores[i] > first) {
      second = first;
      first = scores[i];
    } else if (scores[i] > second) {
      second = scores[i];
    }
  }
  return best_two && n > 1 ? first + second : first;
}

// Keeps the best groups_used groups (lower index first on a tie); the others' scores become -inf.
void drop_groups(const RoutingShape& shape, bool best_two, float* scores) {
  int32_t size = shape.experts / shape.groups;
  float group[kExpertsMax];
  for (int32_t g = 0; g < shape.groups; g++) group[g] = group_score(scores + g * size, size, best_two);
  for (int32_t g = 0; g < shape.groups; g++) {
    int32_t better = 0;
    for (int32_t other = 0; other < shape.groups; other++)
      better += group[other] > group[g] || (group[other] == group[g] && other < g);
    if (better >= shape.groups_used) std::fill(scores + g * size, scores + (g + 1) * size, kDropped);
  }
}

}  // namespace

void route(const RoutingShape& shape, const float* logits, const float* bias, float* scratch, int32_t* ids,
           float* weights) {
  float* probability = scratch;
  float* score = scratch + shape.experts;
  probabilities(shape.gating, logits, shape.experts, probability);
  for (int32_t e = 0; e < shape.experts; e++) score[e] = probability[e] + (bias ? bias[e] : 0.0f);
  if (shape.groups > 1) drop_groups(shape, bias != nullptr, score);

  for (int32_t picked = 0; picked < shape.used; picked++) {
    int32_t best = -1;
    for (int32_t e = 0; e < shape.experts; e++)
      if (best < 0 || score[e] > score[best]) best = std::find(ids, ids + picked, e) == ids + picked ? e : best;
    ids[picked] = best;
    score[best] = kDropped;
  }
  std::sort(ids, ids + shape.used);

  if (shape.gating == Gating::kSoftmaxSelected) {
    float chosen[kExpertsUsedMax] = {};
    for (int32_t i = 0; i < shape.used; i++) chosen[i] = logits[ids[i]];
    softmax(chosen, shape.used, weights);
  } else {
    for (int32_t i = 0; i < shape.used; i++) weights[i] = probability[ids[i]];
  }
  if (shape.normalise) {
    // The floor is the smallest normal half: what the field's runtimes use, so that a vanishing sum does not blow up.
    float sum = 0;
    for (int32_t i = 0; i < shape.used; i++) sum += weights[i];
    sum = std::max(sum, 6.103515625e-5f);
    for (int32_t i = 0; i < shape.used; i++) weights[i] /= sum;
  }
  for (int32_t i = 0; i < shape.used; i++) weights[i] *= shape.scale;
}

}  // namespace llmd
