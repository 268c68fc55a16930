// Reading and checking the metadata of the deepseek2 architecture, and naming the tensors it needs.
#include <cmath>

#include "model/core_weights.h"
#include "model/mla.h"
#include "model/routing.h"

namespace llmd {
namespace {

constexpr const char* kArch = "deepseek2";

// Reads integer keys with a range check; the first failure is kept and names the key.
class KeyReader {
 public:
  explicit KeyReader(const GgufModel& model) : model_(model) {}

  int32_t integer(const std::string& key, uint64_t low, uint64_t high, std::optional<uint64_t> fallback = {}) {
    std::string full = std::string(kArch) + "." + key;
    std::optional<uint64_t> value = model_.get_u64_at(full, 0);
    if (!value && model_.find(full) == nullptr) value = fallback;
    if (!value || *value < low || *value > high) {
      fail(full, value
                     ? "is " + std::to_string(*value) + ", outside " + std::to_string(low) + ".." + std::to_string(high)
                 : model_.find(full) ? "is not a whole number"
                                     : "is missing");
      return static_cast<int32_t>(low);
    }
    return static_cast<int32_t>(*value);
  }
  double real(const std::string& key, double low, double high, double fallback) {
    double value = model_.get_f64(std::string(kArch) + "." + key).value_or(fallback);
    if (!(value >= low && value <= high)) {
      fail(std::string(kArch) + "." + key, "is out of range");
      return low;
    }
    return value;
  }
  bool boolean(const std::string& key, bool fallback) {
    return model_.get_bool(std::string(kArch) + "." + key).value_or(fallback);
  }
  bool has(const std::string& key) const { return model_.find(std::string(kArch) + "." + key) != nullptr; }
  void fail(const std::string& key, const std::string& why) {
    if (status_.ok())
      status_ = operating_error("gguf_invalid", "metadata key " + key + " " + why, model_.shards()[0].path);
  }
  Status status() const { return status_; }

