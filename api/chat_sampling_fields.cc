// The fields of a chat request that decide how tokens are drawn. docs/SAMPLING.md has their meaning.
#include "api/chat_fields.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace llmd {
namespace {

using nlohmann::ordered_json;

constexpr size_t kBiasesMax = 4096, kStopIdsMax = 256, kBiasTextBytesMax = 4096;
constexpr double kBiasMax = 100, kRepeatPenaltyMax = 10;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

template <float SamplingParams::*kMember>
Status set_real(const ordered_json& value, const std::string& name, double low, double high, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const double number, number_in(value, name, low, high));
  out.sampling.*kMember = static_cast<float>(number);
  return {};
}

/// As set_real, for a share or factor that cannot be 0.
template <float SamplingParams::*kMember>
Status set_positive(const ordered_json& value, const std::string& name, double high, ChatRequest& out) {
  LLMD_RETURN_IF_ERROR(set_real<kMember>(value, name, 0, high, out));
  if (out.sampling.*kMember <= 0) return wrong_value(name, " must be more than 0.");
  return {};
}

Result<float> bias_of(const ordered_json& value, const std::string& name) {
  if (value.is_boolean() && !value.get<bool>()) return -std::numeric_limits<float>::infinity();
  if (value.is_boolean()) return wrong_value(name, " must be a number or false.");
  LLMD_ASSIGN_OR_RETURN(const double bias, number_in(value, name, -kBiasMax, kBiasMax));
  return static_cast<float>(bias);
}

Status add_bias(const ordered_json& pair, const std::string& name, ChatRequest& out) {
  if (!pair.is_array() || pair.size() != 2) return wrong_value(name, " must be a token and its bias.");
  LLMD_ASSIGN_OR_RETURN(const float bias, bias_of(pair[1], name + "[1]"));
  if (!pair[0].is_string()) {
    LLMD_ASSIGN_OR_RETURN(const int64_t id, integer_in(pair[0], name + "[0]", 0, kInt32Max));
    out.sampling.logit_bias.push_back({static_cast<int32_t>(id), bias});
    return {};
  }
  const std::string& text = pair[0].get_ref<const std::string&>();
  if (text.empty() || text.size() > kBiasTextBytesMax)
    return wrong_value(name + "[0]", " must have 1 to " + std::to_string(kBiasTextBytesMax) + " bytes.");
  out.text_bias.emplace_back(text, bias);
  return {};
}

}  // namespace

Status set_temperature(const ordered_json& value, const std::string& name, ChatRequest& out) {
  return set_real<&SamplingParams::temperature>(value, name, 0, 2, out);
}

Status set_top_p(const ordered_json& value, const std::string& name, ChatRequest& out) {
  return set_positive<&SamplingParams::top_p>(value, name, 1, out);
}

Status set_top_k(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const int64_t number, integer_in(value, name, -1, kInt32Max));
  out.sampling.top_k = static_cast<int32_t>(std::max<int64_t>(number, 0));
  return {};
}

Status set_min_p(const ordered_json& value, const std::string& name, ChatRequest& out) {
  return set_real<&SamplingParams::min_p>(value, name, 0, 1, out);
}

Status set_typical_p(const ordered_json& value, const std::string& name, ChatRequest& out) {
  return set_positive<&SamplingParams::typical_p>(value, name, 1, out);
}

Status set_repeat_penalty(const ordered_json& value, const std::string& name, ChatRequest& out) {
  return set_positive<&SamplingParams::repeat_penalty>(value, name, kRepeatPenaltyMax, out);
}

Status set_repeat_last_n(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const int64_t number, integer_in(value, name, -1, kInt32Max));
  out.sampling.repeat_last_n = static_cast<int32_t>(number);
  return {};
}

Status set_presence_penalty(const ordered_json& value, const std::string& name, ChatRequest& out) {
  return set_real<&SamplingParams::presence_penalty>(value, name, -2, 2, out);
}

Status set_frequency_penalty(const ordered_json& value, const std::string& name, ChatRequest& out) {
  return set_real<&SamplingParams::frequency_penalty>(value, name, -2, 2, out);
}

Status set_seed(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const int64_t seed, integer_in(value, name, std::numeric_limits<int64_t>::min(),
                                                       std::numeric_limits<int64_t>::max()));
  out.sampling.seed = static_cast<uint64_t>(seed);
  out.has_seed = seed != -1;  // by which clients of llama.cpp and vLLM ask for any
  return {};
}

Status set_logit_bias(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (!value.is_structured()) return wrong_value(name, " must be an object or an array of pairs.");
  if (value.size() > kBiasesMax)
    return wrong_value(name, " must have at most " + std::to_string(kBiasesMax) + " entries.");
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i)
      LLMD_RETURN_IF_ERROR(add_bias(value[i], name + "[" + std::to_string(i) + "]", out));
    return {};
  }
  for (const auto& [key, entry] : value.items()) {
    int32_t id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0)
      return wrong_value(name, " must have token ids as its keys.");
    LLMD_ASSIGN_OR_RETURN(const float bias, bias_of(entry, name + "." + key));
    out.sampling.logit_bias.push_back({id, bias});
  }
  return {};
}

Status set_stop_token_ids(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (!value.is_array()) return wrong_value(name, " must be an array of token ids.");
  if (value.size() > kStopIdsMax)
    return wrong_value(name, " must hold at most " + std::to_string(kStopIdsMax) + " ids.");
  for (size_t i = 0; i < value.size(); ++i) {
    LLMD_ASSIGN_OR_RETURN(const int64_t id, integer_in(value[i], name + "[" + std::to_string(i) + "]", 0, kInt32Max));
    out.sampling.stop_token_ids.push_back(static_cast<int32_t>(id));
  }
  return {};
}

Status set_min_tokens(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const int64_t number, integer_in(value, name, 0, kInt32Max));
  out.sampling.min_tokens = static_cast<int32_t>(number);
  return {};
}

Status set_ignore_eos(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(out.sampling.ignore_eos, boolean(value, name));
  return {};
}

Status set_logprobs(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const bool on, boolean(value, name));
  out.logprobs |= on;
  return {};
}

Status set_top_logprobs(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const int64_t count, integer_in(value, name, 0, kTopLogprobsMax));
  out.top_logprobs = static_cast<int32_t>(count);
  return {};
}

Status set_n_probs(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const int64_t count, integer_in(value, name, 0, kTopLogprobsMax));
  if (count == 0) return {};
  out.logprobs = true;
  out.top_logprobs = std::max(out.top_logprobs, static_cast<int32_t>(count));
  return {};
}

Status check_sampling_fields(const ChatRequest& request) {
  if (request.top_logprobs > 0 && !request.logprobs) return wrong_value("top_logprobs", " needs \"logprobs\": true.");
  if (request.tokens_max && request.sampling.min_tokens > *request.tokens_max)
    return wrong_value("min_tokens", " must not be more than max_tokens.");
  return {};
}

}  // namespace llmd
