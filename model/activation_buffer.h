// Carver, ActivationBuffer and matmul: rows of activations in both forms, and a weight matrix applied to them.
//
// A Carver hands out pieces of one memory range; given no memory it only counts, so the plan and the real layout are
// the same code. Buffers are sized for a step's most rows and reused by every layer; nothing here allocates after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/kernels/kernels.h"
#include "model/model_shape.h"
#include "model/thread_pool.h"

namespace llmd {

class Carver {
 public:
  /// A null base counts only.
  explicit Carver(std::byte* base, uint64_t bytes = 0) : base_(base), bytes_(bytes) {}

  template <typename T>
  T* take(uint64_t count) {
    uint64_t begin = used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    LLMD_CHECK(base_ == nullptr || used_ <= bytes_);
    return base_ ? reinterpret_cast<T*>(base_ + begin) : nullptr;
  }
  uint64_t used_bytes() const { return used_; }

 private:
  std::byte* base_;
  uint64_t bytes_, used_ = 0;
};

class ActivationBuffer {
 public:
  void carve(Carver& carver, int64_t rows_max, int64_t n);

  int64_t width() const { return n_; }
  float* row(int64_t r) { return f32_ + r * n_; }
  const float* row(int64_t r) const { return f32_ + r * n_; }
  float* data() { return f32_; }
  /// The view that kernels take; quantize first where q8 weights will read it.
  Activations view() const { return {f32_, n_, values_, scales_, sums_}; }
  /// Fills the q8 form of row r from its floats (a no-op where n is not a multiple of 32: float weights only).
  void quantize(int64_t r);
  /// The same for rows [begin, end), by all threads.
  void quantize_rows(int64_t begin, int64_t end, ThreadPool& threads);
  void quantize(int64_t rows, ThreadPool& threads) { quantize_rows(0, rows, threads); }

 private:
  int64_t n_ = 0;
  float* f32_ = nullptr;
  int8_t* values_ = nullptr;
  float* scales_ = nullptr;
  int16_t* sums_ = nullptr;
};

/// out[i * out_stride + o] = w[o] . x[x_rows[i]] for i < count and all rows o of w; work is split over the threads.
void matmul(const Matrix& w, const ActivationBuffer& x, const uint32_t* x_rows, int64_t count, float* out,
            int64_t out_stride, ThreadPool& threads);
/// The same for outputs [begin, end) only, on the calling thread: for use inside a task.
void matmul_rows(const Matrix& w, const Activations& x, const uint32_t* x_rows, int64_t count, int64_t begin,
                 int64_t end, float* out, int64_t out_stride);
/// Floats of every row of w: out [n_out, n_in].
void dequantize_rows(const Matrix& w, float* out);
/// How many outputs one task should take of a matrix with n_out rows.
int64_t matmul_grain(int64_t n_out, int threads);

}  // namespace llmd
