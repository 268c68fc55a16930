// Log-probabilities in a chat reply, and which tokens belong to the text that is sent.
//
// LogprobQueue follows the engine: a token's entry comes out when all of its text has, so a stop string that is still
// possible holds back the entries of the tokens it holds back, and those that belong to the stop string never come.
// logprob_json() is one element of OpenAI's choices[].logprobs.content. No thread of their own; no errors.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "api/engine.h"

namespace llmd {

class LogprobQueue {
 public:
  /// What on_text() got: appends the entries that are complete with it.
  void add(size_t sent_bytes, const GeneratedToken& token, std::vector<TokenLogprobs>& out);
  /// The answer has ended: the entry of a token that was sent in part.
  void finish(std::vector<TokenLogprobs>& out);

 private:
  struct Waiting {
    TokenLogprobs logprobs;
    size_t begin, end;  // of its text, in bytes since the answer's beginning
  };
  std::deque<Waiting> waiting_;
  size_t produced_ = 0, sent_ = 0;
};

/// {"token", "logprob", "bytes", "top_logprobs"} as JSON text. Control tokens are given by their text.
std::string logprob_json(const Tokenizer& tokenizer, const TokenLogprobs& logprobs);

}  // namespace llmd
