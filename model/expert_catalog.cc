#include "model/expert_catalog.h"

#include <algorithm>
#include <string>

#include "model/core_weights.h"

namespace llmd {
namespace {

Status describe_tensor(const GgufModel& model, const std::string& name, int64_t n_in, int64_t n_out, int32_t experts,
                       ExpertTensor& out) {
  const GgufTensor* tensor = model.find_tensor(name);
  if (tensor == nullptr)
    return operating_error("gguf_invalid", "the model has no tensor " + name + ", which its architecture needs",
                           model.shards()[0].path);
  if (tensor->dims[0] != static_cast<uint64_t>(n_in) || tensor->dims[1] != static_cast<uint64_t>(n_out) ||
      tensor->dims[2] != static_cast<uint64_t>(experts) || tensor->dims[3] != 1)
    return operating_error("gguf_invalid",
                           "tensor " + name + " is " + describe(*tensor) + ", expected [" + std::to_string(n_in) +
                               ", " + std::to_string(n_out) + ", " + std::to_string(experts) + "]",
                           model.shards()[tensor->shard].path, tensor->file_offset);
  LLMD_RETURN_IF_ERROR(check_computable(*tensor, model));
  out.shard = tensor->shard;
  out.file_offset = tensor->file_offset;
  out.expert_bytes = tensor->bytes / static_cast<uint64_t>(experts);
  out.type = tensor->type;
  out.n_in = n_in;
  out.n_out = n_out;
  out.row_bytes = tensor_row_bytes(tensor->type, static_cast<uint64_t>(n_in));
  return {};
}

}  // namespace

Result<ExpertCatalog> ExpertCatalog::create(const GgufModel& model, const ModelShape& shape) {
  ExpertCatalog catalog;
  catalog.pool_shape_.experts = shape.routing.experts;
  catalog.pool_shape_.used = shape.routing.used;
  catalog.layers_.resize(static_cast<size_t>(shape.layers));
  for (int32_t i = 0; i < shape.layers; i++) {
    if (!shape.is_moe(i)) continue;
    ExpertLayer& layer = catalog.layers_[static_cast<size_t>(i)];
    std::string p = "blk." + std::to_string(i) + ".ffn_";
    int64_t width = shape.width, ff = shape.ff_expert;
    int32_t experts = shape.routing.experts;
    layer.fused = model.find_tensor(p + "gate_up_exps.weight") != nullptr;
    layer.tensors_count = layer.fused ? 2 : 3;
    if (layer.fused) {
      LLMD_RETURN_IF_ERROR(describe_tensor(model, p + "gate_up_exps.weight", width, 2 * ff, experts, layer.tensors[0]));
    } else {
      LLMD_RETURN_IF_ERROR(describe_tensor(model, p + "gate_exps.weight", width, ff, experts, layer.tensors[0]));
      LLMD_RETURN_IF_ERROR(describe_tensor(model, p + "up_exps.weight", width, ff, experts, layer.tensors[1]));
    }
    ExpertTensor& down = layer.tensors[layer.tensors_count - 1];
    LLMD_RETURN_IF_ERROR(describe_tensor(model, p + "down_exps.weight", ff, width, experts, down));
    for (int32_t t = 0; t < layer.tensors_count; t++) {
      ExpertTensor& tensor = layer.tensors[t];
      tensor.region_offset = layer.slot_bytes;
      // Enclosing blocks of a range that starts anywhere in a block.
      layer.slot_bytes += (tensor.expert_bytes + 2 * kBlock - 2) / kBlock * kBlock;
      layer.expert_bytes += tensor.expert_bytes;
    }
    catalog.moe_layers_++;
    catalog.total_bytes_ += layer.expert_bytes * static_cast<uint64_t>(experts);
  }

  catalog.classify();
  return catalog;
}

// Sizes within 0.5 % share a class (its slots take the larger); a file that mixes quant types gets several.
void ExpertCatalog::classify() {
  std::vector<uint64_t> sizes;
  for (const ExpertLayer& layer : layers_)
    if (layer.tensors_count > 0) sizes.push_back(layer.slot_bytes);
  std::sort(sizes.rbegin(), sizes.rend());
  std::vector<PoolClass>& classes = pool_shape_.classes;
  for (uint64_t size : sizes)
    if (classes.empty() || size * 1005 < classes.back().slot_bytes * 1000) classes.push_back({size, 0});
  for (ExpertLayer& layer : layers_) {
    if (layer.tensors_count > 0) {
      for (size_t c = 0; c < classes.size(); c++)
        if (layer.slot_bytes <= classes[c].slot_bytes) layer.size_class = static_cast<int32_t>(c);
      classes[static_cast<size_t>(layer.size_class)].layers++;
    }
    pool_shape_.layers.push_back({layer.size_class, layer.expert_bytes});
  }
}

uint64_t ExpertCatalog::largest_matrix_bytes() const {
  uint64_t largest = 0;
  for (const ExpertLayer& layer : layers_)
    for (int32_t t = 0; t < layer.tensors_count; t++) largest = std::max(largest, layer.tensors[t].expert_bytes);
  return largest;
}

}  // namespace llmd
