#include "api/completion_request.h"

#include <algorithm>
#include <array>
#include <limits>

#include "api/chat_fields.h"

namespace llmd {
namespace {

using nlohmann::ordered_json;

constexpr int32_t kTokensDefault = 16;

constexpr std::array<std::string_view, 6> kChatOnly = {"messages", "chat_template_kwargs", "enable_thinking",
                                                       "thinking", "reasoning_effort",     "tool_choice"};

Status set_token_prompt(const ordered_json& ids, const std::string& name, CompletionRequest& out) {
  for (size_t i = 0; i < ids.size(); ++i) {
    LLMD_ASSIGN_OR_RETURN(const int64_t id, integer_in(ids[i], name + "[" + std::to_string(i) + "]", 0,
                                                       std::numeric_limits<int32_t>::max()));
    out.tokens.push_back(static_cast<int32_t>(id));
  }
  return {};
}

Status set_prompt(const ordered_json& value, const std::string& name, CompletionRequest& out) {
  if (value.is_string()) {
    out.text = value.get<std::string>();
    if (out.text.empty()) return wrong_value(name, " must not be empty.");
    return {};
  }
  if (!value.is_array()) return wrong_value(name, " must be a text or an array of token ids.");
  if (value.empty()) return wrong_value(name, " must not be empty.");
  if (!value[0].is_string() && !value[0].is_array()) return set_token_prompt(value, name, out);
  if (value.size() > 1) return unsupported_field(name, " must be one prompt: send a request for each.");
  return set_prompt(value[0], name + "[0]", out);
}

Status set_old_logprobs(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (value.is_boolean() && !value.get<bool>()) return {};
  LLMD_RETURN_IF_ERROR(set_top_logprobs(value, name, out));
  out.logprobs = true;
  return {};
}

Status check_best_of(const ordered_json& body, const ChatRequest& request) {
  const auto it = body.find("best_of");
  if (it == body.end() || it->is_null()) return {};
  LLMD_ASSIGN_OR_RETURN(const int64_t count, integer_in(*it, "best_of", 1, std::numeric_limits<int64_t>::max()));
  if (count == static_cast<int64_t>(request.choices)) return {};
  return unsupported_field("best_of", " other than n is not supported.");
}

Status set_field(const std::string& name, const ordered_json& value, bool strict, CompletionRequest& out) {
  if (name == "prompt") return set_prompt(value, name, out);
  if (name == "logprobs") return set_old_logprobs(value, name, out.common);
  if (name == "best_of") return {};  // see check_best_of
  if (name == "suffix") {
    if (value.is_string() && value.get_ref<const std::string&>().empty()) return {};
    return unsupported_field(name, " is not supported.");
  }
  if (name == "parse_special") {
    LLMD_ASSIGN_OR_RETURN(out.parse_special, boolean(value, name));
    return {};
  }
  if (std::find(kChatOnly.begin(), kChatOnly.end(), name) != kChatOnly.end()) {
    return unsupported_field(name, " belongs to /v1/chat/completions.");
  }
  return set_chat_field(name, value, strict, out.common);
}

}  // namespace

Result<CompletionRequest> parse_completion_request(const ordered_json& body, bool strict,
                                                   const SamplingParams& defaults) {
  if (!body.is_object()) return client_error("invalid_json", "The body must be a JSON object.");
  CompletionRequest out;
  out.common.sampling = defaults;
  for (const auto& [name, value] : body.items()) {
    if (!value.is_null()) LLMD_RETURN_IF_ERROR(set_field(name, value, strict, out));
  }
  if (out.text.empty() && out.tokens.empty()) return client_error("missing_field", "prompt is missing.", "prompt");
  LLMD_RETURN_IF_ERROR(check_chat_fields(body, out.common));
  LLMD_RETURN_IF_ERROR(check_best_of(body, out.common));
  if (!out.common.tokens_max) out.common.tokens_max = kTokensDefault;
  return out;
}

}  // namespace llmd
