#include "model/step.h"

#include <algorithm>
#include <cmath>

#include "io/check.h"

namespace llmd {
namespace {

// Whether none is a NaN or an infinity: in the sum of floats as doubles, which cannot overflow, those always show.
bool all_finite(std::span<const float> values) {
  double sums[4] = {};
  size_t i = 0;
  for (; i + 4 <= values.size(); i += 4)
    for (size_t k = 0; k < 4; k++) sums[k] += static_cast<double>(values[i + k]);
  for (; i < values.size(); i++) sums[0] += static_cast<double>(values[i]);
  return std::isfinite(sums[0] + sums[1] + sums[2] + sums[3]);
}

}  // namespace

void Step::carve(Carver& carver, int32_t rows_max, int threads) {
  const ModelShape& shape = architecture_->shape();
  uint64_t values = static_cast<uint64_t>(rows_max) * static_cast<uint64_t>(shape.width);
  rows_max_ = rows_max;
  hidden_ = carver.take<float>(values);
  normed_.carve(carver, rows_max, shape.width);
  sublayer_ = carver.take<float>(values);
  logits_ = carver.take<float>(static_cast<uint64_t>(std::min<int64_t>(rows_max, kLogitsRows)) *
                               static_cast<uint64_t>(shape.vocab));
  if (shape.dense_layers > 0) dense_.carve(carver, rows_max, shape.width, shape.ff_dense);
  if (shape.routing.experts > 0) MoeExecutor::carve(carver, shape, rows_max, moe_buffers_);
  architecture_->carve(carver, rows_max, threads);
  if (moe_ != nullptr) moe_->set_buffers(moe_buffers_);
}

void Step::bind(const CoreWeights& weights) {
  const ModelShape& shape = architecture_->shape();
  embedding_ = weights.matrix("token_embd.weight");
  output_ = weights.has("output.weight") ? weights.matrix("output.weight") : embedding_;  // tied
  output_norm_ = weights.vector("output_norm.weight");
  layers_.clear();
  for (int32_t i = 0; i < shape.layers; i++) {
    std::string p = "blk." + std::to_string(i) + ".";
    Layer layer;
    layer.attention_norm = weights.vector(p + "attn_norm.weight");
    layer.ffn_norm = weights.vector(p + "ffn_norm.weight");
    if (shape.is_moe(i)) {
      layer.moe.router = weights.matrix(p + "ffn_gate_inp.weight");
      layer.moe.bias = weights.vector(p + "exp_probs_b.bias");
      layer.moe.shared_gate = weights.matrix(p + "ffn_gate_shexp.weight");
      layer.moe.shared_up = weights.matrix(p + "ffn_up_shexp.weight");
      layer.moe.shared_down = weights.matrix(p + "ffn_down_shexp.weight");
    } else {
      layer.gate = weights.matrix(p + "ffn_gate.weight");
      layer.up = weights.matrix(p + "ffn_up.weight");
      layer.down = weights.matrix(p + "ffn_down.weight");
    }
    layers_.push_back(layer);
  }
}

void Step::run(std::span<const Row> rows, LogitsSink& sink, std::span<std::optional<Error>> row_errors) {
  size_t before = sweep_.rows.size();
  LLMD_CHECK(before + rows.size() <= static_cast<size_t>(rows_max_) && row_errors.size() == rows.size());
  Pass pass{rows, row_errors, hidden_ + static_cast<int64_t>(before) * architecture_->shape().width};
  begin(pass);
  while (pass.layer < architecture_->shape().layers) layer(pass);
  output(pass, sink);
  sweep_interrupted_ = true;
}

void Step::begin_sweep(std::span<const Row> rows, std::span<std::optional<Error>> row_errors) {
  LLMD_CHECK(!sweeping() && !rows.empty() && rows.size() <= static_cast<size_t>(rows_max_));
  LLMD_CHECK(row_errors.size() == rows.size());
  sweep_ = {rows, row_errors, hidden_, ExpertUse::kSweep};
  begin(sweep_);
  sweep_interrupted_ = false;
}

bool Step::sweep_layer() {
  LLMD_CHECK(sweeping() && sweep_.layer < architecture_->shape().layers);
  if (sweep_interrupted_) architecture_->begin_step(sweep_.rows);
  sweep_interrupted_ = false;
  layer(sweep_);
  return sweep_.layer < architecture_->shape().layers;
}

void Step::end_sweep(LogitsSink& sink) {
  LLMD_CHECK(sweeping() && sweep_.layer == architecture_->shape().layers);
  output(sweep_, sink);
  drop_sweep();
}

void Step::drop_sweep() {
  if (moe_ != nullptr) moe_->drop_ahead();
  sweep_ = {};
}

// Embeds the rows and tells the architecture of them.
void Step::begin(Pass& pass) {
  int64_t width = architecture_->shape().width;
  for (size_t r = 0; r < pass.rows.size(); r++) {
    LLMD_CHECK(pass.rows[r].token >= 0 && pass.rows[r].token < architecture_->shape().vocab);
    dequantize_rows(embedding_.rows(pass.rows[r].token, 1), pass.hidden + static_cast<int64_t>(r) * width);
  }
  architecture_->begin_step(pass.rows);
  if (moe_ == nullptr || static_cast<int64_t>(pass.rows.size()) <= MoeExecutor::kStepRows) return;
  moe_->expect_rows(static_cast<int64_t>(pass.rows.size()));
  moe_->read_ahead(architecture_->shape().dense_layers);
}

// hidden += from.
void Step::add(const float* from, int64_t rows, float* hidden) {
  int64_t width = architecture_->shape().width;
  threads_->run_range(rows, 8, [&](int64_t begin, int64_t end, int) {
    kernels().add(from + begin * width, (end - begin) * width, hidden + begin * width);
  });
}

// normed = rms_norm(hidden), in both forms.
void Step::norm(const float* weight, const float* hidden, int64_t rows) {
  const ModelShape& shape = architecture_->shape();
  threads_->run_range(rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      kernels().rms_norm(hidden + r * shape.width, weight, shape.rms_epsilon, shape.width, normed_.row(r));
      normed_.quantize(r);
    }
  });
}

