// HttpOptions: every limit and interval of the HTTP server, in one place, and HttpStats: what it counts.
//
// Plain values: filled by the daemon from its configuration (or by a test with small numbers) before HttpServer::start
// and constant afterwards. HttpStats is written by the http thread and may be read from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "api/api_keys.h"

namespace llmd {

struct HttpOptions {
  using milliseconds = std::chrono::milliseconds;

  std::vector<std::string> listen = {"127.0.0.1:8080"};  // HOST:PORT, [IPV6]:PORT or unix:PATH; port 0: any free one
  uint32_t unix_mode = 0660;                             // mode of a unix socket
  std::string version;
  ApiKeys keys;                            // none: no key is asked for
  std::vector<std::string> cors_origins;   // whose pages may use the server; "*": any; none: no CORS at all
  std::vector<std::string> allowed_hosts;  // names in Host besides those of loopback; "*": any
  bool slots_page = false;                 // GET /slots
  std::vector<std::string> model_aliases;
  bool ignore_model_name = false;  // answer whatever `model` a client names
  bool strict_params = false;      // an unknown request field is an error instead of being ignored

  uint32_t connections_max = 1100;               // beyond: the longest idle one is closed, else accepting pauses
  uint32_t header_bytes_max = 16 << 10;          // 431 beyond
  uint64_t body_bytes_max = 16ull << 20;         // one body; 413 beyond
  uint64_t body_bytes_total_max = 64ull << 20;   // all bodies being received or parsed; 503 beyond
  uint64_t send_bytes_max = 1ull << 20;          // text a stream's client may be behind; then it is cancelled
  uint64_t logprobs_bytes_max = 8ull << 20;      // of a reply that is not streamed; then it is an error
  uint64_t body_bytes_per_second_min = 4 << 10;  // a body must come at this rate after body_grace

  milliseconds header_timeout{10'000};
  milliseconds body_grace{20'000};
  milliseconds keep_alive_idle{60'000};
  milliseconds send_stall{60'000};     // a client that takes no byte for this long is dropped
  milliseconds linger_timeout{2'000};  // reading on after the last reply, so that it arrives
  milliseconds stop_timeout{3'000};    // stop(): for the last error chunks to go out

  milliseconds ping_interval{10'000};  // SSE comments while a stream is silent
  bool json_keepalive = true;          // newlines before a non-streamed reply that takes long
  milliseconds json_keepalive_after{30'000};
  milliseconds json_keepalive_interval{15'000};
  bool half_close_answer = false;  // answer a non-streamed client that closed its sending side, instead of cancelling
};

struct HttpStats {
  std::atomic<uint64_t> connections_total{0};
  std::atomic<uint32_t> connections_open{0};
  std::atomic<uint64_t> requests_total{0};
  std::atomic<uint64_t> cancelled_total{0};  // generations given up because the client went away or fell behind
  std::atomic<uint64_t> rejected_total{0};   // replies of status 4xx and 5xx
};

}  // namespace llmd
