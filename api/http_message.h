// HttpRequest and HttpReply: a request and a reply as plain values, and their text on the wire.
//
// Everything above the socket speaks these; only api/listener and api/http_session know Asio and Beast. Pure functions,
// any thread, never fail.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd {

struct HttpRequest {
  std::string method;  // "GET"
  std::string target;  // as sent: origin-form or absolute-form
  bool http_1_0 = false;
  bool keep_alive = true;
  bool loopback = false;  // it came to a loopback address, not to any other address or a unix socket
  // Header fields; empty: absent.
  std::string content_type, content_encoding;
  std::string host, origin, authorization, api_key;
  std::string body;
};

struct HttpReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  // besides Content-Length, Connection, Date and Server
  std::string content_type = "application/json";
  std::string body;
};

/// How the end of a body is known.
enum class BodyFraming { kLength, kChunked, kUntilClose };

struct WireOptions {
  BodyFraming framing = BodyFraming::kLength;
  bool keep_alive = true;
  bool http_1_0 = false;
  std::string request_id;
  std::string allow_origin;  // whose pages may read the reply; empty: it says nothing of that
};

/// Status line and header fields with the empty line; the body is not included. kLength states reply.body's size.
std::string wire_head(const HttpReply& reply, const WireOptions& options);

/// `bytes` (not empty) as one chunk of a chunked body, and the end of such a body.
std::string wire_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

/// The path of a request target: scheme, authority and query removed, slashes collapsed, no slash at the end, a leading
/// /v1 (also a doubled one) removed. "/v1//models/?a=b" and "http://h/models" are "/models"; "/" and "/v1" are "".
std::string normal_path(std::string_view target);

/// %XX decoded; a broken escape stays as it is.
std::string percent_decode(std::string_view text);

/// ASCII letters in lower case.
std::string lower_case(std::string_view text);

/// For logs: printable ASCII, everything else replaced by '?', cut at `bytes_max`.
std::string printable(std::string_view text, size_t bytes_max);

}  // namespace llmd