 private:
  const GgufModel& model_;
  Status status_;
};

// Files converted before October 2025 lack the group keys although the models route by groups. The published models
// that do are told by their shape.
void infer_groups(const ModelShape& shape, int32_t heads, bool bias, RoutingShape& routing,
                  std::vector<std::string>& notes) {
  if (routing.experts == 256 && routing.used == 8 && bias && shape.width == 7168 && heads == 128) {
    routing.groups = 8;
    routing.groups_used = 4;
  } else if (routing.experts == 160 && routing.used == 6 && shape.width == 5120) {
    routing.groups = 8;
    routing.groups_used = 3;
  } else {
    return;
  }
  notes.push_back("the file has no expert group keys; its shape is that of a model with 8 groups of which " +
                  std::to_string(routing.groups_used) +
                  " are used, so these are taken (--override-kv deepseek2.expert_group_count=1 turns them off)");
}

RoutingShape read_routing(KeyReader& keys, const GgufModel& model, const ModelShape& shape, int32_t heads,
                          std::vector<std::string>& notes) {
  RoutingShape routing;
  routing.experts = keys.integer("expert_count", 0, kExpertsMax, 0);
  if (routing.experts == 0) return routing;
  routing.used = keys.integer("expert_used_count", 1, std::min(routing.experts, kExpertsUsedMax));
  // An absent gating key means softmax, but for one published model that is told by its shape.
  bool glm_flash = shape.vocab == 154880 && (shape.layers == 47 || shape.layers == 48);
  uint64_t gating = static_cast<uint64_t>(keys.integer("expert_gating_func", 0, 4, 0));
  if (gating == 0) gating = glm_flash ? 2 : 1;
  routing.gating = static_cast<Gating>(gating);
  routing.normalise = keys.boolean("expert_weights_norm", false);
  double scale = keys.real("expert_weights_scale", 0, 1e4, 0);
  routing.scale = scale == 0 ? 1.0f : static_cast<float>(scale);
  std::string bias_name = "blk." + std::to_string(shape.dense_layers) + ".exp_probs_b.bias";
  bool bias = model.find_tensor(bias_name) != nullptr;
  if (!keys.has("expert_group_count")) {
    infer_groups(shape, heads, bias, routing, notes);
    return routing;
  }
  routing.groups = std::max(1, keys.integer("expert_group_count", 0, static_cast<uint64_t>(routing.experts)));
  routing.groups_used =
      routing.groups == 1 ? 1 : keys.integer("expert_group_used_count", 1, static_cast<uint64_t>(routing.groups));
  if (routing.experts % routing.groups != 0)
    keys.fail("deepseek2.expert_group_count", "does not divide the number of experts");
  else if (routing.experts / routing.groups * routing.groups_used < routing.used)
    keys.fail("deepseek2.expert_group_used_count", "leaves fewer experts than a token uses");
  return routing;
}

}  // namespace

Result<std::unique_ptr<Architecture>> Mla::create(const GgufModel& model, std::vector<std::string>& notes) {
  auto arch = std::make_unique<Mla>();
  KeyReader keys(model);
  ModelShape& shape = arch->shape_;
  MlaShape& mla = arch->mla_;
  shape.architecture = kArch;
  int32_t blocks = keys.integer("block_count", 1, 1024);
  shape.mtp_layers = keys.integer("nextn_predict_layers", 0, static_cast<uint64_t>(blocks - 1), 0);
  shape.layers = blocks - shape.mtp_layers;
  shape.dense_layers = std::min(shape.layers, keys.integer("leading_dense_block_count", 0, 1024, 0));
  shape.width = keys.integer("embedding_length", 1, 1 << 17);
  const GgufTensor* embedding = model.find_tensor("token_embd.weight");
  if (embedding == nullptr)
    return operating_error("gguf_invalid", "the model has no tensor token_embd.weight", model.shards()[0].path);
  // The embedding's rows are the vocabulary; the key, where present, must agree.
  shape.vocab = static_cast<int32_t>(std::min<uint64_t>(embedding->dims[1], 1u << 24));
  if (keys.integer("vocab_size", 1, 1u << 24, static_cast<uint64_t>(shape.vocab)) != shape.vocab)
    keys.fail("deepseek2.vocab_size", "differs from the rows of token_embd.weight");
  shape.context_trained = keys.integer("context_length", 1, 1u << 30);
  shape.rms_epsilon = static_cast<float>(keys.real("attention.layer_norm_rms_epsilon", 0, 1, 1e-6));
  if (shape.dense_layers > 0) shape.ff_dense = keys.integer("feed_forward_length", 1, 1 << 20);

  mla.heads = keys.integer("attention.head_count", 1, 1024);
  mla.latent = keys.integer("attention.kv_lora_rank", 1, 1 << 14);
  mla.rope = keys.integer("rope.dimension_count", 2, 1024);
  bool mla_keys = keys.integer("attention.key_length_mla", 0, 1 << 14, 0) > 0;
  int32_t key = keys.integer(mla_keys ? "attention.key_length_mla" : "attention.key_length", 1, 1 << 14);
  mla.value = keys.integer(mla_keys ? "attention.value_length_mla" : "attention.value_length", 1, 1 << 14);
  mla.nope = key - mla.rope;
  if (mla.nope < 1 || mla.rope % 2 != 0) keys.fail("deepseek2.rope.dimension_count", "does not fit the key length");
  bool lora = model.find_tensor("blk.0.attn_q_a.weight") != nullptr;
  mla.q_lora = lora ? keys.integer("attention.q_lora_rank", 1, 1 << 16) : 0;
  mla.split_kv_b = model.find_tensor("blk.0.attn_k_b.weight") != nullptr;
  mla.temperature_scale = static_cast<float>(keys.real("attention.temperature_scale", 0, 100, 0));
  mla.temperature_length = keys.integer("attention.temperature_length", 0, 1u << 30, 0);
  shape.routing = read_routing(keys, model, shape, mla.heads, notes);
  if (shape.routing.experts > 0) {
    shape.ff_expert = keys.integer("expert_feed_forward_length", 1, 1 << 20);
    shape.ff_shared = shape.ff_expert * keys.integer("expert_shared_count", 0, 64, 0);
  } else {
    shape.dense_layers = shape.layers;
    shape.ff_dense = keys.integer("feed_forward_length", 1, 1 << 20);
  }
  LLMD_RETURN_IF_ERROR(keys.status());
  LLMD_ASSIGN_OR_RETURN(RopeShape rope, read_rope_shape(model, kArch, mla.rope));
  mla.score_scale = static_cast<float>(rope.score_factor() / std::sqrt(static_cast<double>(mla.key())));
  arch->rope_ = Rope(rope);
  if (shape.mtp_layers > 0)
    notes.push_back("the file holds " + std::to_string(shape.mtp_layers) + " MTP block(s), which are not used yet");
  return std::unique_ptr<Architecture>(std::move(arch));
}

std::vector<TensorUse> Mla::core_tensors() const {
  std::vector<TensorUse> uses;
  auto u = [](int32_t n) { return static_cast<uint64_t>(n); };
  uint64_t width = u(shape_.width), vocab = u(shape_.vocab), heads = u(mla_.heads);
  auto matrix = [&](const std::string& name, std::vector<uint64_t> dims, bool required = true) {
    uses.push_back({name, required, false, std::move(dims)});
  };
  auto vector = [&](const std::string& name, uint64_t n, bool required = true) {
    uses.push_back({name, required, true, {n}});
  };
  matrix("token_embd.weight", {width, vocab});
  vector("output_norm.weight", width);
  matrix("output.weight", {width, vocab}, false);
  for (int32_t i = 0; i < shape_.layers; i++) {
    std::string p = "blk." + std::to_string(i) + ".";
    vector(p + "attn_norm.weight", width);
    uint64_t q_out = heads * u(mla_.key());
    if (mla_.q_lora > 0) {
      matrix(p + "attn_q_a.weight", {width, u(mla_.q_lora)});
      vector(p + "attn_q_a_norm.weight", u(mla_.q_lora));
      matrix(p + "attn_q_b.weight", {u(mla_.q_lora), q_out});
    } else {
      matrix(p + "attn_q.weight", {width, q_out});
    }
    matrix(p + "attn_kv_a_mqa.weight", {width, u(mla_.row())});
    vector(p + "attn_kv_a_norm.weight", u(mla_.latent));
    // The 3-D tensors also occur flattened to two dimensions, same bytes: only the row length is compared here, the
    // element count in bind().
    if (mla_.split_kv_b) {
      matrix(p + "attn_k_b.weight", {u(mla_.nope), 0, 0});
      matrix(p + "attn_v_b.weight", {u(mla_.latent), 0, 0});
    } else {
      matrix(p + "attn_kv_b.weight", {u(mla_.latent), heads * u(mla_.nope + mla_.value)});
    }
    matrix(p + "attn_output.weight", {heads * u(mla_.value), width});
    vector(p + "ffn_norm.weight", width);
    if (!shape_.is_moe(i)) {
      matrix(p + "ffn_gate.weight", {width, u(shape_.ff_dense)});
      matrix(p + "ffn_up.weight", {width, u(shape_.ff_dense)});
      matrix(p + "ffn_down.weight", {u(shape_.ff_dense), width});
      continue;
    }
    uses.push_back({p + "ffn_gate_inp.weight", true, true, {width, u(shape_.routing.experts)}});
    vector(p + "exp_probs_b.bias", u(shape_.routing.experts), false);
    if (shape_.ff_shared > 0) {
      matrix(p + "ffn_gate_shexp.weight", {width, u(shape_.ff_shared)});
      matrix(p + "ffn_up_shexp.weight", {width, u(shape_.ff_shared)});
      matrix(p + "ffn_down_shexp.weight", {u(shape_.ff_shared), width});
    }
  }
  return uses;
}

std::vector<KvStream> Mla::kv_streams(KvType type) const {
  std::vector<KvStream> streams;
  for (int32_t i = 0; i < shape_.layers; i++) streams.push_back({i, "latent", kv_bytes(type, mla_.row())});
  return streams;
}

Status Mla::bind(const CoreWeights& weights, KvType kv_type) {
  kv_type_ = kv_type;
  layers_.clear();
  for (int32_t i = 0; i < shape_.layers; i++) {
    std::string p = "blk." + std::to_string(i) + ".";
    Layer layer;
    layer.q = weights.matrix(p + "attn_q.weight");
    layer.q_a = weights.matrix(p + "attn_q_a.weight");
    layer.q_b = weights.matrix(p + "attn_q_b.weight");
    layer.q_a_norm = weights.vector(p + "attn_q_a_norm.weight");
    layer.kv_a = weights.matrix(p + "attn_kv_a_mqa.weight");
    layer.kv_a_norm = weights.vector(p + "attn_kv_a_norm.weight");
    layer.k_b = weights.matrix(p + "attn_k_b.weight");
    layer.v_b = weights.matrix(p + "attn_v_b.weight");
    layer.kv_b = weights.matrix(p + "attn_kv_b.weight");
    layer.output = weights.matrix(p + "attn_output.weight");
    if (mla_.split_kv_b &&
        (layer.k_b.n_out != int64_t{mla_.heads} * mla_.latent || layer.v_b.n_out != int64_t{mla_.heads} * mla_.value))
      return operating_error("gguf_invalid", "the size of " + p + "attn_k_b or attn_v_b does not fit the metadata");
    layers_.push_back(layer);
  }
  return {};
}

}  // namespace llmd
