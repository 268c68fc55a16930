// `llmd chat`: reads a line, sends the conversation so far to a running daemon, prints the answer as it streams.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/chat_client.h"
#include "daemon/commands.h"
#include "daemon/http_settings.h"

namespace llmd {
namespace {

using nlohmann::json;

class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket(const Socket&) = delete;
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Result<Socket> connect_to(const HttpAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string place = address.host + " port " + address.port;
  if (const int error = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found); error != 0) {
    return operating_error("unreachable", "cannot find " + place + ": " + gai_strerror(error));
  }
  int reason = 0;
  Socket connected(-1);
  for (const addrinfo* item = found; item != nullptr && connected.descriptor() < 0; item = item->ai_next) {
    Socket candidate(socket(item->ai_family, item->ai_socktype | SOCK_CLOEXEC, item->ai_protocol));
    if (candidate.descriptor() >= 0 && connect(candidate.descriptor(), item->ai_addr, item->ai_addrlen) == 0) {
      freeaddrinfo(found);
      return candidate;
    }
    reason = errno;
  }
  freeaddrinfo(found);
  return operating_error("unreachable", "cannot reach " + place + ": " + std::strerror(reason) +
                                            "; start it with llmd serve, or name another address with --url");
}

Status send_all(const Socket& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return operating_error("unreachable", std::string("cannot send the question: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

/// The answer to one request as it arrives: what it says goes to the terminal, and stays in `text`.
class Answer {
 public:
  Status feed(std::string_view bytes) {
    std::string body;
    LLMD_RETURN_IF_ERROR(response_.feed(bytes, body));
    if (response_.status() != 200) {
      failure_ += body.substr(0, kFailureBytesMax - std::min(failure_.size(), kFailureBytesMax));
      return {};
    }
    std::vector<std::string> events;
    LLMD_RETURN_IF_ERROR(stream_.feed(body, events));
    for (const std::string& event : events) {
      if (event == "[DONE]") {
        finished_ = true;
        continue;
      }
      LLMD_ASSIGN_OR_RETURN(const ChatDelta delta, parse_chat_delta(event));
      print(delta);
    }
    return {};
  }

  /// After the last byte: was it a whole answer?
  Status check() {
    if (finished_) return {};
    LLMD_RETURN_IF_ERROR(response_.end());
    if (response_.status() != 200) return operating_error("refused", error_text(response_.status(), failure_));
    return operating_error("bad_response", "the answer broke off; see the log of llmd");
  }

  bool done() const { return response_.done() || finished_; }
  const std::string& text() const { return text_; }

 private:
  static constexpr size_t kFailureBytesMax = 64 << 10;

  void print(const ChatDelta& delta) {
    text_ += delta.text;
    if (delta.reasoning.empty() && delta.text.empty()) return;
    const std::string shown = printable(delta.reasoning + delta.text);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    std::fflush(stdout);
  }

  HttpResponseReader response_;
  EventStreamReader stream_;
  std::string text_, failure_;
  bool finished_ = false;
};

std::string request_text(const HttpAddress& address, const std::string& key, const json& messages) {
  const json request = {{"messages", messages}, {"stream", true}};
  const std::string body = request.dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string prefix = address.path.ends_with("/v1") ? address.path : address.path + "/v1";
  return "POST " + prefix + "/chat/completions HTTP/1.1\r\nHost: " + address.authority +
         (key.empty() ? "" : "\r\nAuthorization: Bearer " + key) +
         "\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nConnection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

Result<std::string> ask(const HttpAddress& address, const std::string& key, const json& messages) {
  LLMD_ASSIGN_OR_RETURN(const Socket socket, connect_to(address));
  LLMD_RETURN_IF_ERROR(send_all(socket, request_text(address, key, messages)));
  Answer answer;
  char buffer[16384];
  while (!answer.done()) {
    const ssize_t n = recv(socket.descriptor(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return operating_error("unreachable", std::string("the connection broke: ") + std::strerror(errno));
    if (n == 0) break;
    LLMD_RETURN_IF_ERROR(answer.feed({buffer, static_cast<size_t>(n)}));
  }
  LLMD_RETURN_IF_ERROR(answer.check());
  return answer.text();
}

}  // namespace

int run_chat(const Options& options) {
  const auto address = parse_url(options.url);
  if (!address) {
    std::fprintf(stderr, "llmd: %s\n", address.error().message.c_str());
    return exit_status(address.error());
  }
  const Result<std::string> key = client_key(options.api_key_file);
  if (!key) {
    std::fprintf(stderr, "llmd: %s\n", key.error().message.c_str());
    return exit_status(key.error());
  }
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) std::fputs("Type a message; Ctrl-D ends the conversation.\n", stderr);
  json messages = json::array();
  int status = 0;
  std::string line;
  while (true) {
    if (terminal) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    messages.push_back({{"role", "user"}, {"content", line}});
    const auto answer = ask(*address, *key, messages);
    std::fputs("\n", stdout);
    std::fflush(stdout);
    status = answer ? 0 : 1;
    if (answer) {
      messages.push_back({{"role", "assistant"}, {"content", *answer}});
    } else {
      std::fprintf(stderr, "llmd: %s\n", printable(answer.error().message).c_str());
      messages.erase(messages.size() - 1);  // as if it had not been asked
    }
  }
  if (terminal) std::fputs("\n", stderr);
  return status;
}

}  // namespace llmd
