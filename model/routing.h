// Routing: which experts a row goes to, and with which weights, from the router's logits.
//
// Steps (DeepSeek-V2/V3, Kimi, GLM): probabilities by softmax or sigmoid; the selection bias counts for choosing only;
// groups are scored by their best expert (no bias: V2) or the sum of their best two (bias: V3) and all but the best
// groups are dropped; the `used` best remain, lower id first on a tie; weights are the unbiased probabilities,
// renormalised and scaled as the model asks. Pure functions, no allocation, any thread.
// Source: DeepSeek-V3 technical report, section 2.1.2.
#pragma once

#include <cstdint>

#include "model/model_shape.h"

namespace llmd {

inline constexpr int32_t kExpertsMax = 4096;
inline constexpr int32_t kExpertsUsedMax = 64;

/// logits[experts], bias[experts] or null -> ids[used] ascending, weights[used] in the same order.
/// scratch: 2 * experts floats.
void route(const RoutingShape& shape, const float* logits, const float* bias, float* scratch, int32_t* ids,
           float* weights);

}  // namespace llmd
