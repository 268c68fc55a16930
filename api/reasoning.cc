#include "api/reasoning.h"

#include <algorithm>

namespace llmd {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";
// White space before a closing tag is held back up to here; more of it is thinking.
constexpr size_t kHeldMax = 4096;

/// How many bytes at the end of `text` may be the beginning of `tag`.
size_t begun(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; n--)
    if (text.ends_with(tag.substr(0, n))) return n;
  return 0;
}

}  // namespace

ReasoningTags reasoning_tags(std::string_view chat_template) {
  for (const auto& [open, close] : {std::pair("<think>", "</think>"), std::pair("[THINK]", "[/THINK]"),
                                    std::pair("<mm:think>", "</mm:think>"), std::pair("<seed:think>", "</seed:think>")})
    if (chat_template.find(open) != std::string_view::npos || chat_template.find(close) != std::string_view::npos)
      return {open, close};
  return {};
}

ReasoningSplitter::ReasoningSplitter(ReasoningTags tags, bool inside) : tags_(std::move(tags)), inside_(inside) {
  if (!tags_.open.empty()) state_ = State::kStart;
}

void ReasoningSplitter::add(std::string_view text, std::string& reasoning, std::string& content) {
  held_ += text;
  while (step(reasoning, content)) {
  }
}

// Goes one state on; false: more text is needed.
bool ReasoningSplitter::step(std::string& reasoning, std::string& content) {
  switch (state_) {
    case State::kStart:
      return begin(content);
    case State::kThinking:
      return think(reasoning);
    case State::kAfter: {
      held_.erase(0, std::min(held_.find_first_not_of(kWhiteSpace), held_.size()));
      if (held_.empty()) return false;
      state_ = State::kContent;
      return true;
    }
    case State::kContent:
      content += held_;
      held_.clear();
      return false;
  }
  return false;
}

// Is there an opening tag, behind white space?
bool ReasoningSplitter::begin(std::string& content) {
  const size_t space = std::min(held_.find_first_not_of(kWhiteSpace), held_.size());
  const std::string_view rest = std::string_view(held_).substr(space);
  if (rest.starts_with(tags_.open)) {
    held_.erase(0, space + tags_.open.size());
    state_ = State::kThinking;
    return true;
  }
  if (std::string_view(tags_.open).starts_with(rest) && held_.size() <= kHeldMax) return false;
  state_ = inside_ ? State::kThinking : State::kContent;
  if (!inside_) {
    content += held_;
    held_.clear();
  }
  return true;
}

// Thinking goes on up to the closing tag, less the white space before it.
bool ReasoningSplitter::think(std::string& reasoning) {
  const size_t close = held_.find(tags_.close);
  if (close != std::string::npos) {
    const size_t last = std::string_view(held_).substr(0, close).find_last_not_of(kWhiteSpace);
    put_reasoning(std::string_view(held_).substr(0, last == std::string::npos ? 0 : last + 1), reasoning);
    held_.erase(0, close + tags_.close.size());
    state_ = State::kAfter;
    return true;
  }
  size_t end = held_.size() - begun(held_, tags_.close);
  const size_t last = std::string_view(held_).substr(0, end).find_last_not_of(kWhiteSpace);
  if (held_.size() <= kHeldMax) end = last == std::string::npos ? 0 : last + 1;
  put_reasoning(std::string_view(held_).substr(0, end), reasoning);
  held_.erase(0, end);
  return false;
}

void ReasoningSplitter::put_reasoning(std::string_view text, std::string& reasoning) {
  if (!some_reasoning_) text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  some_reasoning_ = some_reasoning_ || !text.empty();
  reasoning += text;
}

void ReasoningSplitter::finish(std::string& reasoning, std::string& content) {
  if (thinking()) {
    const size_t last = held_.find_last_not_of(kWhiteSpace);
    put_reasoning(std::string_view(held_).substr(0, last == std::string::npos ? 0 : last + 1), reasoning);
  } else {
    content += held_;
  }
  held_.clear();
  state_ = State::kContent;
}

}  // namespace llmd
