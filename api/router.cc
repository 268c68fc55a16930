#include "api/router.h"

#include <algorithm>
#include <array>
#include <optional>

#include "api/access.h"
#include "api/api_error.h"
#include "api/status_pages.h"

namespace llmd {
namespace {

using Phase = EngineStatus::Phase;
using Page = HttpReply (*)(const Engine&, const HttpOptions&);

// A path is either posted to, with work for its body, or read, as a page. needs_model: the page is about the model.
struct Endpoint {
  std::string_view path;
  Work work = Work::kNone;
  Page page = nullptr;
  bool needs_model = true;
};

constexpr std::array kEndpoints = std::to_array<Endpoint>({
    {"/chat/completions", Work::kChat},
    {"/completions", Work::kCompletion},
    {"/tokenize", Work::kTokenize},
    {"/detokenize", Work::kDetokenize},
    {"/apply-template", Work::kApplyTemplate},
    {"/models", Work::kNone, models_page},
    {"/props", Work::kNone, props_page},
    {"/slots", Work::kNone, slots_page},
    {"/version", Work::kNone, version_page, false},
    {"/health", Work::kNone, nullptr, false},
    {"", Work::kNone, root_page, false},
});

const Endpoint* find_endpoint(std::string_view path, const HttpOptions& options) {
  if (path == "/slots" && !options.slots_page) return nullptr;
  if (path.starts_with("/models/")) path = "/models";
  const auto found = std::find_if(kEndpoints.begin(), kEndpoints.end(), [&](const auto& e) { return e.path == path; });
  return found == kEndpoints.end() ? nullptr : &*found;
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

Route replied(HttpReply reply) {
  return {Work::kNone, std::move(reply), false};
}

HttpReply not_found(const std::string& path) {
  if (path == "/embeddings") {
    return error_reply(client_error("not_found", "llmd generates text; it makes no embeddings."));
  }
  if (path == "/slots") return error_reply(client_error("not_found", "/slots is off; see --slots."));
  return error_reply(client_error("not_found", "There is nothing at " + printable(path, 200) + "."));
}

HttpReply allowed_methods(const HttpRequest& request, const HttpOptions& options, const std::string& allow) {
  HttpReply reply;
  reply.status = 204;
  reply.headers.emplace_back("Allow", allow);
  if (!allowed_origin(request, options).empty()) {
    reply.headers.emplace_back("Access-Control-Allow-Methods", allow);
    reply.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, x-api-key");
    reply.headers.emplace_back("Access-Control-Max-Age", "600");
  }
  return reply;
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
  const std::string lower = lower_case(type);
  return lower.empty() || lower == "application/json" || lower == "application/x-www-form-urlencoded" ||
         (lower.starts_with("application/") && lower.ends_with("+json"));
}

Route body_route(const HttpRequest& request, Work work) {
  if (!acceptable_type(request.content_type)) {
    return replied(error_reply(client_error("unsupported_media_type", "Send the body as application/json.")));
  }
  if (!request.content_encoding.empty() && request.content_encoding != "identity") {
    return replied(error_reply(client_error("unsupported_media_type", "Send the body without Content-Encoding.")));
  }
  return {work, {}, false};
}

}  // namespace

Route route(const HttpRequest& request, const Engine& engine, const HttpOptions& options, bool draining) {
  if (std::optional<HttpReply> refusal = check_access(request, options)) {
    return {Work::kNone, std::move(*refusal), true};
  }
  const std::string path = normal_path(request.target);
  const Endpoint* endpoint = find_endpoint(path, options);
  const bool posts = endpoint != nullptr && endpoint->work != Work::kNone;
  const std::string allow = posts ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
  if (request.method == "OPTIONS" && (endpoint != nullptr || path == "*")) {
    return replied(allowed_methods(request, options, path == "*" ? "GET, HEAD, POST, OPTIONS" : allow));
  }
  if (endpoint == nullptr) return replied(not_found(path));
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (posts ? request.method != "POST" : !reads) return replied(method_not_allowed(allow));

  if (path == "/health") return replied(health_page(engine.status(), draining));
  if (!endpoint->needs_model) return replied(endpoint->page(engine, options));
  const EngineStatus status = engine.status();
  if (draining) return replied(error_reply(operating_error("shutting_down", "llmd is shutting down.")));
  if (status.phase != Phase::kReady) return replied(error_reply(unavailable(status)));
  if (posts) return body_route(request, endpoint->work);
  if (path.starts_with("/models/")) return replied(model_page(engine, options, percent_decode(path.substr(8))));
  return replied(endpoint->page(engine, options));
}

}  // namespace llmd
