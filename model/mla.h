// Mla: multi-head latent attention of the deepseek2 architecture (DeepSeek-V2/V3/R1, Kimi-K2, GLM-4.7-Flash, ...).
//
// One latent row per token and layer is cached, shared by all heads:
//
//     row = [ latent r | rope key R ]        r = kv_lora_rank, R = rope dims; 512 + 64 in every published model
//
// Two forms of the same attention, chosen per row at admission:
//   absorbed   q' = k_b^T q_nope is an r-vector; scores are [q' | q_rope] . row, the output latent is sum p * latent,
//              which v_b maps to the head's output. Nothing per head is rebuilt: the form for generated rows.
//   expanded   per head, K and V of a block of 256 tokens are rebuilt from the latents in floats; the form for prompts.
// Both walk the context in fixed blocks of 256 tokens: each block's softmax is local (max m, sum l, weighted sum o) and
// blocks are merged in order, so a row's bits do not depend on chunk, tile, thread or neighbours.
// Latents are rounded to the KV type when stored and only the rounded values are ever read, also by the row itself.
//
// Layouts on file: split attn_k_b [nope, r, heads] (transposed) and attn_v_b [r, v, heads], or the older attn_kv_b
// [r, heads * (nope + v)]; told apart by tensor names. Source: DeepSeek-V2 paper, section 2.1.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/rope.h"
#include "model/softmax_state.h"

namespace llmd {

struct MlaShape {
  int32_t heads = 0, q_lora = 0;  // q_lora 0: plain attn_q
  int32_t latent = 0;             // r
  int32_t nope = 0, rope = 0, value = 0;
  bool split_kv_b = true;
  float score_scale = 1.0f;        // multiplies q before the dot products
  float temperature_scale = 0.0f;  // Mistral-Large-3: q *= 1 + scale * ln(floor(p / length) + 1)
  int32_t temperature_length = 0;

  int32_t key() const { return nope + rope; }
  int32_t row() const { return latent + rope; }  // cached values per token
};

class Mla : public Architecture {
 public:
  static Result<std::unique_ptr<Architecture>> create(const GgufModel& model, std::vector<std::string>& notes);

  std::vector<KvStream> kv_streams(KvType type) const override;
  std::vector<TensorUse> core_tensors() const override;
  Status bind(const CoreWeights& weights, KvType kv_type) override;
  void carve(Carver& carver, int32_t rows_max, int threads) override;
  void begin_step(std::span<const Row> rows) override;
  void attention(int32_t layer, std::span<const Row> rows, const ActivationBuffer& x, float* out,
                 ThreadPool& threads) override;

  const MlaShape& mla() const { return mla_; }
  const RopeShape& rope_shape() const { return rope_.shape(); }

 private:
  struct Layer {
    Matrix q, q_a, q_b, kv_a, k_b, v_b, kv_b, output;
    const float* q_a_norm = nullptr;
    const float* kv_a_norm = nullptr;
  };
  struct ThreadScratch {
    float* latents = nullptr;       // [256, block_stride] one block of the cache, as floats
    float* k_weights = nullptr;     // one head: [latent, nope] (expanded) or [nope, latent] (absorbed, older layout)
    float* v_weights = nullptr;     // [latent, value] one head
    float* dequantized = nullptr;   // [max(latent * nope, value * latent)] before a transpose
    float* keys = nullptr;          // [256, nope]
    float* keys_t = nullptr;        // [key, 256]
    float* values = nullptr;        // [256, value]
    float* scores = nullptr;        // [max(kTileRows, heads), 256]
    float* scores_t = nullptr;      // [256, heads_stride]
    float* block_out = nullptr;     // [kTileRows, value]
    SoftmaxState* state = nullptr;  // [rows] running softmax of one head
  };
  static constexpr int64_t kBlock = kKvPageTokens;
  static constexpr int64_t kTileRows = 64;      // query rows that share one rebuilt block (expanded)
  static constexpr int32_t kTileTokens = 64;    // latents that are floats at once (absorbed)
  static constexpr int64_t kAbsorbedRows = 16;  // rows whose absorbed queries are held at once
  static constexpr int64_t kWaveBlocks = 16;    // blocks whose partial results are held at once
  /// One block of the context of one of the rows at hand.
  struct RowBlock {
    int64_t slot = 0, block = 0;
  };
  int64_t partial_stride() const { return mla_.latent + 2; }
  int64_t heads_stride() const { return (mla_.heads + 15) / 16 * 16; }
  // In floats. An odd number of cache lines: walking down a column then uses every set of the cache.
  int64_t block_stride() const { return (mla_.row() + 15) / 16 * 16 + ((mla_.row() + 15) / 16 % 2 == 0 ? 16 : 0); }

