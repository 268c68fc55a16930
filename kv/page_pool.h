// KvPagePool: the KV partition of the arena, cut into pages that several holders may share, and KvSequence: the pages
// of one conversation.
//
// A page goes back to the free ones when its last holder (a sequence, the prefix tree, a write to the store) lets go.
// Shared rows are never written. The sequence that took a page fresh may append to it while others hold it, since they
// only know of rows that were there when they came; whoever was given a page, or was cut back inside one, gets a copy
// of its rows before it appends (copy on write: only the last, partial page is ever copied):
//
//   tree, B   [##########......]   B extends ->  tree [##########......]   B [##########+.....]
//   A (took)  [##########++++..]   A goes on in the same page, beyond what the others know of
//
// One thread (the one that leads the step) allocates, frees, shares and appends; compute threads read and write rows
// of pages that the leader has handed out. Nothing is allocated from the heap after construction except a sequence's
// page table, which is reserved for its longest length when the sequence is made. Running out, after the reclaimers
// have been asked, is an Error "kv_exhausted" and changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/result.h"
#include "kv/kv_layout.h"

namespace llmd {

/// Who keeps pages that it can do without (the prefix tree, writes to the store that have not begun).
class KvReclaimer {
 public:
  virtual ~KvReclaimer() = default;
  /// Lets go of `pages` pages, or of as many as it can; returns how many. They are free where nobody else holds them.
  virtual uint32_t reclaim(uint32_t pages) = 0;
};

class KvPagePool {
 public:
  /// Cuts `memory` into as many whole pages as fit. It should be aligned to kKvPageAlignment.
  KvPagePool(const KvLayout& layout, std::span<std::byte> memory);

  const KvLayout& layout() const { return layout_; }
  uint32_t pages_total() const { return pages_total_; }
  uint32_t pages_free() const { return static_cast<uint32_t>(free_.size()); }
  std::byte* page(uint32_t page) { return memory_.data() + page * page_bytes_; }

  /// Another holder of a page that is not free.
  void hold(uint32_t page);
  /// One holder less; the last one frees the page.
  void release(uint32_t page);
  uint32_t holders(uint32_t page) const { return holders_[page]; }

  /// Who is asked when pages run out, in this order.
  void add_reclaimer(KvReclaimer& reclaimer) { reclaimers_.push_back(&reclaimer); }
  void remove_reclaimer(KvReclaimer& reclaimer) { std::erase(reclaimers_, &reclaimer); }
  /// Whether `pages` pages are free, after asking the reclaimers if need be.
  bool make_free(size_t pages);

 private:
  friend class KvSequence;
  uint32_t take();

  KvLayout layout_;
  std::span<std::byte> memory_;
  uint64_t page_bytes_ = 0;
  uint32_t pages_total_ = 0;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> holders_;  // [pages_total]
  std::vector<KvReclaimer*> reclaimers_;
};

class KvSequence {
 public:
  KvSequence(KvPagePool& pool, int32_t tokens_max);
  ~KvSequence();
  KvSequence(const KvSequence&) = delete;
  KvSequence& operator=(const KvSequence&) = delete;

  int32_t length() const { return length_; }
  /// Makes room for positions [0, tokens); the rows from the former length on can be written at once. Errors: operating
  /// "kv_exhausted".
  Status extend(int32_t tokens);
  /// Forgets positions from `tokens` on and lets go of the pages that held only those.
  void truncate(int32_t tokens);
  /// Shares a page of another conversation with the same beginning; the sequence is `tokens` long with it. All its
  /// pages so far are full.
  void attach_next(uint32_t page, int32_t tokens);
  std::span<const uint32_t> pages() const { return pages_; }

  /// The row of one position in one stream.
  std::byte* row(size_t stream, int32_t position) {
    return block(stream, position / kKvPageTokens) +
           static_cast<uint64_t>(position % kKvPageTokens) * pool_->layout_.streams()[stream].bytes_per_token;
  }
  /// The 256 rows of one page of one stream.
  std::byte* block(size_t stream, int32_t index) {
    return pool_->page(pages_[static_cast<size_t>(index)]) + pool_->layout_.stream_offset(stream);
  }

 private:
  bool last_page_needs_copy() const;
  void copy_last_page();

  KvPagePool* pool_;
  std::vector<uint32_t> pages_;
  size_t sealed_ = 0;  // leading pages that must not be appended to while others hold them
  int32_t length_ = 0;
};

}  // namespace llmd
