// CompletionRequest: the body of POST /v1/completions, checked: a prompt as it is, without a chat template.
//
// `prompt` is a text or an array of token ids. Special tokens in a text stay text unless parse_special asks for them.
// All other fields are those of a chat request (api/chat_request.h) with the old shape of `logprobs` (a number) and
// OpenAI's default of 16 for max_tokens; what belongs to chats only is refused. Any thread. Errors: client errors with
// `param`: missing_field, invalid_value, unsupported_parameter.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/chat_request.h"
#include "io/result.h"

namespace llmd {

struct CompletionRequest {
  ChatRequest common;           // without messages
  std::string text;             // the prompt, or
  std::vector<int32_t> tokens;  // its tokens, not checked against a vocabulary
  bool parse_special = false;   // special tokens are recognised in `text`
};

Result<CompletionRequest> parse_completion_request(const nlohmann::ordered_json& body, bool strict,
                                                   const SamplingParams& defaults = {});

}  // namespace llmd
