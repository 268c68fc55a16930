#include "api/chat_request.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <limits>
#include <unordered_map>

#include "api/chat_fields.h"
#include "api/engine.h"
#include "api/http_message.h"

namespace llmd {

using nlohmann::ordered_json;

Error wrong_value(std::string param, const std::string& what) {
  return client_error("invalid_value", param + what, param);
}

Error unsupported_field(std::string param, const std::string& what) {
  return client_error("unsupported_parameter", param + what, param);
}

Result<double> number_in(const ordered_json& value, const std::string& name, double low, double high) {
  if (!value.is_number()) return wrong_value(name, " must be a number.");
  const double number = value.get<double>();
  if (!(number >= low && number <= high)) {
    std::string range = " must be between " + ordered_json(low).dump() + " and " + ordered_json(high).dump() + ".";
    return wrong_value(name, range);
  }
  return number;
}

Result<int64_t> integer_in(const ordered_json& value, const std::string& name, int64_t low, int64_t high) {
  int64_t number = 0;
  bool fits = true;
  if (value.is_number_unsigned()) {
    const uint64_t bits = value.get<uint64_t>();
    fits = bits <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    number = fits ? static_cast<int64_t>(bits) : 0;
  } else if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else if (value.is_number_float()) {
    const double real = value.get<double>();
    if (real != std::floor(real)) return wrong_value(name, " must be an integer.");
    fits = std::fabs(real) < 9.2e18;
    number = fits ? static_cast<int64_t>(real) : 0;
  } else {
    return wrong_value(name, " must be an integer.");
  }
  if (!fits || number < low || number > high) {
    return wrong_value(name, " must be between " + std::to_string(low) + " and " + std::to_string(high) + ".");
  }
  return number;
}

Result<bool> boolean(const ordered_json& value, const std::string& name) {
  if (!value.is_boolean()) return wrong_value(name, " must be true or false.");
  return value.get<bool>();
}

namespace {

constexpr size_t kStopsMax = 16, kStopBytesMax = 4096;
constexpr size_t kKwargsMax = 64, kShortTextMax = 1024;

// One row's work: checks `value` (never null) and stores it.
using Apply = Status (*)(const ordered_json& value, const std::string& name, ChatRequest& out);

Status set_messages(const ordered_json& value, const std::string&, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(out.messages, parse_messages(value));
  return {};
}

Status set_model(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (!value.is_string()) return wrong_value(name, " must be a string.");
  out.model = value.get<std::string>();
  return {};
}

Status set_tokens_max(const ordered_json& value, const std::string& name, ChatRequest& out) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  LLMD_ASSIGN_OR_RETURN(const int64_t tokens, integer_in(value, name, 1, kMost));
  out.tokens_max = static_cast<int32_t>(std::min<int64_t>(tokens, std::numeric_limits<int32_t>::max()));
  return {};
}

Status add_stop(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (!value.is_string()) return wrong_value(name, " must be a string.");
  const std::string& text = value.get_ref<const std::string&>();
  if (text.empty()) return wrong_value(name, " must not be empty.");
  if (text.size() > kStopBytesMax)
    return wrong_value(name, " must have at most " + std::to_string(kStopBytesMax) + " bytes.");
  out.stops.push_back(text);
  return {};
}

Status set_stop(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (!value.is_array()) {
    if (!value.is_string()) return wrong_value(name, " must be a string or an array of strings.");
    return add_stop(value, name, out);
  }
  if (value.size() > kStopsMax)
    return wrong_value(name, " must hold at most " + std::to_string(kStopsMax) + " strings.");
  for (size_t i = 0; i < value.size(); ++i) {
    LLMD_RETURN_IF_ERROR(add_stop(value[i], name + "[" + std::to_string(i) + "]", out));
  }
  return {};
}

template <bool ChatRequest::*kMember>
Status set_flag(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(out.*kMember, boolean(value, name));
  return {};
}

template <std::string ChatRequest::*kMember>
Status set_short_text(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (!value.is_string()) return wrong_value(name, " must be a string.");
  out.*kMember = value.get<std::string>();
  if ((out.*kMember).size() > kShortTextMax)
    return wrong_value(name, " must have at most " + std::to_string(kShortTextMax) + " bytes.");
  return {};
}

Status set_priority(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const int64_t priority, integer_in(value, name, -1000, 1000));
  out.priority = static_cast<int32_t>(priority);
  return {};
}

