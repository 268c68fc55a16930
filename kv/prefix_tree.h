// PrefixTree: pages of finished and running conversations by their token ids, so that a prompt is not computed twice.
//
//   space 0 --- [256 tokens]---[256 tokens]---[ 90 tokens]        one node = one page; only a leaf may be partial
//          \               \--[256 tokens]---[  7 tokens]        children may begin alike
//           \-- [ 31 tokens]
//
// A KV row follows from the token ids *and the attention forms* of all rows up to it. Nodes carry both, a form as one
// byte whose meaning is the caller's. A match goes by token ids alone and hands back the forms, with which the rows can
// be computed again to the same bytes. Two conversations with the same ids and other forms live side by side; of
// equally long matches the one used last wins. What is in one space (say, one user's) is never seen from another.
//
// The tree holds its pages like a sequence does, and gives those that nobody else holds to the pool when it runs out
// (reclaim). Which: only leaves, since a page is of no use without those before it; among them the one with the lowest
//   clock at last use + a quarter of the pool's pages * cost,   cost = 1 + depth / 64, at most 4
// where the clock counts pages that came into the tree, depth is the page's place in its conversation, and cost how
// much longer its rows take to compute than those of a first page (attention grows with depth: at about 16K tokens it
// costs as much as the rest). So a page that is four times as dear may lie idle until 3/4 of the pool has been renewed.
//
// All calls come from the thread that leads the step. reclaim() allocates nothing.
// A match walks one level for every page and looks at the siblings there. There are at most as many nodes as pages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace llmd {

class PrefixTree final : public KvReclaimer {
 public:
  /// Registers itself with the pool, which must outlive it.
  explicit PrefixTree(KvPagePool& pool);
  ~PrefixTree() override;
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  /// Gives the empty `sequence` the pages of the longest known prefix of `tokens` and sets `forms` to the forms of its
  /// rows; returns its length, which may end inside a page. For logits the last token of a prompt has to be computed:
  /// leave it out.
  int32_t match(uint64_t space, std::span<const int32_t> tokens, KvSequence& sequence, std::vector<uint8_t>& forms);
  /// How long that prefix is, leaving no trace.
  int32_t match_length(uint64_t space, std::span<const int32_t> tokens) const;

  /// Takes a share in the pages of the first tokens.size() rows of `sequence`, which have all been computed. A page
  /// that is known already stays; a partial one is replaced by a longer one that begins with it.
  void insert(uint64_t space, const KvSequence& sequence, std::span<const int32_t> tokens,
              std::span<const uint8_t> forms);

  uint32_t reclaim(uint32_t pages) override;
  /// Pages in the tree, and those of them that nobody else holds.
  uint32_t pages() const { return pages_; }
  uint32_t pages_idle() const;

 private:
  static constexpr int32_t kNone = -1;
  struct Node {
    uint64_t space = 0;
    int32_t parent = kNone;  // kNone: the first page of a conversation
    int32_t first_child = kNone;
    int32_t previous = kNone, next = kNone;  // siblings; in a free node next is the next free one
    uint32_t page = 0;
    int32_t depth = 0;  // pages before it
    double value = 0;   // the lowest goes first
    bool used = false;
    std::vector<int32_t> tokens;  // 1..256 of them
    std::vector<uint8_t> forms;
  };

  struct Found {
    int32_t node = kNone;  // the last on the way
    int32_t length = 0;    // of the match
  };
  Found find(uint64_t space, std::span<const int32_t> tokens) const;
  int32_t child_on_the_way(int32_t parent, uint64_t space, std::span<const int32_t> tokens,
                           std::span<const uint8_t> forms) const;
  int32_t& children(int32_t parent);
  int32_t first_child(int32_t parent) const;
  int32_t add(int32_t parent, uint64_t space);
  void put_page(Node& node, uint32_t page, std::span<const int32_t> tokens, std::span<const uint8_t> forms);
  void remove(int32_t index);
  void touch(Node& node);
  bool can_go(const Node& node) const;

  KvPagePool& pool_;
  std::vector<Node> nodes_;    // [pages_total]
  std::vector<bool> in_tree_;  // [pages_total]: the page belongs to a node
  int32_t free_ = kNone, roots_ = kNone;
  uint32_t pages_ = 0;
  double clock_ = 0;
};

}  // namespace llmd
