// The small HTTP client behind `llmd chat`: an address, an incremental response reader, an event-stream reader.
//
// These are parsers: bytes in, meaning out, no socket and no thread of their own, so tests feed them byte by byte. One
// thread uses an object at a time. What comes from the network is bounded (header 64 KiB, an event 1 MiB) and malformed
// input is an Error with code "bad_response"; a wrong URL is "usage".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/result.h"

namespace llmd {

struct HttpAddress {
  std::string host, port, path;  // path without a trailing slash; empty for none
  std::string authority;         // for the Host header
};

/// "http://host[:port][/path]". Errors: "usage".
Result<HttpAddress> parse_url(std::string_view url);

/// Takes the bytes of one HTTP/1.1 response as they arrive and gives back those of its body.
class HttpResponseReader {
 public:
  /// Appends to `body` what these bytes carry of it.
  Status feed(std::string_view bytes, std::string& body);
  /// The peer closed. An error when the response was not complete.
  Status end();
  /// 0 until the header is in.
  int status() const { return status_; }
  bool done() const { return state_ == State::kDone; }

 private:
  enum class State { kHeader, kLength, kUntilClose, kChunkSize, kChunkData, kChunkEnd, kTrailer, kDone };
  Status take_header();
  Status take_line(std::string_view line);

  State state_ = State::kHeader;
  std::string pending_;  // an unfinished header or line
  uint64_t left_ = 0;    // bytes of the body or of the chunk
  int status_ = 0;
};

/// Takes an event stream as it arrives and gives back the data of each complete event; comments are dropped.
class EventStreamReader {
 public:
  Status feed(std::string_view bytes, std::vector<std::string>& events);

 private:
  std::string line_, data_;
  bool has_data_ = false;
};

/// What one streamed chunk says.
struct ChatDelta {
  std::string text, reasoning;
  std::string finish_reason;  // empty until the last
};
/// Errors: "bad_response"; an error object in the stream comes out with its own code and message.
Result<ChatDelta> parse_chat_delta(std::string_view data);
/// The message of a JSON error body, or a general one for the status.
std::string error_text(int status, std::string_view body);

/// `text` without the control characters that could drive a terminal; line ends and tabs stay.
std::string printable(std::string_view text);

}  // namespace llmd
