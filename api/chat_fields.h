// What the rows of the chat request's field table share: checks of a value, and the fields about sampling.
//
// Each setter checks one value, which is never null, and stores it. Any thread. Errors: client errors with `param`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "api/chat_request.h"

namespace llmd {

Error wrong_value(std::string param, const std::string& what);
Error unsupported_field(std::string param, const std::string& what);
Result<double> number_in(const nlohmann::ordered_json& value, const std::string& name, double low, double high);
/// Integers, also written as 5.0; more than int64 holds is out of range.
Result<int64_t> integer_in(const nlohmann::ordered_json& value, const std::string& name, int64_t low, int64_t high);
Result<bool> boolean(const nlohmann::ordered_json& value, const std::string& name);

Status set_temperature(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_top_p(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_top_k(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_min_p(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_typical_p(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_repeat_penalty(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_repeat_last_n(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_presence_penalty(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_frequency_penalty(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_seed(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
/// {"id": bias} or [[id or text, bias or false], ...]
Status set_logit_bias(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_stop_token_ids(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_min_tokens(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_ignore_eos(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_logprobs(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
Status set_top_logprobs(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
/// llama.cpp's way to ask for log-probabilities and for how many in one.
Status set_n_probs(const nlohmann::ordered_json& value, const std::string& name, ChatRequest& out);
/// Any field of a chat request. `strict`: one that is not known is an error instead of being passed over.
Status set_chat_field(const std::string& name, const nlohmann::ordered_json& value, bool strict, ChatRequest& out);
/// What only the whole request can tell, once all of its fields are set.
Status check_chat_fields(const nlohmann::ordered_json& body, ChatRequest& out);

/// What two of the fields about sampling must agree on.
Status check_sampling_fields(const ChatRequest& request);

}  // namespace llmd
