#include "model/tokenizer/merges.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>

namespace llmd {
namespace {

constexpr size_t kShortMax = 64;       // bytes; longer pieces use the heap
constexpr size_t kLongMax = 1u << 30;  // bytes; a longer piece (no text is) is cut, so that positions fit 32 bits

}  // namespace

Merges::Slot& Merges::slot_of(uint64_t pair) {
  uint64_t hash = pair * 0x9E3779B97F4A7C15u;
  size_t mask = slots_.size() - 1, at = (hash ^ (hash >> 32)) & mask;
  while (slots_[at].pair != pair && slots_[at].pair != UINT64_MAX) at = (at + 1) & mask;
  return slots_[at];
}

Result<Merges> Merges::load(const GgufModel& model, const Vocabulary& vocabulary) {
  const GgufArray* array = model.get_array("tokenizer.ggml.merges");
  const auto* lines = array ? std::get_if<std::vector<std::string>>(&array->items) : nullptr;
  if (!lines) return vocabulary_error("tokenizer.ggml.merges is missing or not of strings");
  if (lines->size() >= kNoRank) return vocabulary_error("tokenizer.ggml.merges has too many entries");
  Merges merges;
  size_t slots = 16;
  while (slots < lines->size() + lines->size() / 2) slots *= 2;
  merges.slots_.resize(slots);
  std::string product;
  for (uint32_t rank = 0; rank < lines->size(); rank++) {
    const std::string& line = (*lines)[rank];
    size_t space = line.find(' ', 1);
    std::string where = "merge " + std::to_string(rank);
    if (space == std::string::npos || space + 1 == line.size())
      return vocabulary_error(where + " is not of two tokens");
    std::string_view left_text = std::string_view(line).substr(0, space);
    std::string_view right_text = std::string_view(line).substr(space + 1);
    product.assign(left_text).append(right_text);
    int32_t left = vocabulary.find(left_text), right = vocabulary.find(right_text);
    int32_t joined = vocabulary.find(product);
    if (left < 0 || right < 0 || joined < 0) return vocabulary_error(where + " names a token that does not exist");
    // Plain text must never become a control token, whatever the file says.
    if (!vocabulary.is_plain(left) || !vocabulary.is_plain(right) || !vocabulary.is_plain(joined)) continue;
    Slot& slot = merges.slot_of(pair_of(left, right));
    if (slot.rank == kNoRank) slot = {pair_of(left, right), rank, joined};  // of duplicates the first counts
  }
  return merges;
}

void Merges::merge(std::string_view piece, const Vocabulary& vocabulary, std::vector<int32_t>& out) const {
  if (piece.size() <= kShortMax) {
    std::array<int32_t, kShortMax> tokens;
    size_t count = 0;
    for (char c : piece) {
      int32_t id = vocabulary.byte_token(static_cast<uint8_t>(c));
      if (id >= 0) tokens[count++] = id;
    }
    merge_short(tokens.data(), count, out);
    return;
  }
  for (size_t at = 0; at < piece.size(); at += kLongMax) {
    std::vector<int32_t> tokens;
    tokens.reserve(std::min(kLongMax, piece.size() - at));
    for (char c : piece.substr(at, kLongMax)) {
      int32_t id = vocabulary.byte_token(static_cast<uint8_t>(c));
      if (id >= 0) tokens.push_back(id);
    }
    merge_long(std::move(tokens), out);
  }
}

void Merges::merge_short(int32_t* tokens, size_t count, std::vector<int32_t>& out) const {
  std::array<const Slot*, kShortMax> pairs;  // pairs[i] joins tokens[i] and tokens[i + 1]
  for (size_t i = 0; i + 1 < count; i++) pairs[i] = &find(tokens[i], tokens[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; i++) {
      if (pairs[i]->rank < pairs[best]->rank) best = i;
    }
    if (pairs[best]->rank == kNoRank) break;
    tokens[best] = pairs[best]->product;
    std::copy(tokens + best + 2, tokens + count, tokens + best + 1);
    count--;
    if (best + 1 < count) {
      std::copy(pairs.data() + best + 2, pairs.data() + count, pairs.data() + best + 1);
      pairs[best] = &find(tokens[best], tokens[best + 1]);
    }
    if (best > 0) pairs[best - 1] = &find(tokens[best - 1], tokens[best]);
  }
  out.insert(out.end(), tokens, tokens + count);
}

// The tokens stay where they are; a merge writes its product over the left one and takes the right one out of a linked
// list. ranks[i] is the rank of the pair that begins at i (kNoRank for a token that is gone), so a heap entry is stale
// exactly when its rank is not ranks[its position]. Each merge adds at most two entries and takes one: fewer than two a
// byte in all, and 32 bytes of memory a byte.
void Merges::merge_long(std::vector<int32_t> tokens, std::vector<int32_t>& out) const {
  uint32_t count = static_cast<uint32_t>(tokens.size());
  std::vector<uint32_t> ranks(count, kNoRank), next(count), previous(count);
  std::vector<uint64_t> entries;  // rank << 32 | position
  entries.reserve(size_t{2} * count);
  for (uint32_t i = 0; i < count; i++) {
    next[i] = i + 1;
    previous[i] = i - 1;
    if (i + 1 == count) break;
    ranks[i] = find(tokens[i], tokens[i + 1]).rank;
    if (ranks[i] != kNoRank) entries.push_back(static_cast<uint64_t>(ranks[i]) << 32 | i);
  }
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap(std::greater<>{}, std::move(entries));
  auto update = [&](uint32_t at) {
    ranks[at] = next[at] < count ? find(tokens[at], tokens[next[at]]).rank : kNoRank;
    if (ranks[at] != kNoRank) heap.push(static_cast<uint64_t>(ranks[at]) << 32 | at);
  };
  while (!heap.empty()) {
    uint32_t at = static_cast<uint32_t>(heap.top());
    uint32_t rank = static_cast<uint32_t>(heap.top() >> 32);
    heap.pop();
    if (ranks[at] != rank) continue;
    uint32_t gone = next[at];
    tokens[at] = find(tokens[at], tokens[gone]).product;
    ranks[gone] = kNoRank;
    next[at] = next[gone];
    if (next[at] < count) previous[next[at]] = at;
    update(at);
    if (at > 0) update(previous[at]);
  }
  for (uint32_t i = 0; i < count; i = next[i]) out.push_back(tokens[i]);
}

}  // namespace llmd
