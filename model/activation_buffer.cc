#include "model/activation_buffer.h"

#include <algorithm>

#include "io/check.h"

namespace llmd {

void ActivationBuffer::carve(Carver& carver, int64_t rows_max, int64_t n) {
  n_ = n;
  uint64_t values = static_cast<uint64_t>(rows_max) * static_cast<uint64_t>(n);
  f32_ = carver.take<float>(values);
  if (n % 32 == 0) {
    values_ = carver.take<int8_t>(values);
    scales_ = carver.take<float>(values / 32);
    sums_ = carver.take<int16_t>(values / 16);
  }
}

void ActivationBuffer::quantize(int64_t r) {
  if (n_ % 32 != 0) return;
  kernels().quantize_row(row(r), n_, values_ + r * n_, scales_ + r * n_ / 32, sums_ + r * n_ / 16);
}

void ActivationBuffer::quantize_rows(int64_t begin, int64_t end, ThreadPool& threads) {
  if (n_ % 32 != 0) return;
  int64_t rows = end - begin;
  // A small amount is done sooner than other threads are woken.
  if (rows * n_ < 65536) {
    for (int64_t r = begin; r < end; r++) quantize(r);
    return;
  }
  threads.run_range(rows, std::max<int64_t>(1, rows / 32), [&](int64_t first, int64_t last, int) {
    for (int64_t r = first; r < last; r++) quantize(begin + r);
  });
}

int64_t matmul_grain(int64_t n_out, int threads) {
  int64_t grain = n_out / (static_cast<int64_t>(threads) * 8);
  return std::max<int64_t>(16, (grain + 15) / 16 * 16);
}

void matmul_rows(const Matrix& w, const Activations& x, const uint32_t* x_rows, int64_t count, int64_t begin,
                 int64_t end, float* out, int64_t out_stride) {
  MatmulArgs args;
  args.weights = w.data;
  args.row_bytes = w.row_bytes;
  args.n_in = w.n_in;
  args.row_begin = begin;
  args.row_end = end;
  args.x = x;
  args.x_rows = x_rows;
  args.x_count = count;
  args.out = out;
  args.out_stride = out_stride;
  kernels().matmul[static_cast<uint32_t>(w.type)](args);
}

void dequantize_rows(const Matrix& w, float* out) {
  DequantizeFn dequantize = kernels().dequantize[static_cast<uint32_t>(w.type)];
  for (int64_t r = 0; r < w.n_out; r++)
    dequantize(w.data + static_cast<uint64_t>(r) * w.row_bytes, w.n_in, out + r * w.n_in);
}

void matmul(const Matrix& w, const ActivationBuffer& x, const uint32_t* x_rows, int64_t count, float* out,
            int64_t out_stride, ThreadPool& threads) {
  LLMD_CHECK(w.n_in == x.width());
  Activations view = x.view();
  threads.run_range(w.n_out, matmul_grain(w.n_out, threads.threads()), [&](int64_t begin, int64_t end, int) {
    matmul_rows(w, view, x_rows, count, begin, end, out, out_stride);
  });
}

}  // namespace llmd