Status set_deadline(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(out.deadline_seconds, number_in(value, name, 0.001, 1e9));
  return {};
}

Status set_stream_options(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (!value.is_object()) return wrong_value(name, " must be an object.");
  const auto it = value.find("include_usage");
  if (it == value.end() || it->is_null()) return {};
  LLMD_ASSIGN_OR_RETURN(out.include_usage, boolean(*it, name + ".include_usage"));
  return {};
}

Status set_n(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const int64_t count, integer_in(value, name, 1, kChoicesMax));
  out.choices = static_cast<size_t>(count);
  return {};
}

Status set_enable_thinking(const ordered_json& value, const std::string& name, ChatRequest& out) {
  LLMD_ASSIGN_OR_RETURN(const bool on, boolean(value, name));
  out.thinking = on;
  return {};
}

// DeepSeek's form: {"type": "enabled"}; a plain boolean is taken too.
Status set_thinking(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (value.is_boolean()) return set_enable_thinking(value, name, out);
  const auto it = value.is_object() ? value.find("type") : value.end();
  if (it != value.end() && (*it == "enabled" || *it == "disabled")) {
    out.thinking = *it == "enabled";
    return {};
  }
  return wrong_value(name, " must be {\"type\": \"enabled\"} or {\"type\": \"disabled\"}.");
}

Status set_reasoning_effort(const ordered_json& value, const std::string& name, ChatRequest& out) {
  for (const char* known : {"none", "minimal", "low", "medium", "high", "max"}) {
    if (value == known) {
      out.reasoning_effort = known;
      return {};
    }
  }
  return wrong_value(name, " must be one of none, minimal, low, medium, high, max.");
}

Status set_reasoning_format(const ordered_json& value, const std::string& name, ChatRequest& out) {
  out.split_reasoning = value != "none";
  if (value == "none" || value == "auto" || value == "deepseek") return {};
  return wrong_value(name, " must be one of none, auto, deepseek.");
}

Status set_template_kwargs(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (!value.is_object()) return wrong_value(name, " must be an object.");
  if (value.size() > kKwargsMax)
    return wrong_value(name, " must have at most " + std::to_string(kKwargsMax) + " members.");
  for (const char* own : {"messages", "tools", "bos_token", "eos_token", "add_generation_prompt"}) {
    if (value.contains(own)) return wrong_value(name + "." + own, " is set by llmd and cannot be given.");
  }
  out.template_kwargs = value;
  return {};
}

Status set_response_format(const ordered_json& value, const std::string& name, ChatRequest&) {
  const auto it = value.is_object() ? value.find("type") : value.end();
  if (it == value.end() || !it->is_string()) return wrong_value(name, " must be an object with a type.");
  if (*it != "text") return unsupported_field(name, " other than text is not supported.");
  return {};
}

Status set_modalities(const ordered_json& value, const std::string& name, ChatRequest&) {
  if (value == ordered_json::array({"text"})) return {};
  return unsupported_field(name, " other than [\"text\"] is not supported.");
}

Status set_tool_choice(const ordered_json& value, const std::string& name, ChatRequest&) {
  if (value == "none" || value == "auto") return {};
  return unsupported_field(name, " other than none and auto is not supported without tools.");
}

Status ignore(const ordered_json&, const std::string&, ChatRequest&) {
  return {};
}

Status refuse(const ordered_json&, const std::string& name, ChatRequest&) {
  return unsupported_field(name, " is not supported.");
}

Status refuse_functions(const ordered_json&, const std::string& name, ChatRequest&) {
  return unsupported_field(name, " is not supported: use tools.");
}

// Off in the form that changes nothing: 0, false, [], {}, "".
Status only_off(const ordered_json& value, const std::string& name, ChatRequest&) {
  const bool off = (value.is_number() && value.get<double>() == 0) || (value.is_boolean() && !value.get<bool>()) ||
                   ((value.is_structured() || value.is_string()) && value.size() == 0) || value == "";
  return off ? Status() : Status(unsupported_field(name, " is not supported."));
}

// -1 is how llama.cpp writes off for these.
Status only_negative(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (value.is_number() && value.get<double>() < 0) return {};
  return only_off(value, name, out);
}

// llama.cpp's names: -1 is no limit.
Status set_n_predict(const ordered_json& value, const std::string& name, ChatRequest& out) {
  if (value.is_number() && value.get<double>() == -1) return {};
  return set_tokens_max(value, name, out);
}

Status only_one(const ordered_json& value, const std::string& name, ChatRequest&) {
  if (value.is_number() && value.get<double>() == 1) return {};
  return unsupported_field(name, " other than 1 is not supported.");
}

Status only_true(const ordered_json& value, const std::string& name, ChatRequest&) {
  LLMD_ASSIGN_OR_RETURN(const bool on, boolean(value, name));
  return on ? Status() : Status(unsupported_field(name, " must be true."));
}

// clang-format off
const std::unordered_map<std::string_view, Apply>& field_table() {
  static const std::unordered_map<std::string_view, Apply> table = {
      {"messages", set_messages}, {"model", set_model},
      {"max_tokens", set_tokens_max}, {"max_completion_tokens", set_tokens_max}, {"n_predict", set_n_predict},
      {"temperature", set_temperature}, {"top_p", set_top_p}, {"top_k", set_top_k}, {"min_p", set_min_p},
      {"typical_p", set_typical_p}, {"repeat_penalty", set_repeat_penalty}, {"repetition_penalty", set_repeat_penalty},
      {"repeat_last_n", set_repeat_last_n}, {"presence_penalty", set_presence_penalty},
      {"frequency_penalty", set_frequency_penalty}, {"logit_bias", set_logit_bias}, {"seed", set_seed},
      {"stop", set_stop}, {"stop_token_ids", set_stop_token_ids}, {"min_tokens", set_min_tokens},
      {"ignore_eos", set_ignore_eos}, {"logprobs", set_logprobs}, {"top_logprobs", set_top_logprobs},
      {"n_probs", set_n_probs}, {"n", set_n},
      {"stream", set_flag<&ChatRequest::stream>}, {"stream_options", set_stream_options},
      {"return_progress", set_flag<&ChatRequest::return_progress>},
      {"cache_prompt", set_flag<&ChatRequest::cache_prompt>},
      {"cache_salt", set_short_text<&ChatRequest::cache_salt>},
      {"prompt_cache_key", set_short_text<&ChatRequest::cache_key>},
      {"priority", set_priority}, {"deadline_seconds", set_deadline},
      {"enable_thinking", set_enable_thinking}, {"thinking", set_thinking},
      {"reasoning_effort", set_reasoning_effort}, {"reasoning_format", set_reasoning_format}, {"chat_template_kwargs", set_template_kwargs},
      {"response_format", set_response_format}, {"modalities", set_modalities}, {"tool_choice", set_tool_choice},
      // Accepted in the form that changes nothing.
      {"tools", only_off}, 
      {"store", only_off}, {"grammar", only_off},
      {"json_schema", only_off}, {"mirostat", only_off}, {"dry_multiplier", only_off},
      {"xtc_probability", only_off}, {"post_sampling_probs", only_off}, {"min_keep", only_off}, {"dynatemp_range", only_off}, {"bad_words", only_off},
      {"include_stop_str_in_output", only_off}, {"continue_final_message", only_off},
      {"return_tokens", only_off}, {"documents", only_off}, {"echo", only_off}, {"use_beam_search", only_off},
      {"structured_outputs", only_off}, {"guided_json", only_off}, {"guided_regex", only_off},
      {"guided_choice", only_off}, {"guided_grammar", only_off}, {"logits_processors", only_off},
      {"prompt_logprobs", only_off}, {"n_indent", only_off}, {"image_data", only_off}, {"response_fields", only_off},
      {"reasoning_in_content", only_off}, {"format", only_off}, {"spaces_between_special_tokens", only_true},
      {"skip_special_tokens", only_true}, {"truncate_prompt_tokens", only_negative},
      {"t_max_predict_ms", only_negative}, {"add_special_tokens", only_off}, {"return_token_ids", only_off},
      {"tfs_z", only_one}, {"n_cmpl", only_one}, {"num_beams", only_one}, {"penalize_nl", only_off},
      {"best_of", only_one},
      {"length_penalty", only_one}, {"add_generation_prompt", only_true},
      {"top_n_sigma", only_negative}, {"adaptive_target", only_negative},
      // Would change the answer.
      {"functions", refuse_functions}, {"function_call", refuse_functions},
      {"audio", refuse}, {"web_search_options", refuse}, {"prediction", refuse}, {"moderation", refuse},
      {"allowed_token_ids", refuse}, {"samplers", refuse}, {"chat_template", refuse}, {"reasoning_budget_tokens", refuse},
      {"lora", refuse}, {"options", refuse}, {"num_ctx", refuse}, {"num_predict", refuse}, {"prompt", refuse},
      {"input", refuse}, {"guided_decoding", refuse}, {"logits_bias", refuse}, {"sampler_seq", refuse},
      // Harmless: they shape what is refused above.
      {"dry_base", ignore}, {"dry_allowed_length", ignore}, {"dry_penalty_last_n", ignore},
      {"dry_sequence_breakers", ignore}, {"xtc_threshold", ignore}, {"mirostat_tau", ignore}, {"mirostat_eta", ignore},
      {"dynatemp_exponent", ignore}, {"adaptive_decay", ignore},
      // Harmless.
      {"user", ignore}, {"safety_identifier", ignore}, {"metadata", ignore}, {"service_tier", ignore},
      {"prompt_cache_retention", ignore}, {"verbosity", ignore},
      {"parallel_tool_calls", ignore}, {"id_slot", ignore}, {"timings_per_token", ignore},
      {"sse_ping_interval", ignore}, {"request_id", ignore},
      {"n_keep", ignore}, {"n_discard", ignore}, {"keep_alive", ignore}, {"parse_tool_calls", ignore},
      {"guided_decoding_backend", ignore}, {"backend_sampling", ignore}, {"parse_special", ignore},
  };
  return table;
}
// clang-format on

}  // namespace

