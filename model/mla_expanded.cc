// The expanded form of MLA: keys and values of a block of 256 tokens are rebuilt per head from the latents, in floats.
//
//   for a head:  W_k^T [r, nope], W_v^T [r, value] dequantised once
//     for a block:  K = [ latents . W_k^T | rope keys ]  [256, key], transposed     V = latents . W_v^T  [256, value]
//       for a tile of query rows:  S = Q K^T -> mask by length -> local softmax -> o = P V -> merged in block order
// Heads are independent tasks. Blocks past a tile's last row are skipped; there is no n x n matrix.
#include <algorithm>

#include "model/mla.h"

namespace llmd {

void Mla::expanded(const Layer& layer, int32_t index, std::span<const Row> rows, int64_t first, ThreadPool& threads) {
  threads.run(mla_.heads, [&](int64_t head, int thread) {
    expanded_head(layer, index, rows, first, static_cast<int32_t>(head), scratch_[static_cast<size_t>(thread)]);
  });
}

// rows are one sequence's, ascending; rows[0] is row `first` of the step's buffers.
void Mla::expanded_head(const Layer& layer, int32_t index, std::span<const Row> rows, int64_t first, int32_t head,
                        const ThreadScratch& s) {
  int64_t count = static_cast<int64_t>(rows.size());
  int64_t q_stride = int64_t{mla_.heads} * mla_.key();
  const float* q = q_ + first * q_stride + int64_t{head} * mla_.key();
  float* out = head_out_.row(first) + int64_t{head} * mla_.value;
  key_weights_t(layer, head, s);
  value_weights_t(layer, head, s);
  std::fill(s.state, s.state + count, SoftmaxState{});
  int32_t last_position = rows.back().position;
  for (int64_t block = 0; block * kBlock <= last_position; block++) {
    int32_t tokens = static_cast<int32_t>(std::min<int64_t>(kBlock, last_position + 1 - block * kBlock));
    int64_t padded = (tokens + 15) / 16 * 16;
    load_latents(s, *rows[0].sequence, index, static_cast<int32_t>(block), 0, tokens);
    int64_t stride = block_stride();
    kernels().gemm(s.latents, stride, s.k_weights, mla_.nope, s.keys, mla_.nope, padded, mla_.nope, mla_.latent, false);
    kernels().transpose(s.keys, mla_.nope, s.keys_t, kBlock, padded, mla_.nope);
    kernels().transpose(s.latents + mla_.latent, stride, s.keys_t + mla_.nope * kBlock, kBlock, padded, mla_.rope);
    kernels().gemm(s.latents, stride, s.v_weights, mla_.value, s.values, mla_.value, padded, mla_.value, mla_.latent,
                   false);
    for (int64_t begin = 0; begin < count; begin += kTileRows) {
      int64_t tile = std::min(kTileRows, count - begin);
      if (rows[static_cast<size_t>(begin + tile - 1)].position < block * kBlock) continue;
      expanded_tile(q, out, rows, begin, tile, block, s);
    }
  }
  for (int64_t r = 0; r < count; r++) s.state[r].finish(out + r * head_out_.width(), mla_.value);
}

void Mla::expanded_tile(const float* q, float* out, std::span<const Row> rows, int64_t begin, int64_t count,
                        int64_t block, const ThreadScratch& s) {
  int64_t q_stride = int64_t{mla_.heads} * mla_.key();
  // Rows before the block see none of it; positions ascend, so they stand first in the tile.
  while (rows[static_cast<size_t>(begin)].position < block * kBlock) {
    begin++;
    count--;
  }
  int64_t visible =
      std::min<int64_t>(kBlock, rows[static_cast<size_t>(begin + count - 1)].position + 1 - block * kBlock);
  int64_t padded = (visible + 15) / 16 * 16;
  kernels().gemm(q + begin * q_stride, q_stride, s.keys_t, kBlock, s.scores, kBlock, count, padded, mla_.key(), false);
  KernelTable::MaxSum local[kTileRows];
  for (int64_t i = 0; i < count; i++) {
    int64_t seen = std::min<int64_t>(kBlock, rows[static_cast<size_t>(begin + i)].position + 1 - block * kBlock);
    float* scores = s.scores + i * kBlock;
    local[i] = kernels().softmax_block(scores, seen);
    std::fill(scores + (seen + 15) / 16 * 16, scores + std::max(padded, (seen + 15) / 16 * 16), 0.0f);
  }
  kernels().gemm(s.scores, kBlock, s.values, mla_.value, s.block_out, mla_.value, count, mla_.value, padded, false);
  for (int64_t i = 0; i < count; i++)
    s.state[begin + i].merge(local[i].max, local[i].sum, s.block_out + i * mla_.value,
                             out + (begin + i) * head_out_.width(), mla_.value);
}

void Mla::key_weights_t(const Layer& layer, int64_t head, const ThreadScratch& s) {
  if (layer.k_b) {  // stored like this: [latent, nope]
    dequantize_rows(layer.k_b.rows(head * mla_.latent, mla_.latent), s.k_weights);
    return;
  }
  dequantize_rows(layer.kv_b.rows(head * (mla_.nope + mla_.value), mla_.nope), s.dequantized);
  kernels().transpose(s.dequantized, mla_.latent, s.k_weights, mla_.nope, mla_.nope, mla_.latent);
}

void Mla::value_weights_t(const Layer& layer, int64_t head, const ThreadScratch& s) {
  dequantize_rows(layer.v_b ? layer.v_b.rows(head * mla_.value, mla_.value)
                            : layer.kv_b.rows(head * (mla_.nope + mla_.value) + mla_.nope, mla_.value),
                  s.dequantized);
  kernels().transpose(s.dequantized, mla_.latent, s.v_weights, mla_.value, mla_.value, mla_.latent);
}

}  // namespace llmd
