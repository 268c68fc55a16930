// Log-probabilities in the shape that /v1/completions has: parallel lists, made from those of a chat reply.
//
// One object for each choice of an answer, since text_offset goes on from chunk to chunk. One thread at a time; no
// errors: elements are what logprob_json (api/chat_logprobs.h) wrote.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmd {

class OldLogprobs {
 public:
  /// `elements`: JSON text separated by commas. Returns {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
  /// offsets count characters from the beginning of the answer.
  std::string convert(std::string_view elements);

 private:
  int64_t characters_ = 0;
};

}  // namespace llmd
