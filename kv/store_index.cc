#include "kv/store_index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "io/check.h"

namespace llmd {
namespace {

/// Whether the first min(a, b) of both are the same.
template <typename T>
bool agree(std::span<const T> a, std::span<const T> b) {
  size_t both = std::min(a.size(), b.size());
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(both), b.begin());
}

bool agree(const StoreIndex::Record& record, std::span<const int32_t> tokens, std::span<const uint8_t> forms) {
  return agree<int32_t>(record.tokens, tokens) && agree<uint8_t>(record.forms, forms);
}

}  // namespace

size_t StoreIndex::Hash::operator()(const RecordId& id) const {
  size_t value;
  std::memcpy(&value, id.data(), sizeof(value));
  return value;
}

int32_t StoreIndex::add(const RecordHeader& header, int64_t used_ns, bool foreign, bool pending) {
  int32_t number;
  if (free_.empty()) {
    number = static_cast<int32_t>(records_.size());
    records_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  bool added = by_id_.emplace(header.id, number).second;
  LLMD_CHECK(added);
  Record& record = (*this)[number];
  record = {header.id, header.parent, header.file_bytes(), used_ns, used_ns, header.depth, foreign, pending, {}, {}};
  if (!foreign) {
    record.tokens.assign(header.tokens().begin(), header.tokens().end());
    record.forms.assign(header.forms().begin(), header.forms().end());
  }
  children_[header.parent].push_back(number);
  bytes_ += record.bytes;
  return number;
}

void StoreIndex::remove(int32_t number) {
  Record& record = (*this)[number];
  auto siblings = children_.find(record.parent);
  std::erase(siblings->second, number);
  if (siblings->second.empty()) children_.erase(siblings);
  by_id_.erase(record.id);
  bytes_ -= record.bytes;
  record = {};
  free_.push_back(number);
}

int32_t StoreIndex::find(const RecordId& id) const {
  auto at = by_id_.find(id);
  return at == by_id_.end() ? kNone : at->second;
}

const StoreIndex::Numbers& StoreIndex::children(const RecordId& id) const {
  static const Numbers kNobody;
  auto at = children_.find(id);
  return at == children_.end() ? kNobody : at->second;
}

StoreIndex::Found StoreIndex::best_child(const RecordId& parent, std::span<const int32_t> tokens,
                                         std::vector<RecordId>& whole) const {
  Found best;
  for (int32_t number : children(parent)) {
    const Record& record = (*this)[number];
    if (record.pending || record.foreign) continue;
    size_t both = std::min(record.tokens.size(), tokens.size());
    auto end = std::mismatch(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(both), record.tokens.begin());
    Found found{number, static_cast<int32_t>(end.first - tokens.begin())};
    if (found.tokens == kKvPageTokens) whole.push_back(record.id);
    if (better(found, best)) best = found;
  }
  return best;
}

bool StoreIndex::better(const Found& a, const Found& b) const {
  if (a.tokens != b.tokens) return a.tokens > b.tokens;
  return a.tokens > 0 && (*this)[a.number].used_ns > (*this)[b.number].used_ns;
}

int32_t StoreIndex::child_with(const RecordId& parent, std::span<const int32_t> tokens,
                               std::span<const uint8_t> forms) const {
  for (int32_t number : children(parent))
    if ((*this)[number].tokens.size() >= tokens.size() && agree((*this)[number], tokens, forms)) return number;
  return kNone;
}

int32_t StoreIndex::child_within(const RecordId& parent, std::span<const int32_t> tokens,
                                 std::span<const uint8_t> forms) const {
  for (int32_t number : children(parent)) {
    const Record& record = (*this)[number];
    if (!record.pending && !record.foreign && record.tokens.size() < tokens.size() && agree(record, tokens, forms))
      return number;
  }
  return kNone;
}

std::vector<int32_t> StoreIndex::subtree(int32_t number) const {
  std::vector<int32_t> found = {number};
  for (size_t i = 0; i < found.size(); i++) {
    const Numbers& more = children((*this)[found[i]].id);
    found.insert(found.end(), more.begin(), more.end());
  }
  std::reverse(found.begin(), found.end());
  return found;
}

int32_t StoreIndex::oldest_leaf() const {
  int32_t oldest = kNone;
  for (const auto& [id, number] : by_id_) {
    const Record& record = (*this)[number];
    if (record.pending || has_children(id)) continue;
    if (oldest == kNone ||
        std::pair(record.used_ns, record.id) < std::pair((*this)[oldest].used_ns, (*this)[oldest].id))
      oldest = number;
  }
  return oldest;
}

std::vector<RecordId> StoreIndex::orphans() const {
  std::vector<RecordId> found;
  for (const auto& [id, number] : by_id_) {
    const Record& record = (*this)[number];
    if (record.foreign || record.depth == 0) continue;
    int32_t parent = find(record.parent);
    bool follows = parent != kNone && (*this)[parent].depth + 1 == record.depth &&
                   (*this)[parent].tokens.size() == static_cast<size_t>(kKvPageTokens);
    if (!follows) found.push_back(id);
  }
  return found;
}

}  // namespace llmd
