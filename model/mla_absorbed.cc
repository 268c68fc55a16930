// The absorbed form of MLA: queries are moved into latent space, the cache is read as it is.
//
//   q'[h] = [ k_b[h] q_nope[h] | q_rope[h] ]        one vector of r + R per head
//   block b: S = q' . rows^T -> local softmax -> o_b[h] = P . latents      (heads of a group share the block)
//   z[h]  = merge of o_b in block order;   head_out[h] = v_b[h] z[h]
#include <algorithm>

#include "model/mla.h"

namespace llmd {

void Mla::absorbed(const Layer& layer, int32_t index, std::span<const Row> rows, const uint32_t* which, int64_t count,
                   ThreadPool& threads) {
  absorbed_query(layer, which, count, threads);
  for (int64_t i = 0; i < count; i++) absorbed_row(index, rows[which[i]], i, threads);
  z_.quantize(count * mla_.heads, threads);
  absorbed_output(layer, which, count, threads);
}

void Mla::absorbed_query(const Layer& layer, const uint32_t* which, int64_t count, ThreadPool& threads) {
  int64_t heads = mla_.heads, width = mla_.row();
  for (int64_t i = 0; i < count; i++) {
    for (int64_t h = 0; h < heads; h++) {
      const float* q = q_ + (which[i] * heads + h) * mla_.key();
      std::copy(q, q + mla_.nope, q_nope_.row(i * heads + h));
      std::copy(q + mla_.nope, q + mla_.key(), q_absorbed_ + (i * heads + h) * width + mla_.latent);
    }
  }
  if (layer.k_b) q_nope_.quantize(count * heads, threads);
  threads.run(heads, [&](int64_t h, int thread) {
    float* out = q_absorbed_ + h * width;
    if (layer.k_b) {
      uint32_t list[kAbsorbedRows];
      for (int64_t i = 0; i < count; i++) list[i] = static_cast<uint32_t>(i * heads + h);
      Matrix head = layer.k_b.rows(h * mla_.latent, mla_.latent);
      matmul_rows(head, q_nope_.view(), list, count, 0, mla_.latent, out, heads * width);
      return;
    }
    // The older layout holds W_k [nope, latent] by rows: q' = q_nope W_k.
    const ThreadScratch& s = scratch_[static_cast<size_t>(thread)];
    key_weights(layer, h, s);
    kernels().gemm(q_nope_.row(h), heads * mla_.nope, s.k_weights, mla_.latent, out, heads * width, count, mla_.latent,
                   mla_.nope, false);
  });
}

void Mla::absorbed_row(int32_t index, const Row& row, int64_t slot, ThreadPool& threads) {
  int64_t heads = mla_.heads, stride = partial_stride();
  int64_t blocks = row.position / kBlock + 1;
  const float* q = q_absorbed_ + slot * heads * mla_.row();
  for (int64_t wave = 0; wave < blocks; wave += kWaveBlocks) {
    int64_t wave_blocks = std::min(kWaveBlocks, blocks - wave);
    // Few blocks: heads are split too, so that every thread has work.
    int64_t groups = std::clamp<int64_t>(threads.threads() / wave_blocks, 1, (heads + 7) / 8);
    int64_t group_heads = (heads + groups - 1) / groups;
    threads.run(wave_blocks * groups, [&](int64_t task, int thread) {
      int64_t block = wave + task / groups, first = task % groups * group_heads;
      int64_t count = std::min(group_heads, heads - first);
      if (count <= 0) return;
      absorbed_block(index, row, q + first * mla_.row(), block, count,
                     partial_ + ((block - wave) * heads + first) * stride, scratch_[static_cast<size_t>(thread)]);
    });
    threads.run_range(heads, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t h = begin; h < end; h++) {
        float* z = z_.row(slot * heads + h);
        if (wave == 0) merged_[h] = SoftmaxState{};
        for (int64_t b = 0; b < wave_blocks; b++) {
          const float* part = partial_ + (b * heads + h) * stride;
          merged_[h].merge(part[mla_.latent], part[mla_.latent + 1], part, z, mla_.latent);
        }
        if (wave + wave_blocks == blocks) merged_[h].finish(z, mla_.latent);
      }
    });
  }
}

// One block for `heads` heads: out[heads, latent + 2] = weighted sum of latents, largest score, sum of numerators.
void Mla::absorbed_block(int32_t index, const Row& row, const float* q, int64_t block, int64_t heads, float* out,
                         const ThreadScratch& s) {
  int64_t width = mla_.row(), stride = partial_stride();
  int32_t tokens = static_cast<int32_t>(std::min<int64_t>(kBlock, row.position + 1 - block * kBlock));
  int64_t padded = (tokens + 15) / 16 * 16;
  load_block(s, *row.sequence, index, static_cast<int32_t>(block), tokens);
  kernels().gemm(q, width, s.latents_t, kBlock, s.scores, kBlock, heads, padded, width, false);
  for (int64_t h = 0; h < heads; h++) {
    KernelTable::MaxSum local = kernels().softmax_block(s.scores + h * kBlock, tokens);
    out[h * stride + mla_.latent] = local.max;
    out[h * stride + mla_.latent + 1] = local.sum;
  }
  kernels().gemm(s.scores, kBlock, s.latents, width, out, stride, heads, mla_.latent, padded, false);
}

void Mla::absorbed_output(const Layer& layer, const uint32_t* which, int64_t count, ThreadPool& threads) {
  int64_t heads = mla_.heads, out_width = heads * mla_.value;
  threads.run(heads, [&](int64_t h, int) {
    uint32_t list[kAbsorbedRows];
    for (int64_t i = 0; i < count; i++) list[i] = static_cast<uint32_t>(i * heads + h);
    Matrix head = layer.v_b ? layer.v_b.rows(h * mla_.value, mla_.value)
                            : layer.kv_b.rows(h * (mla_.nope + mla_.value) + mla_.nope, mla_.value);
    matmul_rows(head, z_.view(), list, count, 0, mla_.value, absorbed_out_ + h * mla_.value, out_width);
  });
  for (int64_t i = 0; i < count; i++)
    std::copy(absorbed_out_ + i * out_width, absorbed_out_ + (i + 1) * out_width, head_out_.row(which[i]));
}

}  // namespace llmd
