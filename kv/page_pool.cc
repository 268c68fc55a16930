#include "kv/page_pool.h"

#include <algorithm>
#include <cstring>

#include "io/check.h"

namespace llmd {

KvPagePool::KvPagePool(const KvLayout& layout, std::span<std::byte> memory)
    : layout_(layout),
      memory_(memory),
      page_bytes_(layout.page_bytes()),
      pages_total_(static_cast<uint32_t>(memory.size() / page_bytes_)),
      holders_(pages_total_) {
  free_.reserve(pages_total_);
  for (uint32_t page = pages_total_; page > 0; page--) free_.push_back(page - 1);
}

void KvPagePool::hold(uint32_t page) {
  LLMD_CHECK(holders_[page] > 0);
  holders_[page]++;
}

void KvPagePool::release(uint32_t page) {
  LLMD_CHECK(holders_[page] > 0);
  if (--holders_[page] == 0) free_.push_back(page);
}

bool KvPagePool::make_free(size_t pages) {
  // Twice, since what one lets go of may be held by another that was asked before.
  for (int round = 0; round < 2; round++)
    for (KvReclaimer* reclaimer : reclaimers_)
      if (pages > free_.size()) reclaimer->reclaim(static_cast<uint32_t>(pages - free_.size()));
  return pages <= free_.size();
}

uint32_t KvPagePool::take() {
  uint32_t page = free_.back();
  free_.pop_back();
  holders_[page] = 1;
  return page;
}

KvSequence::KvSequence(KvPagePool& pool, int32_t tokens_max) : pool_(&pool) {
  pages_.reserve(kv_pages(tokens_max));
}

KvSequence::~KvSequence() {
  truncate(0);
}

Status KvSequence::extend(int32_t tokens) {
  if (tokens <= length_) return {};
  size_t wanted = kv_pages(tokens);
  bool copy = last_page_needs_copy();
  if (!pool_->make_free(wanted - pages_.size() + (copy ? 1 : 0))) {
    return operating_error("kv_exhausted", "no KV memory is left for " + std::to_string(tokens) +
                                               " tokens; raise --kv-memory or send fewer requests at once");
  }
  if (copy) copy_last_page();
  sealed_ = std::min(sealed_, static_cast<size_t>(length_ / kKvPageTokens));  // what is appended to is its own now
  while (pages_.size() < wanted) pages_.push_back(pool_->take());
  length_ = tokens;
  return {};
}

void KvSequence::truncate(int32_t tokens) {
  LLMD_CHECK(tokens >= 0);
  if (tokens >= length_) return;
  while (pages_.size() > kv_pages(tokens)) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
  length_ = tokens;
  // Rows of the last page from here on may be known to its other holders.
  sealed_ = !pages_.empty() && pool_->holders(pages_.back()) > 1 ? pages_.size() : std::min(sealed_, pages_.size());
}

void KvSequence::attach_next(uint32_t page, int32_t tokens) {
  LLMD_CHECK(length_ == static_cast<int32_t>(pages_.size()) * kKvPageTokens && tokens > length_ &&
             kv_pages(tokens) == pages_.size() + 1);
  pool_->hold(page);
  pages_.push_back(page);
  sealed_ = pages_.size();
  length_ = tokens;
}

bool KvSequence::last_page_needs_copy() const {
  return length_ % kKvPageTokens != 0 && sealed_ == pages_.size() && pool_->holders(pages_.back()) > 1;
}

void KvSequence::copy_last_page() {
  uint32_t from = pages_.back(), to = pool_->take();
  auto rows = static_cast<uint64_t>(length_ % kKvPageTokens);
  const std::vector<KvStream>& streams = pool_->layout_.streams();
  for (size_t s = 0; s < streams.size(); s++) {
    uint64_t offset = pool_->layout_.stream_offset(s);
    std::memcpy(pool_->page(to) + offset, pool_->page(from) + offset, rows * streams[s].bytes_per_token);
  }
  pages_.back() = to;
  pool_->release(from);
}

}  // namespace llmd