void Step::layer(Pass& pass) {
  int32_t index = pass.layer++;
  const Layer& l = layers_[static_cast<size_t>(index)];
  const ModelShape& shape = architecture_->shape();
  int64_t count = static_cast<int64_t>(pass.rows.size());
  norm(l.attention_norm, pass.hidden, count);
  architecture_->attention(index, pass.rows, normed_, sublayer_, *threads_);
  add(sublayer_, count, pass.hidden);
  norm(l.ffn_norm, pass.hidden, count);
  if (shape.is_moe(index)) {
    NextMoeLayer next;
    if (index + 1 < shape.layers) {
      const Layer& after = layers_[static_cast<size_t>(index) + 1];
      next = {shape.is_moe(index + 1) ? index + 1 : -1, after.ffn_norm, after.moe.router, after.moe.bias};
    }
    moe_->run(index, l.moe, count, normed_, pass.hidden, pass.errors, pass.use, next);
    if (index + 1 < shape.layers && shape.is_moe(index + 1) && count > MoeExecutor::kStepRows)
      moe_->read_ahead(index + 1);
    return;
  }
  FfnJob job{l.gate, l.up, l.down, nullptr, count, 0};
  dense_.run({&job, 1}, normed_, sublayer_, *threads_);
  add(sublayer_, count, pass.hidden);
}

void Step::output(const Pass& pass, LogitsSink& sink) {
  int64_t vocab = architecture_->shape().vocab;
  norm(output_norm_, pass.hidden, static_cast<int64_t>(pass.rows.size()));
  uint32_t wanted[kLogitsRows];
  int64_t held = 0;
  auto flush = [&] {
    matmul(output_, normed_, wanted, held, logits_, vocab, *threads_);
    for (int64_t i = 0; i < held; i++) {
      std::span<const float> logits(logits_ + i * vocab, static_cast<size_t>(vocab));
      // A damaged weight shows as NaN in every logit: an error is better than a wrong token.
      if (all_finite(logits))
        sink.on_logits(wanted[i], logits);
      else
        pass.errors[wanted[i]] = operating_error(
            "model_output_invalid", "the model's output is not a number; check its file with: llmd verify");
    }
    held = 0;
  };
  for (size_t r = 0; r < pass.rows.size(); r++) {
    if (!pass.rows[r].wants_logits || pass.errors[r]) continue;
    wanted[held++] = static_cast<uint32_t>(r);
    if (held == std::min<int64_t>(kLogitsRows, rows_max_)) flush();
  }
  if (held > 0) flush();
}

}  // namespace llmd
