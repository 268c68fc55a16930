// ChatRequest: the body of POST /v1/chat/completions, checked.
//
// Every field is in one table (chat_request.cc): used, harmless and ignored, or changing the result in a way llmd
// cannot honour and therefore refused. A field is never dropped when that would change the answer. null means absent,
// integral floats are integers. Any thread. Errors: client errors with `param`: missing_field, invalid_value,
// unsupported_parameter.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/result.h"
#include "model/sampler.h"
#include "model/sampler_logprobs.h"

namespace llmd {

struct ChatRequest {
  nlohmann::ordered_json messages;  // array of objects, normalised: see parse_messages
  std::string model;                // empty: the served one
  std::optional<int32_t> tokens_max;
  SamplingParams sampling;
  bool has_seed = false;                                 // else sampling.seed is to be drawn
  std::vector<std::pair<std::string, float>> text_bias;  // as sampling.logit_bias, for each token of a text
  bool logprobs = false;
  int32_t top_logprobs = 0;  // how many of the likeliest are wanted beside each token
  std::vector<std::string> stops;
  bool stream = false, include_usage = false, return_progress = false, cache_prompt = true;
  size_t choices = 1;                      // answers wanted to this prompt
  std::string cache_salt, cache_key;       // only requests with the same two share what was computed
  int32_t priority = 0;                    // the lowest goes first
  double deadline_seconds = 0;             // 0: none
  std::optional<bool> thinking;            // enable_thinking, thinking, or reasoning_effort "none"
  std::string reasoning_effort;            // empty: not given
  bool split_reasoning = true;             // thinking goes into reasoning_content, not into content
  nlohmann::ordered_json template_kwargs;  // object
};

/// `strict`: a field that is not in the table is an error instead of being ignored. `defaults`: for what is not given.
/// Token ids are not checked against a vocabulary.
Result<ChatRequest> parse_chat_request(const nlohmann::ordered_json& body, bool strict,
                                       const SamplingParams& defaults = {});

/// Checks `messages` and returns it as templates want it: role developer is system, content is a string (null is "",
/// text parts are joined), and only known keys are left (role, content, name, reasoning_content, tool_call_id,
/// tool_calls).
Result<nlohmann::ordered_json> parse_messages(const nlohmann::ordered_json& messages);

}  // namespace llmd
