#include "kv/prefix_tree.h"

#include <algorithm>

#include "io/check.h"

namespace llmd {
namespace {

constexpr double kDepthThatDoubles = 64;  // pages
constexpr double kCostMax = 4;

template <typename T>
int32_t common_prefix(std::span<const T> a, std::span<const T> b) {
  size_t length = std::min(a.size(), b.size());
  return static_cast<int32_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length), b.begin()).first - a.begin());
}

/// What of `values` belongs into the page that begins at `first`.
template <typename T>
std::span<const T> page_of(std::span<const T> values, size_t first) {
  return values.subspan(first, std::min<size_t>(values.size() - first, kKvPageTokens));
}

}  // namespace

PrefixTree::PrefixTree(KvPagePool& pool) : pool_(pool), nodes_(pool.pages_total()), in_tree_(pool.pages_total()) {
  for (size_t i = nodes_.size(); i > 0; i--) {
    nodes_[i - 1].next = free_;
    free_ = static_cast<int32_t>(i - 1);
  }
  pool_.add_reclaimer(*this);
}

PrefixTree::~PrefixTree() {
  pool_.remove_reclaimer(*this);
  for (const Node& node : nodes_)
    if (node.used) pool_.release(node.page);
}

int32_t PrefixTree::match(uint64_t space, std::span<const int32_t> tokens, KvSequence& sequence,
                          std::vector<uint8_t>& forms) {
  LLMD_CHECK(sequence.length() == 0);
  Found found = find(space, tokens);
  std::vector<int32_t> way;  // from the last page to the first
  for (int32_t i = found.node; i != kNone; i = nodes_[static_cast<size_t>(i)].parent) way.push_back(i);
  forms.clear();
  for (size_t i = way.size(); i > 0; i--) {
    Node& node = nodes_[static_cast<size_t>(way[i - 1])];
    touch(node);
    int32_t rows = std::min(found.length - sequence.length(), kKvPageTokens);
    sequence.attach_next(node.page, sequence.length() + rows);
    forms.insert(forms.end(), node.forms.begin(), node.forms.begin() + rows);
  }
  return found.length;
}

int32_t PrefixTree::match_length(uint64_t space, std::span<const int32_t> tokens) const {
  return find(space, tokens).length;
}

void PrefixTree::insert(uint64_t space, const KvSequence& sequence, std::span<const int32_t> tokens,
                        std::span<const uint8_t> forms) {
  LLMD_CHECK(tokens.size() == forms.size() && static_cast<int32_t>(tokens.size()) <= sequence.length());
  int32_t parent = kNone;
  for (size_t first = 0; first < tokens.size(); first += kKvPageTokens) {
    uint32_t page = sequence.pages()[first / kKvPageTokens];
    std::span<const int32_t> page_tokens = page_of(tokens, first);
    std::span<const uint8_t> page_forms = page_of(forms, first);
    int32_t child = child_on_the_way(parent, space, page_tokens, page_forms);
    bool known = child != kNone && nodes_[static_cast<size_t>(child)].tokens.size() >= page_tokens.size();
    if (!known) {
      // A page is in the tree once: under two spaces nobody could tell when it may go.
      bool grown = child != kNone && nodes_[static_cast<size_t>(child)].page == page;
      if (in_tree_[page] && !grown) return;
      if (child == kNone) child = add(parent, space);
      if (child == kNone) return;
      put_page(nodes_[static_cast<size_t>(child)], page, page_tokens, page_forms);
      clock_++;
    }
    touch(nodes_[static_cast<size_t>(child)]);
    parent = child;
  }
}

uint32_t PrefixTree::reclaim(uint32_t pages) {
  for (uint32_t freed = 0; freed < pages; freed++) {
    int32_t lowest = kNone;
    for (size_t i = 0; i < nodes_.size(); i++)
      if (can_go(nodes_[i]) && (lowest == kNone || nodes_[i].value < nodes_[static_cast<size_t>(lowest)].value))
        lowest = static_cast<int32_t>(i);
    if (lowest == kNone) return freed;
    remove(lowest);
  }
  return pages;
}

uint32_t PrefixTree::pages_idle() const {
  return static_cast<uint32_t>(std::count_if(
      nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.used && pool_.holders(node.page) == 1; }));
}

