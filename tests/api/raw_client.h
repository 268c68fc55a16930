// RawClient: bytes to and from a server on the loopback interface, as they are. Every wait is bounded.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace llmd::test {

struct Response {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  bool complete = false;  // the body ended as its framing says
};

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0, bool connect_now = true) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    if (connect_now) connect_to(port);
  }
  bool connect_to(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    return connected_;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(size));
    }
    return true;
  }
  void shutdown_send() { shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  /// Close with RST instead of FIN.
  void reset() {
    const linger hard{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }

  /// Reads until `text` is in what came; false when the peer closed or time ran out.
  bool read_until(std::string_view text) {
    while (received_.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  /// Everything until the peer closes; `closed()` tells whether it did.
  std::string read_to_end() {
    while (read_some()) {
    }
    return std::exchange(received_, {});
  }
  bool closed() const { return closed_; }
  const std::string& received() const { return received_; }

  /// One response; what follows it stays for the next call. `head`: the request was HEAD.
  Response read_response(bool head = false) {
    Response response;
    size_t end = 0;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_some()) return response;
    }
    parse_head(received_.substr(0, end), response);
    received_.erase(0, end + 4);
    if (response.status == 100) return read_response(head);
    if (head || response.status == 204) {
      response.complete = true;
    } else if (response.headers.count("content-length") != 0) {
      read_exactly(std::stoul(response.headers["content-length"]), response);
    } else if (response.headers.count("transfer-encoding") != 0) {
      read_chunks(response);
    } else {
      response.body = read_to_end();
      response.complete = closed_;
    }
    return response;
  }

 private:
  bool read_some() {
    pollfd waiting{fd_, POLLIN, 0};
    if (fd_ < 0 || closed_ || poll(&waiting, 1, 20'000) != 1) return false;
    char buffer[16384];
    const ssize_t size = recv(fd_, buffer, sizeof buffer, 0);
    if (size <= 0) {
      closed_ = true;
      return false;
    }
    received_.append(buffer, static_cast<size_t>(size));
    return true;
  }
  void parse_head(const std::string& head, Response& response) {
    if (head.size() > 12) response.status = std::stoi(head.substr(9, 3));
    size_t at = head.find("\r\n");
    while (at != std::string::npos) {
      const size_t next = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, next == std::string::npos ? next : next - at - 2);
      const size_t colon = line.find(": ");
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](char c) { return static_cast<char>(tolower(c)); });
      if (colon != std::string::npos) response.headers[name] = line.substr(colon + 2);
      at = next;
    }
  }
  void read_exactly(size_t size, Response& response) {
    while (received_.size() < size) {
      if (!read_some()) break;
    }
    response.complete = received_.size() >= size;
    response.body = received_.substr(0, size);
    received_.erase(0, size);
  }
  void read_chunks(Response& response) {
    while (true) {
      size_t end = 0;
      while ((end = received_.find("\r\n")) == std::string::npos) {
        if (!read_some()) return;
      }
      const size_t size = std::stoul(received_.substr(0, end), nullptr, 16);
      while (received_.size() < end + 2 + size + 2) {
        if (!read_some()) return;
      }
      response.body += received_.substr(end + 2, size);
      received_.erase(0, end + 2 + size + 2);
      if (size == 0) {
        response.complete = true;
        return;
      }
    }
  }

  int fd_ = -1;
  bool connected_ = false, closed_ = false;
  std::string received_;
};

}  // namespace llmd::test
