// The parts of MLA that both forms share: buffers, query and latent projections, the cache, and the order of a layer.
#include "model/mla.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "io/check.h"

namespace llmd {
void Mla::carve(Carver& carver, int32_t rows_max, int threads) {
  auto u = [](int64_t n) { return static_cast<uint64_t>(n); };
  rows_max_ = rows_max;
  int64_t heads = mla_.heads, tile = std::min<int64_t>(rows_max, kAbsorbedRows);
  rope_.carve(carver, rows_max);
  if (mla_.q_lora > 0) q_lora_.carve(carver, rows_max, mla_.q_lora);
  q_ = carver.take<float>(u(rows_max * heads * mla_.key()));
  latent_ = carver.take<float>(u(rows_max) * u(mla_.row()));
  head_out_.carve(carver, rows_max, heads * mla_.value);
  q_nope_.carve(carver, tile * heads, mla_.nope);
  q_absorbed_ = carver.take<float>(u(tile * heads * mla_.row()));
  q_t_ = carver.take<float>(u(tile * heads_stride() * mla_.row()));
  z_.carve(carver, tile * heads, mla_.latent);
  partial_ = carver.take<float>(u(kWaveBlocks * heads * partial_stride()));
  merged_ = carver.take<SoftmaxState>(u(tile * heads));
  absorbed_out_ = carver.take<float>(u(tile * heads * mla_.value));
  scratch_.resize(static_cast<size_t>(threads));
  for (ThreadScratch& s : scratch_) {
    s.latents = carver.take<float>(u(kBlock * block_stride()));
    s.k_weights = carver.take<float>(u(mla_.nope) * u(mla_.latent));
    s.v_weights = carver.take<float>(u(mla_.latent) * u(mla_.value));
    s.dequantized = carver.take<float>(u(mla_.latent) * u(std::max(mla_.nope, mla_.value)));
    s.keys = carver.take<float>(u(mla_.nope) * kBlock);
    s.keys_t = carver.take<float>(u(mla_.key()) * kBlock);
    s.values = carver.take<float>(u(kBlock * mla_.value));
    s.scores = carver.take<float>(u(std::max<int64_t>(kTileRows, heads) * kBlock));
    s.scores_t = carver.take<float>(u(kBlock * heads_stride()));
    s.block_out = carver.take<float>(u(kTileRows * mla_.value));
    s.state = carver.take<SoftmaxState>(u(rows_max));
  }
}

void Mla::begin_step(std::span<const Row> rows) {
  LLMD_CHECK(static_cast<int64_t>(rows.size()) <= rows_max_);
  for (size_t r = 0; r < rows.size(); r++) rope_.set_position(static_cast<int64_t>(r), rows[r].position);
}

void Mla::attention(int32_t index, std::span<const Row> rows, const ActivationBuffer& x, float* out,
                    ThreadPool& threads) {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  int64_t count = static_cast<int64_t>(rows.size());
  project(layer, rows, x, threads);
  threads.run_range(count, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      finish_query(rows, r);
      store_latent(layer, rows[static_cast<size_t>(r)], index, r);
    }
  });

  // Absorbed rows in tiles; expanded rows by runs of one sequence.
  uint32_t which[kAbsorbedRows];
  int64_t held = 0;
  for (int64_t r = 0; r < count; r++) {
    if (rows[static_cast<size_t>(r)].form != AttentionForm::kAbsorbed) continue;
    which[held++] = static_cast<uint32_t>(r);
    if (held == kAbsorbedRows) {
      absorbed(layer, index, rows, which, held, threads);
      held = 0;
    }
  }
  if (held > 0) absorbed(layer, index, rows, which, held, threads);
  for (int64_t first = 0, last; first < count; first = last) {
    const Row& row = rows[static_cast<size_t>(first)];
    last = first + 1;
    if (row.form != AttentionForm::kExpanded) continue;
    while (last < count && rows[static_cast<size_t>(last)].sequence == row.sequence &&
           rows[static_cast<size_t>(last)].form == AttentionForm::kExpanded)
      last++;
    expanded(layer, index, rows.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)), first, threads);
  }

  head_out_.quantize(count, threads);
  matmul(layer.output, head_out_, nullptr, count, out, shape_.width, threads);
}

