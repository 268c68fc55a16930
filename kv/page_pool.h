// KvPagePool: the KV partition of the arena, cut into pages, and KvSequence: the pages of one conversation.
//
// One thread (the one that leads the step) allocates, frees and appends; compute threads read and write rows of pages
// that the leader has handed out. Nothing is allocated from the heap after construction except a sequence's page table,
// which is reserved for its longest length when the sequence is made. Running out is an Error "kv_exhausted".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/result.h"
#include "kv/kv_layout.h"

namespace llmd {

class KvPagePool {
 public:
  /// Cuts `memory` into as many whole pages as fit.
  KvPagePool(const KvLayout& layout, std::span<std::byte> memory);

  const KvLayout& layout() const { return layout_; }
  uint32_t pages_total() const { return pages_total_; }
  uint32_t pages_free() const { return static_cast<uint32_t>(free_.size()); }

 private:
  friend class KvSequence;
  KvLayout layout_;
  std::span<std::byte> memory_;
  uint32_t pages_total_ = 0;
  std::vector<uint32_t> free_;
};

class KvSequence {
 public:
  KvSequence(KvPagePool& pool, int32_t tokens_max);
  ~KvSequence();
  KvSequence(const KvSequence&) = delete;
  KvSequence& operator=(const KvSequence&) = delete;

  int32_t length() const { return length_; }
  /// Makes room for positions [0, tokens); their rows can be written at once. Errors: operating "kv_exhausted".
  Status extend(int32_t tokens);
  /// Forgets positions from `tokens` on and returns the pages that held only those.
  void truncate(int32_t tokens);

  /// The row of one position in one stream.
  std::byte* row(size_t stream, int32_t position) {
    return block(stream, position / kKvPageTokens) +
           static_cast<uint64_t>(position % kKvPageTokens) * pool_->layout_.streams()[stream].bytes_per_token;
  }
  /// The 256 rows of one page of one stream.
  std::byte* block(size_t stream, int32_t index) {
    return pool_->memory_.data() + pages_[static_cast<size_t>(index)] * pool_->layout_.page_bytes() +
           pool_->layout_.stream_offset(stream);
  }

 private:
  KvPagePool* pool_;
  std::vector<uint32_t> pages_;
  int32_t length_ = 0;
};

}  // namespace llmd
