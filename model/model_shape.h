// ModelShape and TensorUse: what the generic parts (plan, residency, step) need to know of an architecture.
//
// Read from metadata by the architecture (model/architecture.h), checked there, immutable afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/result.h"
#include "model/gguf/gguf.h"

namespace llmd {

enum class Gating : uint8_t { kSoftmax = 1, kSigmoid = 2, kSoftmaxSelected = 3, kSqrtSoftplus = 4 };

/// How a layer's router picks and weighs experts (model/routing.h).
struct RoutingShape {
  int32_t experts = 0, used = 0;
  Gating gating = Gating::kSoftmax;
  int32_t groups = 1, groups_used = 1;  // groups == 1: no groups
  bool normalise = false;
  float scale = 1.0f;
};

struct ModelShape {
  std::string architecture;
  int32_t layers = 0;        // decoder layers, MTP blocks not counted
  int32_t mtp_layers = 0;    // MTP blocks that follow them in the file
  int32_t dense_layers = 0;  // the first layers have a dense FFN
  int32_t width = 0;         // embedding length
  int32_t vocab = 0;
  int32_t context_trained = 0;
  int32_t ff_dense = 0;   // 0 when there is no dense layer
  int32_t ff_expert = 0;  // 0 when there are no experts
  int32_t ff_shared = 0;  // width of the fused shared experts; 0: none
  float rms_epsilon = 1e-6f;
  RoutingShape routing;

  bool is_moe(int32_t layer) const { return routing.experts > 0 && layer >= dense_layers; }
};

/// A core tensor that the architecture wants in memory, with the shape it must have (0: any).
struct TensorUse {
  std::string name;
  bool required = true;
  bool f32 = false;            // must be stored as F32 (norms, biases)
  std::vector<uint64_t> dims;  // compared with the file's; trailing 1s may be left out
};

/// A matrix in memory: row r starts at data + r * row_bytes and holds n_in weights of `type`.
struct Matrix {
  const std::byte* data = nullptr;
  TensorType type = TensorType::kF32;
  int64_t n_in = 0, n_out = 0;
  uint64_t row_bytes = 0;

  explicit operator bool() const { return data != nullptr; }
  /// Rows [begin, begin + count) as a matrix of their own (one head of a 3-D tensor, say).
  Matrix rows(int64_t begin, int64_t count) const {
    return {data + static_cast<uint64_t>(begin) * row_bytes, type, n_in, count, row_bytes};
  }
};

}  // namespace llmd
