// ExpertCatalog: where every routed expert lies on disk, and how it lies in a slot of the pool.
//
// An expert is three matrices (gate, up, down), or two where the file fuses gate and up. Each is one contiguous range
// of its 3-D tensor. A read covers the enclosing blocks and lands so that memory address = file offset (mod block), so
// a slot keeps one region per range with room for a block at either end:
//
//   slot: [ region 0: ..gate.. ][ region 1: ..up.. ][ region 2: ..down.. ]     regions start on block boundaries
//
// Layers whose slots have (nearly) the same size form a size class. Built from metadata; immutable; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "io/result.h"
#include "model/gguf/gguf.h"
#include "model/model_shape.h"
#include "model/pool_layout.h"

namespace llmd {

/// One matrix of every expert of a layer.
struct ExpertTensor {
  uint32_t shard = 0;
  uint64_t file_offset = 0;    // of expert 0
  uint64_t expert_bytes = 0;   // bytes of one expert's matrix = stride between experts
  uint64_t region_offset = 0;  // in the slot
  TensorType type = TensorType::kF32;
  int64_t n_in = 0, n_out = 0;
  uint64_t row_bytes = 0;
};

struct ExpertLayer {
  bool fused = false;         // tensors[0] holds gate rows, then up rows
  int32_t tensors_count = 0;  // 0: no experts in this layer; 2 or 3
  ExpertTensor tensors[3];    // gate, up, down or gate_up, down
  uint64_t slot_bytes = 0;
  uint64_t expert_bytes = 0;  // what a read must bring, without block rounding
  int32_t size_class = -1;
};

class ExpertCatalog {
 public:
  static constexpr uint64_t kBlock = 4096;

  /// Errors: "gguf_invalid" or "type_unsupported", naming the tensor.
  static Result<ExpertCatalog> create(const GgufModel& model, const ModelShape& shape);

  const ExpertLayer& layer(int32_t index) const { return layers_[static_cast<size_t>(index)]; }
  int32_t layers() const { return static_cast<int32_t>(layers_.size()); }
  /// Sizes and classes alone: what the pool is laid out by.
  const PoolShape& pool_shape() const { return pool_shape_; }
  int32_t experts_per_layer() const { return pool_shape_.experts; }
  int32_t moe_layers() const { return moe_layers_; }
  /// Bytes of all routed experts, and of those that one token uses.
  uint64_t total_bytes() const { return total_bytes_; }
  /// The largest matrix of an expert: what a reader of a sweep has in flight while others decode.
  uint64_t largest_matrix_bytes() const;
  uint64_t token_bytes() const { return pool_shape_.token_bytes(); }

 private:
  void classify();

  std::vector<ExpertLayer> layers_;
  PoolShape pool_shape_;
  int32_t moe_layers_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace llmd
