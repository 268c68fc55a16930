// http_options: what the HTTP server is told of the settings, with the keys read from where they lie.
//
// Called once, before the server starts. Keys come from --api-key-file and from the systemd credential llmd-api-keys;
// without any, only addresses of this machine and socket files are served, unless --insecure-listen is on.
// Errors: operating "config_invalid", naming the file or the address and the cure; never quoting a key.
#pragma once

#include <string>

#include "api/http_options.h"
#include "daemon/options.h"
#include "io/result.h"

namespace llmd {

Result<HttpOptions> http_options(const Options& options, const Environment& environment);

/// The first key of a file, for a client; empty where `path` is.
Result<std::string> client_key(const std::string& path);

}  // namespace llmd
