// ReasoningSplitter: tells a model's thinking from its answer, while the text comes.
//
// A model that thinks writes <think>...</think> before its answer; many chat templates write the opening tag
// themselves, so that the output begins inside:
//
//            open tag              close tag            not white space
//   kStart ------------> kThinking ----------> kAfter ------------------> kContent
//      |  anything else, inside ^                                            ^
//      +--- anything else ---------------------------------------------------+
//
// Only what the answer begins with is thinking: a tag in its midst is text. Tags are in neither field, nor is the white
// space around the thinking. A tag may come in any pieces: what could be one is held back until it is clear. At the end
// unfinished thinking is thinking. One per answer; no thread of its own; no errors.
#pragma once

#include <string>
#include <string_view>

namespace llmd {

struct ReasoningTags {
  std::string open, close;  // both empty: the model does not think
};

/// The tags that a chat template knows of, by its source.
ReasoningTags reasoning_tags(std::string_view chat_template);

class ReasoningSplitter {
 public:
  /// Takes everything for the answer.
  ReasoningSplitter() = default;
  /// `inside`: the prompt has opened the thinking.
  ReasoningSplitter(ReasoningTags tags, bool inside);

  /// Appends what has become clear to either text.
  void add(std::string_view text, std::string& reasoning, std::string& content);
  /// The output has ended: what was held back.
  void finish(std::string& reasoning, std::string& content);
  /// Whether what comes next is thinking, as far as is known.
  bool thinking() const { return state_ == State::kThinking || (state_ == State::kStart && inside_); }

 private:
  enum class State { kStart, kThinking, kAfter, kContent };

  bool step(std::string& reasoning, std::string& content);
  bool begin(std::string& content);
  bool think(std::string& reasoning);
  void put_reasoning(std::string_view text, std::string& reasoning);

  ReasoningTags tags_;
  State state_ = State::kContent;
  bool inside_ = false;
  bool some_reasoning_ = false;  // has come out
  std::string held_;
};

}  // namespace llmd
