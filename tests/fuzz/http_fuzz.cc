// Fuzzes a whole server behind a socket file: what a client sends before it closes its sending side, whatever it is.
// All that comes back are complete HTTP/1.x replies, the connection ends, and the next one is served.
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "api/listener.h"
#include "tests/api/fake_engine.h"

namespace {

void check(bool right) {
  if (!right) std::abort();
}

struct Server {
  llmd::test::FakeEngine engine;
  std::unique_ptr<llmd::HttpServer> server;
  std::string path = "/tmp/llmd_http_fuzz_" + std::to_string(getpid()) + ".sock";
  Server() {
    spdlog::set_level(spdlog::level::off);
    engine.answer({"a", " b"});
    llmd::HttpOptions options;
    options.listen = {"unix:" + path};
    options.half_close_answer = true;
    options.linger_timeout = std::chrono::milliseconds(1);
    options.allowed_hosts = {"h"};
    options.cors_origins = {"http://o"};
    auto started = llmd::HttpServer::start(options, engine);
    check(started.ok());
    server = std::move(started).value();
  }
  ~Server() { server.reset(); }
};

/// Sends all of `bytes` and returns all that comes back.
std::string exchange(const std::string& path, const uint8_t* bytes, size_t size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int connected = -1;
  do {
    connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  } while (connected != 0 && errno == EINTR);
  check(connected == 0);
  for (size_t at = 0; at < size;) {
    const ssize_t sent = send(fd, bytes + at, size - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;  // the fuzzer's alarm
    if (sent <= 0) break;                      // refused already
    at += static_cast<size_t>(sent);
  }
  shutdown(fd, SHUT_WR);
  std::string received;
  char buffer[16384];
  while (true) {
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, 4000);
    if (ready < 0 && errno == EINTR) continue;
    check(ready == 1);
    const ssize_t count = recv(fd, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    received.append(buffer, static_cast<size_t>(count));
  }
  close(fd);
  return received;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Server server;
  const std::string received = exchange(server.path, data, size);
  check(received.empty() || received.starts_with("HTTP/1."));
  check(received.find("\r\n\r\n") != std::string::npos || received.empty());
  check(received.find("HTTP/1.1 500") == std::string::npos);
  return 0;
}