void Mla::project(const Layer& layer, std::span<const Row> rows, const ActivationBuffer& x, ThreadPool& threads) {
  int64_t count = static_cast<int64_t>(rows.size()), q_width = int64_t{mla_.heads} * mla_.key();
  matmul(layer.kv_a, x, nullptr, count, latent_, mla_.row(), threads);
  if (!layer.q_a) {
    matmul(layer.q, x, nullptr, count, q_, q_width, threads);
    return;
  }
  matmul(layer.q_a, x, nullptr, count, q_lora_.data(), mla_.q_lora, threads);
  threads.run_range(count, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      kernels().rms_norm(q_lora_.row(r), layer.q_a_norm, shape_.rms_epsilon, mla_.q_lora, q_lora_.row(r));
      q_lora_.quantize(r);
    }
  });
  matmul(layer.q_b, q_lora_, nullptr, count, q_, q_width, threads);
}

// Rotates the rope part of every head and folds the softmax scale into the query.
void Mla::finish_query(std::span<const Row> rows, int64_t r) {
  float scale = mla_.score_scale;
  if (mla_.temperature_scale > 0 && mla_.temperature_length > 0) {
    double periods = std::floor(static_cast<double>(rows[static_cast<size_t>(r)].position) / mla_.temperature_length);
    scale *= static_cast<float>(1.0 + mla_.temperature_scale * std::log(periods + 1.0));
  }
  float* q = q_ + r * mla_.heads * mla_.key();
  for (int32_t h = 0; h < mla_.heads; h++) rope_.apply(r, q + h * mla_.key() + mla_.nope);
  for (int64_t i = 0; i < int64_t{mla_.heads} * mla_.key(); i++) q[i] *= scale;
}

// Only the first r values are normed; the rope key is rotated, then both are rounded into the cache.
void Mla::store_latent(const Layer& layer, const Row& row, int32_t stream, int64_t r) {
  float* latent = latent_ + r * mla_.row();
  kernels().rms_norm(latent, layer.kv_a_norm, shape_.rms_epsilon, mla_.latent, latent);
  rope_.apply(r, latent + mla_.latent);
  kernels().kv_store(kv_type_, latent, mla_.row(), row.sequence->row(static_cast<size_t>(stream), row.position));
}

void Mla::load_latents(const ThreadScratch& scratch, KvSequence& sequence, int32_t layer, int32_t block, int32_t first,
                       int32_t tokens) {
  int64_t width = mla_.row(), stride = block_stride();
  uint64_t row_bytes = kv_bytes(kv_type_, width);
  const std::byte* stored =
      sequence.block(static_cast<size_t>(layer), block) + static_cast<uint64_t>(first) * row_bytes;
  const std::byte* stored_end = stored + static_cast<uint64_t>(tokens) * row_bytes;
  for (int32_t t = 0; t < tokens; t++) {
    // Two rows ahead: the cache is read once from memory, and the processor's own prefetch stops at page ends.
    const std::byte* ahead = stored + static_cast<uint64_t>(t + 2) * row_bytes;
    for (uint64_t at = 0; at < row_bytes && ahead + at < stored_end; at += 64) __builtin_prefetch(ahead + at);
    kernels().kv_load(kv_type_, stored + static_cast<uint64_t>(t) * row_bytes, width, scratch.latents + t * stride);
  }
  // Kernels run over whole multiples of 16 tokens: what is past the last valid one must be finite.
  int64_t padded = (tokens + 15) / 16 * 16;
  std::memset(scratch.latents + tokens * stride, 0, static_cast<size_t>((padded - tokens) * stride) * sizeof(float));
}

}  // namespace llmd
