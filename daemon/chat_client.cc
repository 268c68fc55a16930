#include "daemon/chat_client.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "daemon/option_table.h"

namespace llmd {
namespace {

using nlohmann::json;

constexpr size_t kHeaderBytesMax = 64 << 10;
constexpr size_t kLineBytesMax = 1024;
constexpr size_t kEventBytesMax = 1 << 20;

Error bad_response(std::string why) {
  return operating_error("bad_response", "the answer is not one of llmd's: " + std::move(why));
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// The whole of `text` as a number.
bool parse_number(std::string_view text, int base, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

/// The string at `key`; empty when it is absent, null or something else.
std::string text_at(const json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Result<HttpAddress> parse_url(std::string_view url) {
  const auto fail = [&] {
    return usage_error("--url: " + quoted(url) + " is not an address; write http://127.0.0.1:8080");
  };
  static constexpr std::string_view kScheme = "http://";
  if (url.substr(0, kScheme.size()) != kScheme) return fail();
  const bool clean = std::none_of(url.begin(), url.end(), [](char c) { return c <= ' ' || c == 0x7f; });
  std::string_view rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  HttpAddress address;
  address.authority = std::string(rest.substr(0, slash));
  address.path = std::string(rest.substr(slash));
  while (!address.path.empty() && address.path.back() == '/') address.path.pop_back();
  std::string_view host = address.authority;
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  address.port = "80";
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    uint64_t port = 0;
    if (!parse_number(host.substr(colon + 1), 10, port) || port == 0 || port > 65535) return fail();
    address.port = std::to_string(port);
    host = host.substr(0, colon);
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty() || !clean) return fail();
  address.host = std::string(host);
  return address;
}

Status HttpResponseReader::take_header() {
  std::string_view header = pending_;
  const std::string_view status_line = header.substr(0, header.find('\n'));
  uint64_t status = 0;
  if (status_line.substr(0, 7) != "HTTP/1." || status_line.size() < 12 ||
      !parse_number(status_line.substr(9, 3), 10, status)) {
    return bad_response("no HTTP status line");
  }
  status_ = static_cast<int>(status);
  state_ = State::kUntilClose;
  while (!header.empty()) {
    const size_t end = std::min(header.find('\n'), header.size());
    const std::string_view line = header.substr(0, end);
    header.remove_prefix(std::min(end + 1, header.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = lower(line.substr(0, colon));
    const std::string value = lower(trim(line.substr(colon + 1)));
    if (name == "transfer-encoding" && value == "chunked") {
      state_ = State::kChunkSize;
    } else if (name == "content-length" && state_ != State::kChunkSize) {
      if (!parse_number(value, 10, left_)) return bad_response("a bad Content-Length");
      state_ = left_ == 0 ? State::kDone : State::kLength;
    }
  }
  if (status_ >= 100 && status_ < 200) state_ = State::kHeader;  // an interim response: the real one follows
  return {};
}

Status HttpResponseReader::take_line(std::string_view line) {
  line = trim(line);
  if (state_ == State::kChunkSize) {
    if (!parse_number(trim(line.substr(0, line.find(';'))), 16, left_)) return bad_response("a bad chunk size");
    state_ = left_ == 0 ? State::kTrailer : State::kChunkData;
  } else if (state_ == State::kChunkEnd) {
    if (!line.empty()) return bad_response("a chunk longer than its size");
    state_ = State::kChunkSize;
  } else if (line.empty()) {
    state_ = State::kDone;
  }
  return {};
}

Status HttpResponseReader::feed(std::string_view bytes, std::string& body) {
  while (!bytes.empty() && state_ != State::kDone) {
    if (state_ == State::kUntilClose) {
      body += bytes;
      return {};
    }
    if (state_ == State::kLength || state_ == State::kChunkData) {
      const size_t n = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
      body += bytes.substr(0, n);
      bytes.remove_prefix(n);
      left_ -= n;
      if (left_ == 0) state_ = state_ == State::kLength ? State::kDone : State::kChunkEnd;
      continue;
    }
    const size_t end = bytes.find('\n');
    pending_ += bytes.substr(0, end == std::string_view::npos ? end : end + 1);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    const bool header = state_ == State::kHeader;
    if (pending_.size() > (header ? kHeaderBytesMax : kLineBytesMax)) return bad_response("an endless header");
    if (pending_.empty() || pending_.back() != '\n') continue;
    if (header && !pending_.ends_with("\r\n\r\n") && !pending_.ends_with("\n\n")) continue;
    LLMD_RETURN_IF_ERROR(header ? take_header() : take_line(pending_.substr(0, pending_.size() - 1)));
    pending_.clear();
  }
  return {};
}

Status HttpResponseReader::end() {
  if (state_ == State::kUntilClose || state_ == State::kDone) {
    state_ = State::kDone;
    return {};
  }
  return operating_error("bad_response",
                         "the connection was closed before the end of the answer; is llmd still running?");
}

Status EventStreamReader::feed(std::string_view bytes, std::vector<std::string>& events) {
  for (const char c : bytes) {
    if (c != '\n') {
      line_ += c;
      if (line_.size() + data_.size() > kEventBytesMax) return bad_response("an event of over 1 MiB");
      continue;
    }
    std::string_view line = line_;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    static constexpr std::string_view kField = "data:";
    if (line.empty()) {
      if (has_data_) events.push_back(std::move(data_));
      data_.clear();
      has_data_ = false;
    } else if (line.substr(0, kField.size()) == kField) {
      line.remove_prefix(kField.size());
      if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
      if (has_data_) data_ += '\n';
      data_ += line;
      has_data_ = true;
    }
    line_.clear();
  }
  return {};
}

Result<ChatDelta> parse_chat_delta(std::string_view data) {
  const json event = json::parse(data, nullptr, false);
  if (!event.is_object()) return bad_response("an event that is not a JSON object");
  if (const auto error = event.find("error"); error != event.end()) {
    const std::string message = text_at(*error, "message");
    return operating_error(text_at(*error, "code"), message.empty() ? "the server reported an error" : message);
  }
  ChatDelta delta;
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array() || choices->empty()) return delta;
  const json& choice = choices->front();
  delta.finish_reason = text_at(choice, "finish_reason");
  const auto found = choice.is_object() ? choice.find("delta") : choice.end();
  if (found == choice.end()) return delta;
  delta.text = text_at(*found, "content");
  delta.reasoning = text_at(*found, "reasoning_content");
  return delta;
}

std::string error_text(int status, std::string_view body) {
  const json parsed = json::parse(body, nullptr, false);
  std::string message;
  if (parsed.is_object() && parsed.contains("error")) message = text_at(parsed["error"], "message");
  const std::string number = std::to_string(status);
  return message.empty() ? "the server answered with HTTP status " + number : message + " (HTTP status " + number + ")";
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t' || (byte >= 0x20 && byte != 0x7f)) out += c;
  }
  return out;
}

}  // namespace llmd
