#include "model/tokenizer/special_matcher.h"

#include <algorithm>

namespace llmd {
namespace {

constexpr size_t kSpecialBytesMax = 4096;

}  // namespace

Result<SpecialMatcher> SpecialMatcher::build(const Vocabulary& vocabulary) {
  SpecialMatcher matcher;
  for (int32_t id = 0; id < vocabulary.size(); id++) {
    if (!vocabulary.is_special(id) || vocabulary.text(id).empty()) continue;
    if (vocabulary.text(id).size() > kSpecialBytesMax) {
      return vocabulary_error("the special token " + std::to_string(id) + " is longer than 4,096 bytes");
    }
    matcher.ids_.push_back(id);
  }
  std::sort(matcher.ids_.begin(), matcher.ids_.end(),
            [&](int32_t a, int32_t b) { return vocabulary.text(a) < vocabulary.text(b); });
  for (int32_t id : matcher.ids_) matcher.starts_[static_cast<uint8_t>(vocabulary.text(id)[0]) + 1u]++;
  for (size_t i = 1; i < matcher.starts_.size(); i++) matcher.starts_[i] += matcher.starts_[i - 1];
  return matcher;
}

SpecialMatcher::Match SpecialMatcher::longest(const Vocabulary& vocabulary, std::string_view text, size_t at,
                                              size_t trusted_end) const {
  Match best;
  uint8_t first = static_cast<uint8_t>(text[at]);
  auto begin = ids_.begin() + starts_[first], end = ids_.begin() + starts_[first + 1u];
  // All of [begin, end) agree with the text in the first `depth` bytes; the shortest comes first.
  for (size_t depth = 1; begin != end; depth++) {
    if (vocabulary.text(*begin).size() == depth) {
      bool anywhere = vocabulary.type(*begin) == TokenType::kUserDefined;
      if (anywhere || at + depth <= trusted_end) best = {*begin, depth};
      ++begin;
    }
    if (at + depth >= text.size()) break;
    uint8_t byte = static_cast<uint8_t>(text[at + depth]);
    auto byte_of = [&](int32_t id) { return static_cast<uint8_t>(vocabulary.text(id)[depth]); };
    begin = std::partition_point(begin, end, [&](int32_t id) { return byte_of(id) < byte; });
    end = std::partition_point(begin, end, [&](int32_t id) { return byte_of(id) == byte; });
  }
  return best;
}

}  // namespace llmd
