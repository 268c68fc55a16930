// route: which of the server's few resources a request names, and the whole reply of all but one of them.
//
// Decided from the request line and header alone, before a body is read, so that a refusal needs none. Chat completions
// is the one route that is not answered here. http thread; reads the engine's status, never fails.
#pragma once

#include <optional>

#include "api/engine.h"
#include "api/http_message.h"
#include "api/http_options.h"

namespace llmd {

/// The reply, or nothing when the request is a chat completion to be read and run.
std::optional<HttpReply> route(const HttpRequest& request, const Engine& engine, const HttpOptions& options,
                               bool draining);

}  // namespace llmd
