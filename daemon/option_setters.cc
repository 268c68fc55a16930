#include "daemon/option_setters.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "daemon/option_table.h"

namespace llmd {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr size_t kUnixPathMax = 107;  // of sockaddr_un

Result<ListenAddress> parse_listen(std::string_view name, std::string_view text) {
  if (text.substr(0, kUnixPrefix.size()) == kUnixPrefix) {
    const std::string_view path = text.substr(kUnixPrefix.size());
    if (path.empty() || path.size() > kUnixPathMax) {
      return usage_error(std::string(name) + ": a socket's path has 1 to " + std::to_string(kUnixPathMax) +
                         " bytes; write unix:/run/llmd/llmd.sock");
    }
    return ListenAddress{{}, 0, std::string(path)};
  }
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || (!bracketed && host.find(':') != std::string_view::npos)) {
    return usage_error(std::string(name) + ": " + quoted(text) +
                       " is not HOST:PORT; write 127.0.0.1:8080, or [::1]:8080 for IPv6");
  }
  LLMD_ASSIGN_OR_RETURN(const int64_t port, parse_integer(name, text.substr(colon + 1), 0, 65535));
  return ListenAddress{std::string(host), static_cast<uint16_t>(port), {}};
}

}  // namespace

std::string ListenAddress::to_string() const {
  if (!unix_path.empty()) return std::string(kUnixPrefix) + unix_path;
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<std::vector<std::string>> parse_list(std::string_view name, std::string_view text) {
  std::vector<std::string> list;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (part.empty()) return usage_error(std::string(name) + ": a part of " + quoted(text) + " is empty");
    list.emplace_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return list;
}

std::string join_list(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& part : list) text += (text.empty() ? "" : ",") + part;
  return text;
}

Status set_listen(Options& options, std::string_view name, std::string_view text) {
  LLMD_ASSIGN_OR_RETURN(const std::vector<std::string> parts, parse_list(name, text));
  std::vector<ListenAddress> addresses;
  for (const std::string& part : parts) {
    LLMD_ASSIGN_OR_RETURN(ListenAddress address, parse_listen(name, part));
    addresses.push_back(std::move(address));
  }
  if (addresses.empty()) return usage_error(std::string(name) + ": there is no address; write 127.0.0.1:8080");
  options.listen = std::move(addresses);
  return {};
}

std::string get_listen(const Options& options) {
  std::vector<std::string> parts;
  for (const ListenAddress& address : options.listen) parts.push_back(address.to_string());
  return join_list(parts);
}

Status set_socket_mode(Options& options, std::string_view name, std::string_view text) {
  uint32_t mode = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (problem != std::errc() || end != text.data() + text.size() || mode > 0777) {
    return usage_error(std::string(name) + ": " + quoted(text) + " is not a mode; write 0660");
  }
  options.socket_mode = mode;
  return {};
}

std::string get_socket_mode(const Options& options) {
  std::string digits;
  for (uint32_t shift : {9u, 6u, 3u, 0u}) digits += static_cast<char>('0' + ((options.socket_mode >> shift) & 7u));
  return digits;
}

Status add_override(Options& options, std::string_view name, std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return usage_error(std::string(name) + ": " + quoted(text) +
                       " is not KEY=VALUE; an example: general.name=my-model");
  }
  options.override_kv.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  return {};
}

Status set_tokens(Options& options, std::string_view name, std::string_view text) {
  std::vector<int32_t> tokens;
  while (true) {
    const size_t comma = text.find(',');
    LLMD_ASSIGN_OR_RETURN(const int64_t token,
                          parse_integer(name, text.substr(0, comma), 0, std::numeric_limits<int32_t>::max()));
    tokens.push_back(static_cast<int32_t>(token));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  options.tokens = std::move(tokens);
  return {};
}

}  // namespace llmd
