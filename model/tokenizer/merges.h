// Merges: the merge table of a byte-level BPE, and the merging itself.
//
// merge() starts from the single-byte tokens of a piece and joins, again and again, the neighbours whose merge has the
// lowest rank (of equals the leftmost), until none is left. Short pieces do that literally; long ones with a heap of
// (rank, position) whose stale entries are skipped, so the cost is n log n. A byte without a token is left out.
// load() fails with "gguf_invalid" on merges that name tokens that do not exist. Immutable after load(); any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "io/result.h"
#include "model/gguf/gguf.h"
#include "model/tokenizer/vocabulary.h"

namespace llmd {

class Merges {
 public:
  static Result<Merges> load(const GgufModel& model, const Vocabulary& vocabulary);
  /// Appends the tokens of the piece. `vocabulary` is the one it was loaded with.
  void merge(std::string_view piece, const Vocabulary& vocabulary, std::vector<int32_t>& out) const;
  uint64_t memory_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Slot {
    uint64_t pair = UINT64_MAX;  // left << 32 | right; all ones = empty
    uint32_t rank = kNoRank;
    int32_t product = -1;
  };
  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  Slot& slot_of(uint64_t pair);
  /// The pair's slot, or an empty one.
  const Slot& find(int32_t left, int32_t right) const {
    return const_cast<Merges*>(this)->slot_of(pair_of(left, right));
  }
  void merge_short(int32_t* tokens, size_t count, std::vector<int32_t>& out) const;
  void merge_long(std::vector<int32_t> tokens, std::vector<int32_t>& out) const;

  std::vector<Slot> slots_;  // open addressing, linear probing, at most two thirds full
};

}  // namespace llmd
