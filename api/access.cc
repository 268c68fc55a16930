#include "api/access.h"

#include <arpa/inet.h>

#include <algorithm>

#include "api/api_error.h"

namespace llmd {
namespace {

/// A Host field's or authority's name: lower case, without the port, brackets and a final dot.
std::string host_name(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else if (std::count(host.begin(), host.end(), ':') == 1) {
    host = host.substr(0, host.find(':'));
  }
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower_case(host);
}

bool host_allowed(const HttpRequest& request, const HttpOptions& options) {
  if (!request.loopback || request.host.empty() || is_loopback_name(request.host)) return true;
  const std::string name = host_name(request.host);
  return std::any_of(options.allowed_hosts.begin(), options.allowed_hosts.end(),
                     [&](const std::string& allowed) { return allowed == "*" || host_name(allowed) == name; });
}

// A browser asks first (OPTIONS) before a page of another origin may send JSON; other types it just sends. Those llmd
// takes from everyone else, so it has to look itself.
bool origin_allowed(const HttpRequest& request, const HttpOptions& options) {
  if (request.origin.empty() || request.method != "POST") return true;
  if (lower_case(request.content_type).starts_with("application/json")) return true;
  if (!allowed_origin(request, options).empty()) return true;
  const size_t scheme = request.origin.find("://");
  return scheme != std::string::npos && lower_case(request.origin.substr(scheme + 3)) == lower_case(request.host);
}

}  // namespace

std::string accepted_key(const HttpRequest& request, const ApiKeys& keys) {
  constexpr size_t kSchemeBytes = 7;  // "Bearer "
  std::string accepted;
  if (lower_case(request.authorization.substr(0, kSchemeBytes)) == "bearer ") {
    std::string_view token = std::string_view(request.authorization).substr(kSchemeBytes);
    while (token.starts_with(' ')) token.remove_prefix(1);
    if (keys.accept(token)) accepted = token;
  }
  if (!request.api_key.empty() && keys.accept(request.api_key)) accepted = request.api_key;
  return accepted;
}

bool is_loopback_name(std::string_view host) {
  const std::string name = host_name(host);
  if (name == "localhost" || name.ends_with(".localhost") || name == "::1") return true;
  in_addr address{};
  return inet_pton(AF_INET, name.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

std::optional<HttpReply> check_access(const HttpRequest& request, const HttpOptions& options) {
  if (!host_allowed(request, options)) {
    return error_reply(client_error(
        "host_not_allowed", "This server is not known as " + printable(request.host, 100) + "; see --allowed-hosts."));
  }
  if (request.method == "OPTIONS" || normal_path(request.target) == "/health") return std::nullopt;
  if (!origin_allowed(request, options)) {
    return error_reply(client_error("origin_not_allowed", "Pages of " + printable(request.origin, 100) +
                                                              " may not use this server; see --cors-origins."));
  }
  if (options.keys.empty() || !accepted_key(request, options.keys).empty()) return std::nullopt;
  const bool none = request.authorization.empty() && request.api_key.empty();
  HttpReply reply = error_reply(client_error(
      "invalid_api_key",
      none ? "This server needs a key: send Authorization: Bearer KEY, or x-api-key: KEY." : "The key is not valid."));
  reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

std::string allowed_origin(const HttpRequest& request, const HttpOptions& options) {
  if (request.origin.empty()) return {};
  for (const std::string& allowed : options.cors_origins) {
    if (allowed == "*" || lower_case(allowed) == lower_case(request.origin))
      return allowed == "*" ? "*" : request.origin;
  }
  return {};
}

}  // namespace llmd
