// The streaming half of the tokenizer: Detokenizer and StopMatcher.
#include <algorithm>

#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/utf8.h"

namespace llmd {

std::string Detokenizer::add(std::string_view token_bytes) {
  pending_ += token_bytes;
  std::string out;
  size_t at = 0;
  while (at < pending_.size()) {
    Utf8Step step = decode_utf8(pending_, at);
    if (step.kind == Utf8Kind::kIncomplete) break;
    if (step.kind == Utf8Kind::kValid) {
      out.append(pending_, at, step.length);
    } else {
      out += "\xEF\xBF\xBD";  // U+FFFD
    }
    at += step.length;
  }
  pending_.erase(0, at);
  return out;
}

// The match that is complete first wins, and of those complete at the same byte the longest: so the result does not
// depend on how the text is cut into tokens.
std::string StopMatcher::add(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t match_end = std::string::npos, match_begin = 0;
  for (const std::string& stop : stops_) {
    size_t at = stop.empty() ? std::string::npos : held_.find(stop);
    if (at == std::string::npos) continue;
    size_t end = at + stop.size();
    if (end < match_end || (end == match_end && at < match_begin)) {
      match_end = end;
      match_begin = at;
      matched_ = stop;
    }
  }
  if (match_end != std::string::npos) {
    stopped_ = true;
    std::string out = held_.substr(0, match_begin);
    held_.clear();
    return out;
  }
  size_t hold = 0;  // the longest tail that begins a stop string
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size(), held_.size() + 1); length-- > hold + 1;) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) {
        hold = length;
        break;
      }
    }
  }
  std::string out = held_.substr(0, held_.size() - hold);
  held_.erase(0, out.size());
  return out;
}

std::string StopMatcher::finish() {
  std::string out;
  out.swap(held_);
  return out;
}

}  // namespace llmd
