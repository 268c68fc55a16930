#include "api/http_message.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace llmd {
namespace {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

std::string http_date() {
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT", kDays[static_cast<size_t>(parts.tm_wday)],
           parts.tm_mday, kMonths[static_cast<size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
           parts.tm_sec);
  return text.data();
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string wire_head(const HttpReply& reply, const WireOptions& options) {
  std::string out = options.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  out.append(std::to_string(reply.status)).append(" ").append(reason_phrase(reply.status)).append("\r\n");
  const auto field = [&out](std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
  };
  field("Server", "llmd");
  field("Date", http_date());
  if (reply.status != 204) field("Content-Type", reply.content_type);
  for (const auto& [name, value] : reply.headers) field(name, value);
  if (!options.request_id.empty()) field("x-request-id", options.request_id);
  if (!options.allow_origin.empty()) {
    field("Access-Control-Allow-Origin", options.allow_origin);
    field("Access-Control-Expose-Headers", "x-request-id, retry-after, retry-after-ms");
    if (options.allow_origin != "*") field("Vary", "Origin");
  }
  if (options.framing == BodyFraming::kLength && reply.status != 204) {
    field("Content-Length", std::to_string(reply.body.size()));
  }
  if (options.framing == BodyFraming::kChunked) field("Transfer-Encoding", "chunked");
  if (!options.keep_alive) field("Connection", "close");
  if (options.keep_alive && options.http_1_0) field("Connection", "keep-alive");
  out.append("\r\n");
  return out;
}

std::string wire_chunk(std::string_view bytes) {
  std::array<char, 20> size{};
  snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  std::string out = size.data();
  out.append(bytes).append("\r\n");
  return out;
}

std::string normal_path(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (!target.starts_with('/')) {
    const size_t scheme = target.find("://");
    if (scheme == std::string_view::npos) return std::string(target);
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? std::string_view() : target.substr(slash);
  }
  std::string path;
  for (const char c : target) {
    if (c != '/' || path.empty() || path.back() != '/') path.push_back(c);
  }
  while (path.ends_with('/')) path.pop_back();
  while (path == "/v1" || path.starts_with("/v1/")) path.erase(0, 3);
  return path;
}

std::string percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string printable(std::string_view text, size_t bytes_max) {
  std::string out(text.substr(0, bytes_max));
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return out;
}

}  // namespace llmd