Status set_chat_field(const std::string& name, const ordered_json& value, bool strict, ChatRequest& out) {
  const auto row = field_table().find(name);
  if (row != field_table().end()) return row->second(value, name, out);
  if (strict) return unsupported_field(name, " is not a field llmd knows.");
  spdlog::debug("a request has the unknown field {}", printable(name, 64));
  return {};
}

Status check_chat_fields(const ordered_json& body, ChatRequest& out) {
  // Of the names for the same limit the newest one counts.
  if (const auto it = body.find("max_completion_tokens"); it != body.end() && !it->is_null()) {
    LLMD_RETURN_IF_ERROR(set_tokens_max(*it, "max_completion_tokens", out));
  }
  LLMD_RETURN_IF_ERROR(check_sampling_fields(out));
  const auto options = body.find("stream_options");
  if (options != body.end() && !options->is_null() && !out.stream) {
    return wrong_value("stream_options", " needs \"stream\": true.");
  }
  if (!out.thinking && out.reasoning_effort == "none") out.thinking = false;
  return {};
}

Result<ChatRequest> parse_chat_request(const ordered_json& body, bool strict, const SamplingParams& defaults) {
  if (!body.is_object()) return client_error("invalid_json", "The body must be a JSON object.");
  ChatRequest out;
  out.template_kwargs = ordered_json::object();
  out.sampling = defaults;
  for (const auto& [name, value] : body.items()) {
    if (!value.is_null()) LLMD_RETURN_IF_ERROR(set_chat_field(name, value, strict, out));
  }
  if (out.messages.is_null()) return client_error("missing_field", "messages is missing.", "messages");
  LLMD_RETURN_IF_ERROR(check_chat_fields(body, out));
  return out;
}

}  // namespace llmd
