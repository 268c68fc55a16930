// Architecture: the part of a model that differs between families (attention and its cache), behind one interface.
//
// What is common (embedding, norms, dense FFN, routing, experts, output) lives in model/step.h; MLA implements this
// interface in model/mla.h; GQA, sparse attention and hybrids can. create() reads and checks the metadata and tensor
// table only, so `plan` and `inspect` can use it before a byte of weights is read.
//
// Life: create -> core_tensors() are loaded -> bind() -> attention() for every layer of every step, by the thread that
// leads the step. Errors of create and bind are operating "model_unsupported" or "gguf_invalid", naming key or tensor.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/result.h"
#include "kv/page_pool.h"
#include "model/activation_buffer.h"
#include "model/kernels/kernels.h"
#include "model/model_shape.h"
#include "model/thread_pool.h"

namespace llmd {

class CoreWeights;

/// Which arithmetic a row's attention uses; fixed when its request is admitted, from the request alone.
enum class AttentionForm : uint8_t { kAbsorbed, kExpanded };

/// One row of a step: a token at a position of a sequence. Rows of one sequence stand together, positions ascending.
struct Row {
  KvSequence* sequence = nullptr;
  int32_t position = 0;
  int32_t token = 0;
  AttentionForm form = AttentionForm::kAbsorbed;
  bool wants_logits = false;
};

/// Rows of other requests that may join a step beside a prompt chunk.
inline constexpr int32_t kDecodeRowsMax = 16;
/// What is computed is kept on disk. Raise this with any change that gives a KV row other bits than before.
inline constexpr int kNumericsVersion = 1;
/// The prompt length, in uncached tokens, from which prompt rows take the expanded form.
inline constexpr int32_t kExpandedPromptTokens = 128;

class Architecture {
 public:
  /// The architecture of the model, by general.architecture. `notes` gets one line for every assumption worth logging.
  static Result<std::unique_ptr<Architecture>> create(const GgufModel& model, std::vector<std::string>& notes);
  virtual ~Architecture() = default;

  const ModelShape& shape() const { return shape_; }
  virtual std::vector<KvStream> kv_streams(KvType type) const = 0;
  /// Every tensor but the routed experts that a forward pass reads.
  virtual std::vector<TensorUse> core_tensors() const = 0;
  virtual Status bind(const CoreWeights& weights, KvType kv_type) = 0;

  /// Lays out the buffers that attention needs for steps of up to `rows_max` rows (called once to count, once for
  /// real).
  virtual void carve(Carver& carver, int32_t rows_max, int threads) = 0;
  /// The attention of one layer: x holds the normed inputs of rows.size() rows (both forms, width shape().width);
  /// writes out[rows.size(), width] and the rows' entries in their sequences' streams.
  virtual void attention(int32_t layer, std::span<const Row> rows, const ActivationBuffer& x, float* out,
                         ThreadPool& threads) = 0;
  /// Called once per step before layer 0: position tables.
  virtual void begin_step(std::span<const Row> rows) = 0;

 protected:
  ModelShape shape_;
};

}  // namespace llmd