  void project(const Layer& layer, std::span<const Row> rows, const ActivationBuffer& x, ThreadPool& threads);
  void finish_query(std::span<const Row> rows, int64_t r);
  void store_latent(const Layer& layer, const Row& row, int32_t stream, int64_t r);
  /// Floats of rows [first, first + tokens) of a block of a sequence's stream, and zeros up to a multiple of 16.
  void load_latents(const ThreadScratch& scratch, KvSequence& sequence, int32_t layer, int32_t block, int32_t first,
                    int32_t tokens);

  void absorbed(const Layer& layer, int32_t index, std::span<const Row> rows, const uint32_t* which, int64_t count,
                ThreadPool& threads);
  void absorbed_query(const Layer& layer, const uint32_t* which, int64_t count, ThreadPool& threads);
  void absorbed_context(int32_t index, std::span<const Row> rows, const uint32_t* which, int64_t count,
                        ThreadPool& threads);
  void absorbed_block(int32_t index, const Row& row, const float* q_t, int64_t block, int64_t heads, float* out,
                      const ThreadScratch& scratch);
  void merge_wave(std::span<const RowBlock> wave, std::span<const Row> rows, const uint32_t* which,
                  ThreadPool& threads);
  void absorbed_output(const Layer& layer, const uint32_t* which, int64_t count, ThreadPool& threads);

  void expanded(const Layer& layer, int32_t index, std::span<const Row> rows, int64_t first, ThreadPool& threads);
  void expanded_head(const Layer& layer, int32_t index, std::span<const Row> rows, int64_t first, int32_t head,
                     const ThreadScratch& scratch);
  void expanded_tile(const float* q, float* out, std::span<const Row> rows, int64_t begin, int64_t count, int64_t block,
                     const ThreadScratch& scratch);
  /// W_k^T [latent, nope] and W_v^T [latent, value] of one head, as floats.
  void key_weights_t(const Layer& layer, int64_t head, const ThreadScratch& scratch);
  void value_weights_t(const Layer& layer, int64_t head, const ThreadScratch& scratch);

  MlaShape mla_;
  Rope rope_;
  KvType kv_type_ = KvType::kF16;
  std::vector<Layer> layers_;

  // Step buffers. q [rows, heads * key]; heads' outputs [rows, heads * value].
  ActivationBuffer q_lora_;
  float* q_ = nullptr;
  float* latent_ = nullptr;  // [rows, row] before rounding
  ActivationBuffer head_out_;
  ActivationBuffer q_nope_;         // [tile rows * heads, nope]
  float* q_absorbed_ = nullptr;     // [tile rows, heads, row]
  float* q_t_ = nullptr;            // [tile rows, row, heads_stride] the same, transposed
  ActivationBuffer z_;              // [tile rows * heads, latent]
  float* partial_ = nullptr;        // [kWaveBlocks, heads, latent + 2]: weighted sum, max and sum of one block
  SoftmaxState* merged_ = nullptr;  // [tile rows, heads]
  float* absorbed_out_ = nullptr;   // [tile rows, heads * value]
  std::vector<ThreadScratch> scratch_;
  int32_t rows_max_ = 0;
};

}  // namespace llmd
