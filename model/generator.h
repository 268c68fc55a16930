// Generator: prefill and greedy or given decoding of one sequence, for eval, bench and tests.
//
// What the daemon's scheduler does for many requests, without a queue: prompt rows in chunks, then one row per token.
// Used by one thread, which leads the steps. An expert that cannot be read ends the call with its Error.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "io/result.h"
#include "model/runtime.h"

namespace llmd {

class Generator {
 public:
  /// `tokens_max`: the longest the sequence will get.
  Generator(Runtime& runtime, int32_t tokens_max);

  /// Called with the position of a row and its logits [vocab].
  using LogitsFn = std::function<void(int32_t position, std::span<const float> logits)>;
  /// Appends prompt tokens; their attention form follows from how many there are. `all` asks for the logits of every
  /// row, else only the last one's are computed.
  Status prefill(std::span<const int32_t> tokens, bool all, const LogitsFn& logits);
  /// Appends one generated token.
  Status decode(int32_t token, const LogitsFn& logits);
  /// Appends `tokens` positions of pseudo-random KV instead of computing them: what attention costs at a depth does not
  /// depend on what the cache holds. For benchmarks only.
  Status fill_context(int32_t tokens);
  int32_t length() const { return sequence_.length(); }

 private:
  Status first_error() const;

  Runtime* runtime_;
  KvSequence sequence_;
  std::vector<Row> rows_;
  std::vector<std::optional<Error>> errors_;
};

/// The largest logit's index, the lowest on a tie.
int32_t argmax(std::span<const float> logits);

}  // namespace llmd
