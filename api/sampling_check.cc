#include "api/sampling_check.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace llmd {

Status take_sampling(ChatRequest& request, const Tokenizer& tokenizer, GenerationRequest& generation) {
  const int32_t vocab = tokenizer.vocab_size();
  const auto unknown = [vocab](const char* param) {
    return client_error(
        "invalid_value",
        std::string(param) + " names a token that is not among the model's " + std::to_string(vocab) + ".", param);
  };
  SamplingParams& sampling = request.sampling;
  for (const auto& [text, bias] : request.text_bias)
    for (int32_t id : tokenizer.encode(text, false, false)) sampling.logit_bias.push_back({id, bias});
  bool forbids = false;
  for (const TokenBias& entry : sampling.logit_bias) {
    if (entry.id >= vocab) return unknown("logit_bias");
    forbids |= std::isinf(entry.bias);
  }
  for (int32_t id : sampling.stop_token_ids)
    if (id >= vocab) return unknown("stop_token_ids");
  if (forbids) {
    std::vector<bool> possible(static_cast<size_t>(vocab), true);
    for (const TokenBias& entry : sampling.logit_bias)
      if (std::isinf(entry.bias)) possible[static_cast<size_t>(entry.id)] = false;
    if (sampling.min_tokens > 0)
      for (int32_t id : sampling.stop_token_ids) possible[static_cast<size_t>(id)] = false;
    bool some = false;
    for (int32_t id = 0; id < vocab && !some; id++)
      some = possible[static_cast<size_t>(id)] && !tokenizer.is_end_of_generation(id);
    if (!some) return client_error("invalid_value", "logit_bias leaves no token to answer with.", "logit_bias");
  }
  if (!request.has_seed) sampling.seed = std::random_device{}() * 0x9e3779b97f4a7c15ull;
  if (request.logprobs) generation.top_logprobs = request.top_logprobs;
  generation.sampling = std::move(sampling);
  return {};
}

}  // namespace llmd
