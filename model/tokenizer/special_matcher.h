// SpecialMatcher: finds the special tokens (control, unknown, user_defined) that begin at a place in a text.
//
// The texts are sorted; the candidates at a place are a range of them that is narrowed byte by byte, so a place costs
// one table look-up for most bytes and O(longest special token) at worst, however many special tokens there are.
// Refers to the vocabulary it was built from. Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "io/result.h"
#include "model/tokenizer/vocabulary.h"

namespace llmd {

class SpecialMatcher {
 public:
  struct Match {
    int32_t id = -1;
    size_t length = 0;
  };
  /// Errors: "gguf_invalid" for a special token of absurd length.
  static Result<SpecialMatcher> build(const Vocabulary& vocabulary);

  bool may_begin_with(char c) const {
    return starts_[static_cast<uint8_t>(c)] != starts_[static_cast<uint8_t>(c) + 1u];
  }
  /// The longest special token at text[at]. Control and unknown tokens must end at or before `trusted_end`.
  Match longest(const Vocabulary& vocabulary, std::string_view text, size_t at, size_t trusted_end) const;
  uint64_t memory_bytes() const { return ids_.capacity() * sizeof(int32_t); }

 private:
  std::vector<int32_t> ids_;            // sorted by text
  std::array<uint32_t, 257> starts_{};  // starts_[c]: the first id whose text begins with c or a later byte
};

}  // namespace llmd
