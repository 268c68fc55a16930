#include "kv/page_pool.h"

#include <algorithm>

#include "io/check.h"

namespace llmd {

KvPagePool::KvPagePool(const KvLayout& layout, std::span<std::byte> memory)
    : layout_(layout), memory_(memory), pages_total_(static_cast<uint32_t>(memory.size() / layout.page_bytes())) {
  free_.reserve(pages_total_);
  for (uint32_t page = pages_total_; page > 0; page--) free_.push_back(page - 1);
}

KvSequence::KvSequence(KvPagePool& pool, int32_t tokens_max) : pool_(&pool) {
  pages_.reserve(static_cast<size_t>((tokens_max + kKvPageTokens - 1) / kKvPageTokens));
}

KvSequence::~KvSequence() {
  truncate(0);
}

Status KvSequence::extend(int32_t tokens) {
  size_t wanted = static_cast<size_t>((tokens + kKvPageTokens - 1) / kKvPageTokens);
  if (wanted > pages_.size() && wanted - pages_.size() > pool_->free_.size()) {
    return operating_error("kv_exhausted", "no KV memory is left for " + std::to_string(tokens) +
                                               " tokens; raise --kv-memory or send fewer requests at once");
  }
  while (pages_.size() < wanted) {
    pages_.push_back(pool_->free_.back());
    pool_->free_.pop_back();
  }
  length_ = std::max(length_, tokens);
  return {};
}

void KvSequence::truncate(int32_t tokens) {
  LLMD_CHECK(tokens >= 0);
  size_t kept = static_cast<size_t>((tokens + kKvPageTokens - 1) / kKvPageTokens);
  while (pages_.size() > kept) {
    pool_->free_.push_back(pages_.back());
    pages_.pop_back();
  }
  length_ = std::min(length_, tokens);
}

}  // namespace llmd