// The longest known prefix. Pages with the same tokens in other forms are all followed, level by level.
PrefixTree::Found PrefixTree::find(uint64_t space, std::span<const int32_t> tokens) const {
  Found best;
  std::vector<int32_t> ways = {kNone}, further;
  for (size_t first = 0; first < tokens.size() && !ways.empty(); first += kKvPageTokens) {
    std::span<const int32_t> page_tokens = page_of(tokens, first);
    further.clear();
    for (int32_t parent : ways) {
      for (int32_t i = first_child(parent); i != kNone; i = nodes_[static_cast<size_t>(i)].next) {
        const Node& node = nodes_[static_cast<size_t>(i)];
        if (node.space != space) continue;
        int32_t common = common_prefix<int32_t>(node.tokens, page_tokens);
        if (common == 0) continue;
        if (common == kKvPageTokens) further.push_back(i);
        int32_t length = static_cast<int32_t>(first) + common;
        if (length > best.length ||
            (length == best.length && node.value > nodes_[static_cast<size_t>(best.node)].value))
          best = {i, length};
      }
    }
    ways.swap(further);
  }
  return best;
}

// The child that the page continues, or that continues the page: equal tokens and forms as far as both go.
int32_t PrefixTree::child_on_the_way(int32_t parent, uint64_t space, std::span<const int32_t> tokens,
                                     std::span<const uint8_t> forms) const {
  for (int32_t i = first_child(parent); i != kNone; i = nodes_[static_cast<size_t>(i)].next) {
    const Node& node = nodes_[static_cast<size_t>(i)];
    auto both = static_cast<int32_t>(std::min(node.tokens.size(), tokens.size()));
    if (node.space == space && common_prefix<int32_t>(node.tokens, tokens) == both &&
        common_prefix<uint8_t>(node.forms, forms) == both)
      return i;
  }
  return kNone;
}

int32_t& PrefixTree::children(int32_t parent) {
  return parent == kNone ? roots_ : nodes_[static_cast<size_t>(parent)].first_child;
}

int32_t PrefixTree::first_child(int32_t parent) const {
  return parent == kNone ? roots_ : nodes_[static_cast<size_t>(parent)].first_child;
}

int32_t PrefixTree::add(int32_t parent, uint64_t space) {
  int32_t index = free_;
  if (index == kNone) return kNone;
  Node& node = nodes_[static_cast<size_t>(index)];
  free_ = node.next;
  int32_t& first = children(parent);
  node.space = space;
  node.parent = parent;
  node.first_child = node.previous = kNone;
  node.next = first;
  node.depth = parent == kNone ? 0 : nodes_[static_cast<size_t>(parent)].depth + 1;
  if (first != kNone) nodes_[static_cast<size_t>(first)].previous = index;
  first = index;
  return index;
}

void PrefixTree::put_page(Node& node, uint32_t page, std::span<const int32_t> tokens, std::span<const uint8_t> forms) {
  pool_.hold(page);
  in_tree_[page] = true;
  if (node.used) {
    if (node.page != page) in_tree_[node.page] = false;
    pool_.release(node.page);
  } else {
    node.used = true;
    pages_++;
  }
  node.page = page;
  node.tokens.assign(tokens.begin(), tokens.end());
  node.forms.assign(forms.begin(), forms.end());
}

void PrefixTree::remove(int32_t index) {
  Node& node = nodes_[static_cast<size_t>(index)];
  (node.previous == kNone ? children(node.parent) : nodes_[static_cast<size_t>(node.previous)].next) = node.next;
  if (node.next != kNone) nodes_[static_cast<size_t>(node.next)].previous = node.previous;
  in_tree_[node.page] = false;
  pool_.release(node.page);
  node.used = false;
  pages_--;
  node.next = free_;
  free_ = index;
}

void PrefixTree::touch(Node& node) {
  double cost = std::min(kCostMax, 1 + node.depth / kDepthThatDoubles);
  node.value = clock_ + cost * static_cast<double>(nodes_.size()) / 4;
}

bool PrefixTree::can_go(const Node& node) const {
  return node.used && node.first_child == kNone && pool_.holders(node.page) == 1;
}

}  // namespace llmd
