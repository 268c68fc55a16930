// The absorbed form of MLA: queries are moved into latent space, the cache is read as it is.
//
//   q'[h] = [ k_b[h] q_nope[h] | q_rope[h] ]        one vector of r + R per head
//   block b: S^T = rows . q'^T -> transposed, local softmax -> o_b[h] = P . latents
//   z[h]  = merge of o_b in block order;   head_out[h] = v_b[h] z[h]
//
// Latents are made floats 64 tokens at a time, for the scores and again for the weighted sum: that is cheaper than a
// float copy of the block, which the weights of each layer would drive out of the cache. They are read as they lie by
// all heads of a task; only scores are transposed. The blocks of all rows at hand are one list, worked on in waves of
// kWaveBlocks: one row with a long context and many rows with short ones both keep every thread busy.
#include <algorithm>

#include "model/mla.h"

namespace llmd {

void Mla::absorbed(const Layer& layer, int32_t index, std::span<const Row> rows, const uint32_t* which, int64_t count,
                   ThreadPool& threads) {
  absorbed_query(layer, which, count, threads);
  absorbed_context(index, rows, which, count, threads);
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
    dequantize_rows(layer.kv_b.rows(h * (mla_.nope + mla_.value), mla_.nope), s.k_weights);
    kernels().gemm(q_nope_.row(h), heads * mla_.nope, s.k_weights, mla_.latent, out, heads * width, count, mla_.latent,
                   mla_.nope, false);
  });
}

void Mla::absorbed_context(int32_t index, std::span<const Row> rows, const uint32_t* which, int64_t count,
                           ThreadPool& threads) {
  int64_t heads = mla_.heads, width = mla_.row(), q_size = heads_stride() * width;
  for (int64_t i = 0; i < count; i++)
    kernels().transpose(q_absorbed_ + i * heads * width, width, q_t_ + i * q_size, heads_stride(), heads, width);
  std::fill(merged_, merged_ + count * heads, SoftmaxState{});
  RowBlock wave[kWaveBlocks];
  RowBlock next;
  while (next.slot < count) {
    int64_t size = 0;
    while (size < kWaveBlocks && next.slot < count) {
      wave[size++] = next;
      if (++next.block * kBlock > rows[which[next.slot]].position) next = {next.slot + 1, 0};
    }
    // Few blocks: heads are split too, so that every thread has work.
    int64_t groups = std::clamp<int64_t>(2 * threads.threads() / size, 1, (heads + 7) / 8);
    int64_t group = (heads + 8 * groups - 1) / (8 * groups) * 8;
    groups = (heads + group - 1) / group;
    threads.run(size * groups, [&](int64_t task, int thread) {
      const RowBlock& at = wave[task / groups];
      int64_t first = task % groups * group;
      absorbed_block(index, rows[which[at.slot]], q_t_ + at.slot * q_size + first, at.block,
                     std::min(group, heads - first), partial_ + (task / groups * heads + first) * partial_stride(),
                     scratch_[static_cast<size_t>(thread)]);
    });
    merge_wave({wave, static_cast<size_t>(size)}, rows, which, threads);
  }
}

// One block for `heads` heads, the columns of q_t: out[heads, latent + 2] = weighted sum of latents, largest score, sum
// of numerators.
void Mla::absorbed_block(int32_t index, const Row& row, const float* q_t, int64_t block, int64_t heads, float* out,
                         const ThreadScratch& s) {
  int64_t stride = partial_stride();
  int32_t tokens = static_cast<int32_t>(std::min<int64_t>(kBlock, row.position + 1 - block * kBlock));
  int64_t padded = (tokens + 15) / 16 * 16;
  for (int32_t first = 0; first < tokens; first += kTileTokens) {
    load_latents(s, *row.sequence, index, static_cast<int32_t>(block), first, std::min(kTileTokens, tokens - first));
    kernels().gemm(s.latents, block_stride(), q_t, heads_stride(), s.scores_t + first * heads_stride(), heads_stride(),
                   std::min<int64_t>(kTileTokens, padded - first), heads, mla_.row(), false);
  }
  kernels().transpose(s.scores_t, heads_stride(), s.scores, kBlock, padded, heads);
  for (int64_t h = 0; h < heads; h++) {
    KernelTable::MaxSum local = kernels().softmax_block(s.scores + h * kBlock, tokens);
    out[h * stride + mla_.latent] = local.max;
    out[h * stride + mla_.latent + 1] = local.sum;
  }
  for (int32_t first = 0; first < tokens; first += kTileTokens) {
    load_latents(s, *row.sequence, index, static_cast<int32_t>(block), first, std::min(kTileTokens, tokens - first));
    kernels().gemm(s.scores + first, kBlock, s.latents, block_stride(), out, stride, heads, mla_.latent,
                   std::min<int64_t>(kTileTokens, padded - first), first > 0);
  }
}

// Merges the wave's blocks into z, in order; a row whose last block this was is finished.
void Mla::merge_wave(std::span<const RowBlock> wave, std::span<const Row> rows, const uint32_t* which,
                     ThreadPool& threads) {
  int64_t heads = mla_.heads, first = wave.front().slot, slots = wave.back().slot - first + 1;
  threads.run_range(slots * heads, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; item++) {
      int64_t slot = first + item / heads, h = item % heads;
      float* z = z_.row(slot * heads + h);
      SoftmaxState& state = merged_[slot * heads + h];
      for (size_t w = 0; w < wave.size(); w++) {
        if (wave[w].slot != slot) continue;
        const float* part = partial_ + (static_cast<int64_t>(w) * heads + h) * partial_stride();
        state.merge(part[mla_.latent], part[mla_.latent + 1], part, z, mla_.latent);
        if (wave[w].block == rows[which[slot]].position / kBlock) state.finish(z, mla_.latent);
      }
    }
  });
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
