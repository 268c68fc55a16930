#include "model/generator.h"

#include <algorithm>

namespace llmd {
namespace {

class FunctionSink final : public LogitsSink {
 public:
  FunctionSink(std::span<const Row> rows, const Generator::LogitsFn& logits) : rows_(rows), logits_(logits) {}
  void on_logits(size_t row, std::span<const float> logits) override { logits_(rows_[row].position, logits); }

 private:
  std::span<const Row> rows_;
  const Generator::LogitsFn& logits_;
};

}  // namespace

Generator::Generator(Runtime& runtime, int32_t tokens_max) : runtime_(&runtime), sequence_(runtime.kv(), tokens_max) {
  size_t rows = static_cast<size_t>(runtime.step().rows_max());
  rows_.reserve(rows);
  errors_.reserve(rows);
}

Status Generator::prefill(std::span<const int32_t> tokens, bool all, const LogitsFn& logits) {
  int32_t begin = sequence_.length(), count = static_cast<int32_t>(tokens.size());
  LLMD_RETURN_IF_ERROR(sequence_.extend(begin + count));
  AttentionForm form = count >= kExpandedPromptTokens ? AttentionForm::kExpanded : AttentionForm::kAbsorbed;
  int32_t chunk = std::min(runtime_->plan().prefill_chunk, runtime_->step().rows_max());
  for (int32_t first = 0; first < count; first += chunk) {
    rows_.clear();
    for (int32_t i = first; i < std::min(count, first + chunk); i++)
      rows_.push_back({&sequence_, begin + i, tokens[static_cast<size_t>(i)], form, all || i + 1 == count});
    errors_.assign(rows_.size(), std::nullopt);
    FunctionSink sink(rows_, logits);
    runtime_->step().begin_sweep(rows_, errors_);
    while (runtime_->step().sweep_layer()) {
    }
    runtime_->step().end_sweep(sink);
    LLMD_RETURN_IF_ERROR(first_error());
  }
  return {};
}

Status Generator::decode(int32_t token, const LogitsFn& logits) {
  int32_t position = sequence_.length();
  LLMD_RETURN_IF_ERROR(sequence_.extend(position + 1));
  Row row{&sequence_, position, token, AttentionForm::kAbsorbed, true};
  errors_.assign(1, std::nullopt);
  FunctionSink sink({&row, 1}, logits);
  runtime_->step().run({&row, 1}, sink, errors_);
  return first_error();
}

Status Generator::fill_context(int32_t tokens) {
  LLMD_RETURN_IF_ERROR(sequence_.extend(sequence_.length() + tokens));
  KvType type = runtime_->kv_type();
  const std::vector<KvStream>& streams = runtime_->kv().layout().streams();
  uint32_t state = 1;
  std::vector<float> row;
  for (size_t s = 0; s < streams.size(); s++) {
    row.resize(streams[s].bytes_per_token * 32 / kv_bytes(type, 32));
    for (int32_t t = sequence_.length() - tokens; t < sequence_.length(); t++) {
      for (float& value : row) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
      }
      kernels().kv_store(type, row.data(), static_cast<int64_t>(row.size()), sequence_.row(s, t));
    }
  }
  return {};
}

Status Generator::first_error() const {
  for (const std::optional<Error>& error : errors_)
    if (error) return *error;
  return {};
}

int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace llmd
