// HttpServer: the listening sockets, the http thread and the sessions.
//
// start() binds and serves at once, also while the engine is still loading (requests then get 503 with the progress).
// begin_drain() turns new requests away and lets running ones finish; stop() ends those too, with an error event each,
// waits until they are sent (bounded by stop_timeout) and joins. All methods may be called from any thread but the
// server's own; the engine must outlive the server. Errors of start(): operating "listen_failed" naming the address.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/engine.h"
#include "api/http_options.h"
#include "io/result.h"

namespace llmd {

class HttpServer {
 public:
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, Engine& engine);
  ~HttpServer();  // stop()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// The port of the first address; 0 for a unix socket.
  uint16_t port() const;
  /// Every address it listens on, as HttpOptions::listen writes them, with the ports in use.
  std::vector<std::string> addresses() const;
  const HttpStats& stats() const;
  void begin_drain();
  void stop();

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmd
