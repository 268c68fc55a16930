// Who may ask: keys, the Host a client believes to speak to, and web pages of other origins.
//
// Decided from the header alone, before a body is read. /health and OPTIONS are open to everyone; everything else needs
// a key where keys are set. On a loopback address the Host must be a name of this machine, so that no web page can
// reach the server under a name of its own (DNS rebinding). Pure functions of the request and the options; http thread.
#pragma once

#include <optional>
#include <string>

#include "api/http_message.h"
#include "api/http_options.h"

namespace llmd {

/// The refusal, if there is one: 401 invalid_api_key, 403 host_not_allowed or origin_not_allowed.
std::optional<HttpReply> check_access(const HttpRequest& request, const HttpOptions& options);

/// The key that a request has shown and that is one of `keys`; empty: there is none.
std::string accepted_key(const HttpRequest& request, const ApiKeys& keys);

/// What Access-Control-Allow-Origin says: the request's origin, when it is on the list; else empty, and no such field.
std::string allowed_origin(const HttpRequest& request, const HttpOptions& options);

/// "localhost", a name under it, or a loopback address; `host` as in a Host field or a URL.
bool is_loopback_name(std::string_view host);

}  // namespace llmd
