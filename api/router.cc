#include "api/router.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/api_error.h"

namespace llmd {
namespace {

using nlohmann::ordered_json;
using Phase = EngineStatus::Phase;

HttpReply json_reply(const ordered_json& body, int status = 200) {
  HttpReply reply;
  reply.status = status;
  reply.body = body.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  return reply;
}

Error unavailable(const EngineStatus& status) {
  if (status.phase == Phase::kLoading) {
    const int percent = static_cast<int>(std::clamp(status.progress, 0.0, 1.0) * 100);
    return operating_error(
        "model_loading", "The model is loading: " + status.phase_detail + ", " + std::to_string(percent) + " % done.");
  }
  if (status.phase == Phase::kFailed) {
    return operating_error("model_failed", "The model could not be loaded; the log of llmd says why.");
  }
  return operating_error("shutting_down", "llmd is shutting down.");
}

HttpReply health(const EngineStatus& status, bool draining) {
  const bool stopping = draining || status.phase == Phase::kDraining;
  std::string name = status.degraded ? "degraded" : "ok";
  if (status.phase == Phase::kLoading) name = "loading";
  if (status.phase == Phase::kFailed) name = "failed";
  if (stopping) name = "draining";
  const bool up = name == "ok" || name == "degraded";
  HttpReply reply = json_reply({{"status", name},
                                {"reason", status.degraded_reason},
                                {"phase", status.phase_detail},
                                {"progress", up || stopping ? 1.0 : std::clamp(status.progress, 0.0, 1.0)},
                                {"read_path", status.read_path},
                                {"read_path_reason", status.read_path_reason},
                                {"requests_running", status.requests_running},
                                {"requests_waiting", status.requests_waiting}},
                               up ? 200 : 503);
  if (!up) reply.headers.emplace_back("Retry-After", "5");
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

ordered_json model_json(const EngineInfo& info, const std::string& id) {
  return {{"id", id},
          {"object", "model"},
          {"created", info.created_unix},
          {"owned_by", "llmd"},
          {"meta", {{"n_ctx", info.context_tokens}}}};
}

HttpReply models(const Engine& engine, const HttpOptions& options, const std::string& wanted) {
  const EngineInfo& info = engine.info();
  if (!wanted.empty()) {
    const auto& aliases = options.model_aliases;
    if (wanted == info.model_id || std::find(aliases.begin(), aliases.end(), wanted) != aliases.end()) {
      return json_reply(model_json(info, wanted));
    }
    return error_reply(client_error("model_not_found", "There is no model \"" + wanted + "\" here.", "model"));
  }
  ordered_json list = ordered_json::array({model_json(info, info.model_id)});
  for (const std::string& alias : options.model_aliases) list.push_back(model_json(info, alias));
  return json_reply({{"object", "list"}, {"data", std::move(list)}});
}

HttpReply method_not_allowed(const std::string& allow) {
  HttpReply reply = error_reply(client_error("method_not_allowed", "This path takes " + allow + "."));
  reply.headers.emplace_back("Allow", allow);
  return reply;
}

// curl -d says x-www-form-urlencoded, and some clients say nothing: both are taken for JSON.
bool acceptable_type(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  std::string lower(type);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower.empty() || lower == "application/json" || lower == "application/x-www-form-urlencoded" ||
         (lower.starts_with("application/") && lower.ends_with("+json"));
}

std::optional<HttpReply> chat_refusal(const HttpRequest& request) {
  if (!acceptable_type(request.content_type)) {
    return error_reply(client_error("unsupported_media_type", "Send the body as application/json."));
  }
  if (!request.content_encoding.empty() && request.content_encoding != "identity") {
    return error_reply(client_error("unsupported_media_type", "Send the body without Content-Encoding."));
  }
  return std::nullopt;
}

}  // namespace

std::optional<HttpReply> route(const HttpRequest& request, const Engine& engine, const HttpOptions& options,
                               bool draining) {
  const std::string path = normal_path(request.target);
  const bool is_chat = path == "/chat/completions";
  const bool is_models = path == "/models" || path.starts_with("/models/");
  const bool is_known = is_chat || is_models || path.empty() || path == "/health";
  const std::string allow = is_chat ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
  if (request.method == "OPTIONS" && (is_known || path == "*")) {
    HttpReply reply;
    reply.status = 204;
    reply.headers.emplace_back("Allow", allow);
    return reply;
  }
  if (!is_known) {
    return error_reply(client_error("not_found", "There is nothing at " + printable(path, 200) + "."));
  }
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  if (is_chat ? request.method != "POST" : !is_get) return method_not_allowed(allow);

  const EngineStatus status = engine.status();
  if (path == "/health") return health(status, draining);
  if (path.empty()) {
    return json_reply(
        {{"object", "server"}, {"name", "llmd"}, {"endpoints", {"/health", "/v1/models", "/v1/chat/completions"}}});
  }
  if (draining) return error_reply(operating_error("shutting_down", "llmd is shutting down."));
  if (status.phase != Phase::kReady) return error_reply(unavailable(status));
  if (is_models) return models(engine, options, path == "/models" ? "" : percent_decode(path.substr(8)));
  return chat_refusal(request);
}

}  // namespace llmd
