#include "model/tokenizer/nfc.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/tokenizer/nfc_tables.h"
#include "model/tokenizer/utf8.h"

namespace llmd {
namespace {

// Conjoining jamo and the syllables made of them: L + V = LV, LV + T = LVT, by arithmetic.
constexpr char32_t kL = 0x1100, kV = 0x1161, kT = 0x11A7, kSyllable = 0xAC00;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSyllables = kLCount * kVCount * kTCount;

struct Character {
  char32_t code_point = 0;
  uint8_t combining_class = 0;
};

template <typename Range>
const Range* find_range(std::span<const Range> ranges, char32_t c) {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                [](char32_t value, const Range& range) { return value < range.first; });
  if (after == ranges.begin() || std::prev(after)->last < c) return nullptr;
  return &*std::prev(after);
}

uint8_t combining_class(char32_t c) {
  const CombiningClass* found = c < 0x300 ? nullptr : find_range(combining_classes(), c);
  return found ? found->value : 0;
}

const CanonicalDecomposition* decomposition(char32_t c) {
  auto all = canonical_decompositions();
  auto found = std::lower_bound(all.begin(), all.end(), c, [](const CanonicalDecomposition& entry, char32_t value) {
    return entry.composed < value;
  });
  return found != all.end() && found->composed == c ? &*found : nullptr;
}

/// The pairs that compose, sorted by their parts, and the characters that are the second part of one.
struct Pairs {
  std::vector<CanonicalDecomposition> by_parts;
  std::vector<char32_t> seconds;

  Pairs() {
    for (const CanonicalDecomposition& entry : canonical_decompositions()) {
      if (entry.second == 0 || find_range(composition_exclusions(), entry.composed)) continue;
      by_parts.push_back(entry);
      seconds.push_back(entry.second);
    }
    std::sort(by_parts.begin(), by_parts.end(), less);
    std::sort(seconds.begin(), seconds.end());
    seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
  }
  static bool less(const CanonicalDecomposition& a, const CanonicalDecomposition& b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  }
};

const Pairs& pairs() {
  static const Pairs made;
  return made;
}

/// The composed character, or 0.
char32_t compose(char32_t first, char32_t second) {
  if (first - kL < kLCount && second - kV < kVCount) {
    return kSyllable + ((first - kL) * kVCount + (second - kV)) * kTCount;
  }
  bool is_lv = first - kSyllable < kSyllables && (first - kSyllable) % kTCount == 0;
  if (is_lv && second > kT && second - kT < kTCount) return first + (second - kT);
  const std::vector<CanonicalDecomposition>& all = pairs().by_parts;
  auto found = std::lower_bound(all.begin(), all.end(), CanonicalDecomposition{0, first, second}, Pairs::less);
  return found != all.end() && found->first == first && found->second == second ? found->composed : 0;
}

bool is_plain(char32_t c) {  // no mark, no decomposition, no second part
  return c < 0x300 || (c >= 0x3100 && c < 0xA66F);
}

/// Does not join what stands before it, nor does what it decomposes to.
bool begins_segment(char32_t c) {
  if (is_plain(c)) return true;
  if (c - kV < kVCount || (c > kT && c - kT < kTCount) || combining_class(c) != 0) return false;
  if (const CanonicalDecomposition* parts = decomposition(c)) return begins_segment(parts->first);
  return !std::binary_search(pairs().seconds.begin(), pairs().seconds.end(), c);
}

void decompose(char32_t c, std::vector<Character>& out) {
  const CanonicalDecomposition* parts = c < 0xC0 ? nullptr : decomposition(c);
  if (!parts) {
    out.push_back({c, combining_class(c)});
    return;
  }
  decompose(parts->first, out);  // at most four deep
  if (parts->second != 0) out.push_back({parts->second, combining_class(parts->second)});
}

void order_marks(std::vector<Character>& segment) {
  auto is_mark = [](const Character& c) { return c.combining_class != 0; };
  for (auto at = segment.begin(); at != segment.end();) {
    auto begin = std::find_if(at, segment.end(), is_mark), end = std::find_if_not(begin, segment.end(), is_mark);
    std::stable_sort(begin, end,
                     [](const Character& a, const Character& b) { return a.combining_class < b.combining_class; });
    at = end;
  }
}

void append_utf8(char32_t c, std::string& out) {
  auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | (c >> 6));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

/// Orders and composes the decomposed segment, appends it to the text and empties it.
void finish_segment(std::vector<Character>& segment, std::string& out) {
  order_marks(segment);
  size_t kept = 0, starter = SIZE_MAX;
  int between = -1;  // the highest class kept since the starter; -1: nothing was
  for (const Character& c : segment) {
    if (starter != SIZE_MAX && between < c.combining_class) {
      char32_t composed = compose(segment[starter].code_point, c.code_point);
      if (composed != 0) {
        segment[starter].code_point = composed;
        continue;
      }
    }
    if (c.combining_class == 0) starter = kept;
    between = c.combining_class == 0 ? -1 : c.combining_class;
    segment[kept++] = c;
  }
  for (size_t i = 0; i < kept; i++) append_utf8(segment[i].code_point, out);
  segment.clear();
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& storage) {
  size_t at = 0, segment_begin = 0;
  while (at < text.size()) {  // up to the first character that is not plainly in order
    Utf8Step step = decode_utf8(text, at);
    char32_t c = step.code_point;
    if (!is_plain(c) && (decomposition(c) || !begins_segment(c))) break;
    segment_begin = at;
    at += step.length;
  }
  if (at == text.size()) return text;
  storage.assign(text, 0, segment_begin);
  std::vector<Character> segment;
  for (at = segment_begin; at < text.size();) {
    Utf8Step step = decode_utf8(text, at);
    if (begins_segment(step.code_point)) finish_segment(segment, storage);
    decompose(step.code_point, segment);
    at += step.length;
  }
  finish_segment(segment, storage);
  return storage;
}

}  // namespace llmd
