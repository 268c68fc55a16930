#include "model/ffn.h"

#include "io/check.h"

namespace llmd {

void Ffn::carve(Carver& carver, int64_t pairs_max, int64_t width, int64_t ff) {
  pairs_max_ = pairs_max;
  width_ = width;
  ff_ = ff;
  hidden_.carve(carver, pairs_max, ff);
  up_ = carver.take<float>(static_cast<uint64_t>(pairs_max) * static_cast<uint64_t>(ff));
}

void Ffn::run(std::span<const FfnJob> jobs, const ActivationBuffer& x, float* out, ThreadPool& threads) {
  if (jobs.empty()) return;
  for (const FfnJob& job : jobs) LLMD_CHECK(job.first_pair + job.count <= pairs_max_);
  int64_t count = static_cast<int64_t>(jobs.size());
  auto pieces_of = [](int64_t n, int64_t grain) { return (n + grain - 1) / grain; };

  int64_t grain = matmul_grain(ff_ * count, threads.threads());
  int64_t pieces = pieces_of(ff_, grain);
  Activations inputs = x.view();
  threads.run(count * pieces, [&](int64_t task, int) {
    const FfnJob& job = jobs[static_cast<size_t>(task / pieces)];
    int64_t begin = task % pieces * grain, end = begin + grain < ff_ ? begin + grain : ff_;
    float* gate = hidden_.row(job.first_pair);
    float* up = up_ + job.first_pair * ff_;
    matmul_rows(job.gate, inputs, job.x_rows, job.count, begin, end, gate, ff_);
    matmul_rows(job.up, inputs, job.x_rows, job.count, begin, end, up, ff_);
    for (int64_t i = 0; i < job.count; i++)
      kernels().silu_mul(gate + i * ff_ + begin, up + i * ff_ + begin, end - begin, gate + i * ff_ + begin);
  });

  for (const FfnJob& job : jobs) hidden_.quantize_rows(job.first_pair, job.first_pair + job.count, threads);

  grain = matmul_grain(width_ * count, threads.threads());
  pieces = pieces_of(width_, grain);
  Activations hidden = hidden_.view();
  threads.run(count * pieces, [&](int64_t task, int) {
    const FfnJob& job = jobs[static_cast<size_t>(task / pieces)];
    int64_t begin = task % pieces * grain, end = begin + grain < width_ ? begin + grain : width_;
    Activations rows = hidden;
    rows.f32 += job.first_pair * ff_;
    if (rows.values != nullptr) {
      rows.values += job.first_pair * ff_;
      rows.scales += job.first_pair * ff_ / 32;
      rows.sums += job.first_pair * ff_ / 16;
    }
    matmul_rows(job.down, rows, nullptr, job.count, begin, end, out + job.first_pair * width_, width_);
  });
}

}  // namespace llmd
