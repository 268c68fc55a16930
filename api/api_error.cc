#include "api/api_error.h"

#include <nlohmann/json.hpp>

namespace llmd {
namespace {

using nlohmann::ordered_json;

struct Row {
  std::string_view code;
  int status;
  std::string_view type;
};

// Codes that are not simply 400 (client) or 500 (operating).
constexpr Row kRows[] = {
    {"invalid_api_key", 401, "authentication_error"},
    {"host_not_allowed", 403, "permission_error"},
    {"origin_not_allowed", 403, "permission_error"},
    {"model_not_found", 404, "not_found_error"},
    {"not_found", 404, "not_found_error"},
    {"method_not_allowed", 405, "invalid_request_error"},
    {"request_timeout", 408, "invalid_request_error"},
    {"deadline_exceeded", 408, "invalid_request_error"},
    {"request_too_large", 413, "invalid_request_error"},
    {"uri_too_long", 414, "invalid_request_error"},
    {"unsupported_media_type", 415, "invalid_request_error"},
    {"expectation_failed", 417, "invalid_request_error"},
    {"queue_full", 429, "rate_limit_error"},
    {"header_too_large", 431, "invalid_request_error"},
    {"transfer_encoding_unsupported", 501, "invalid_request_error"},
    {"model_loading", 503, "unavailable_error"},
    {"model_failed", 503, "unavailable_error"},
    {"shutting_down", 503, "unavailable_error"},
    {"server_busy", 503, "unavailable_error"},
};

const Row* find_row(std::string_view code) {
  for (const Row& row : kRows) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

// The file cannot be read, or what is in it is damaged: asking again gives the same.
bool is_model_error(const Error& error) {
  return error.code == "model_read_error" || error.code == "model_truncated" ||
         error.code == "model_checksum_mismatch" || error.code == "model_output_invalid";
}

// What a client is told of an operating error. The details are for the log.
std::string public_message(const Error& error) {
  if (error.kind == ErrorKind::kClient) return error.message;
  if (error.code == "model_read_error") return "The model could not be read from its drive; the log of llmd says more.";
  if (is_model_error(error)) return "The model's file is damaged; the log of llmd says more.";
  if (error.code == "shutting_down") return "llmd is shutting down.";
  if (error.code == "model_loading" || error.code == "model_failed" || error.code == "server_busy") {
    return error.message;
  }
  return "Internal error (" + error.code + "); the log of llmd says more.";
}

ordered_json error_object(const Error& error) {
  const Row* row = find_row(error.code);
  const std::string_view fallback = error.kind == ErrorKind::kClient ? "invalid_request_error" : "server_error";
  ordered_json object;
  object["message"] = public_message(error);
  object["type"] = row != nullptr ? row->type : fallback;
  object["param"] = error.param.empty() ? ordered_json(nullptr) : ordered_json(error.param);
  object["code"] = error.code;
  return object;
}

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

int status_of(const Error& error) {
  if (const Row* row = find_row(error.code)) return row->status;
  return error.kind == ErrorKind::kClient ? 400 : 500;
}

std::string error_json(const Error& error) {
  return dump(ordered_json{{"error", error_object(error)}});
}

HttpReply error_reply(const Error& error) {
  HttpReply reply;
  reply.status = status_of(error);
  reply.body = error_json(error) + "\n";
  if (reply.status == 429) {
    reply.headers.emplace_back("Retry-After", "2");
    reply.headers.emplace_back("retry-after-ms", "2000");
  } else if (reply.status == 503) {
    reply.headers.emplace_back("Retry-After", "5");
  } else if (is_model_error(error) || error.code == "template_invalid" || reply.status == 501) {
    reply.headers.emplace_back("x-should-retry", "false");
  }
  return reply;
}

HttpReply context_length_reply(int64_t prompt_tokens, int64_t context_tokens, bool at_least, const char* param) {
  const Error error = client_error("context_length_exceeded",
                                   std::string("The prompt has ") + (at_least ? "at least " : "") +
                                       std::to_string(prompt_tokens) + " tokens; the context holds " +
                                       std::to_string(context_tokens) + ", and one must be left for the answer.",
                                   param);
  ordered_json object = error_object(error);
  object["n_prompt_tokens"] = prompt_tokens;
  object["n_ctx"] = context_tokens;
  HttpReply reply = error_reply(error);
  reply.body = dump(ordered_json{{"error", std::move(object)}}) + "\n";
  return reply;
}

}  // namespace llmd
