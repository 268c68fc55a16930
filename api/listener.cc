#include "api/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "api/http_session.h"
#include "io/thread.h"

namespace llmd {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::generic::stream_protocol;
using Acceptor = asio::basic_socket_acceptor<Protocol>;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr int kBacklog = 512;
constexpr size_t kHttpStackBytes = 1 << 20;
// Chat templates are interpreted here, which takes up to 1 MiB; sanitizers double it.
constexpr size_t kPrepareStackBytes = 4 << 20;
constexpr auto kRetryInterval = std::chrono::milliseconds(100);

Error listen_error(const std::string& listen, const std::string& why) {
  return operating_error("listen_failed", "cannot listen on " + listen + ": " + why);
}

struct HostPort {
  std::string host;
  uint16_t port = 0;
};

Result<HostPort> split_address(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos) return listen_error(listen, "it must be HOST:PORT, [IPV6]:PORT or unix:PATH");
  HostPort out;
  out.host = listen.substr(0, colon);
  const char* end = listen.data() + listen.size();
  const auto [stop, problem] = std::from_chars(listen.data() + colon + 1, end, out.port);
  if (problem != std::errc() || stop != end) return listen_error(listen, "the port must be a number from 0 to 65535");
  if (out.host.starts_with('[') && out.host.ends_with(']')) out.host = out.host.substr(1, out.host.size() - 2);
  if (out.host.empty()) return listen_error(listen, "the host is missing; 0.0.0.0 means every IPv4 address");
  return out;
}

sockaddr_storage bound_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) address.ss_family = AF_UNSPEC;
  return address;
}

uint16_t bound_port(int fd) {
  const sockaddr_storage address = bound_address(fd);
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return 0;
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);  // at the same place in sockaddr_in6
}

bool is_loopback(int fd) {
  const sockaddr_storage address = bound_address(fd);
  if (address.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr) >> 24 == 127;
  }
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr);
}

void tune(HttpSession::Socket& socket) {
  // Neither exists on unix sockets, and neither matters if it fails.
  const int on = 1, idle_seconds = 60, interval_seconds = 15, probes = 4;
  const int fd = socket.native_handle();
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_seconds, sizeof interval_seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, Engine& engine)
      : options_(std::move(options)),
        service_(engine, options_),
        context_{io_, prepare_, engine, service_, options_, stats_},
        room_timer_(io_),
        stop_timer_(io_) {}
  ~Impl() { stop(); }

  Status listen();
  Status run();
  void begin_drain();
  void stop();
  uint16_t port() const { return acceptors_.empty() ? 0 : bound_port(acceptors_.front()->native_handle()); }
  std::vector<std::string> addresses() const { return addresses_; }
  const HttpStats& stats() const { return stats_; }

 private:
  Status listen_on(const std::string& listen);
  Status listen_tcp(const std::string& listen);
  Status listen_unix(const std::string& listen, const std::string& path);
  Status open(const std::string& listen, const Protocol::endpoint& endpoint, const Protocol& protocol);
  asio::awaitable<void> accept_loop(Acceptor& acceptor);
  void on_end(HttpSession* session);
  void close_longest_idle();
  void stop_on_thread();

  const HttpOptions options_;
  HttpStats stats_;
  asio::io_context io_{1};
  asio::io_context prepare_{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> prepare_work_{prepare_.get_executor()};
  ChatService service_;
  HttpContext context_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::unordered_set<HttpSession*> sessions_;  // http thread; each lives at least until its on_end
  asio::steady_timer room_timer_, stop_timer_;
  std::vector<std::string> addresses_, unix_paths_;
  std::mutex stop_mutex_;
  Thread thread_, prepare_thread_;
};

Status HttpServer::Impl::open(const std::string& listen, const Protocol::endpoint& endpoint, const Protocol& protocol) {
  Acceptor acceptor(io_);
  error_code error;
  acceptor.open(protocol, error);
  if (!error && protocol.family() != AF_UNIX) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && protocol.family() == AF_INET6) acceptor.set_option(asio::ip::v6_only(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (error) return listen_error(listen, error.message());
  acceptors_.push_back(std::make_unique<Acceptor>(std::move(acceptor)));
  return {};
}

Status HttpServer::Impl::listen_tcp(const std::string& listen) {
  LLMD_ASSIGN_OR_RETURN(const HostPort wanted, split_address(listen));
  std::vector<asio::ip::address> addresses;
  error_code error;
  if (wanted.host == "localhost") {
    // Some clients try ::1 first, some only 127.0.0.1.
    addresses = {asio::ip::make_address("127.0.0.1"), asio::ip::make_address("::1")};
  } else {
    addresses = {asio::ip::make_address(wanted.host, error)};
    if (error) return listen_error(listen, "the host must be an IP address or localhost");
  }
  uint16_t port = wanted.port;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const asio::ip::tcp::endpoint endpoint(addresses[i], port);
    Status opened = open(listen, endpoint, endpoint.protocol());
    if (!opened && i > 0) break;  // a machine without IPv6
    LLMD_RETURN_IF_ERROR(opened);
    port = bound_port(acceptors_.back()->native_handle());
    const std::string host = addresses[i].to_string();
    addresses_.push_back((addresses[i].is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(port));
  }
  return {};
}

Status HttpServer::Impl::listen_unix(const std::string& listen, const std::string& path) {
  using Local = asio::local::stream_protocol;
  if (path.empty() || path.size() > 100) return listen_error(listen, "the path must have 1 to 100 bytes");
  // A socket file that nobody listens on is left from a process that was killed.
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) {
    Local::socket probe(io_);
    error_code error;
    probe.connect(Local::endpoint(path), error);
    if (error == asio::error::connection_refused) unlink(path.c_str());
  }
  LLMD_RETURN_IF_ERROR(open(listen, Local::endpoint(path), Local()));
  unix_paths_.push_back(path);
  addresses_.push_back(listen);
  if (chmod(path.c_str(), options_.unix_mode) != 0) return listen_error(listen, "its mode cannot be set");
  return {};
}

Status HttpServer::Impl::listen_on(const std::string& listen) {
  constexpr std::string_view kUnix = "unix:";
  return listen.starts_with(kUnix) ? listen_unix(listen, listen.substr(kUnix.size())) : listen_tcp(listen);
}

Status HttpServer::Impl::listen() {
  for (const std::string& listen : options_.listen) LLMD_RETURN_IF_ERROR(listen_on(listen));
  return {};
}

Status HttpServer::Impl::run() {
  for (const auto& acceptor : acceptors_) asio::co_spawn(io_, accept_loop(*acceptor), asio::detached);
  LLMD_ASSIGN_OR_RETURN(prepare_thread_, Thread::start("http-prepare", kPrepareStackBytes, [this] { prepare_.run(); }));
  LLMD_ASSIGN_OR_RETURN(thread_, Thread::start("http", kHttpStackBytes, [this] { io_.run(); }));
  return {};
}

asio::awaitable<void> HttpServer::Impl::accept_loop(Acceptor& acceptor) {
  const bool loopback = is_loopback(acceptor.native_handle());
  while (!context_.stopping) {
    // Room is made only for a client that is there.
    const auto [wait_error] = co_await acceptor.async_wait(Acceptor::wait_read, kTuple);
    if (wait_error == asio::error::operation_aborted) co_return;
    while (sessions_.size() >= options_.connections_max) {
      close_longest_idle();
      room_timer_.expires_after(kRetryInterval);
      co_await room_timer_.async_wait(kTuple);
      if (context_.stopping) co_return;
    }
    auto [error, socket] = co_await acceptor.async_accept(kTuple);
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      // Out of descriptors or memory, most likely: it passes when a connection ends.
      if (error != asio::error::connection_aborted) {
        spdlog::warn("a connection was not accepted: {}", error.message());
        close_longest_idle();
      }
      asio::steady_timer pause(io_, kRetryInterval);
      co_await pause.async_wait(kTuple);
      continue;
    }
    tune(socket);
    const auto session = std::make_shared<HttpSession>(context_, std::move(socket), loopback,
                                                       [this](HttpSession* ended) { on_end(ended); });
    sessions_.insert(session.get());
    ++stats_.connections_total;
    ++stats_.connections_open;
    session->start();
  }
}

void HttpServer::Impl::on_end(HttpSession* session) {
  sessions_.erase(session);
  --stats_.connections_open;
  room_timer_.cancel();
  if (context_.stopping && sessions_.empty()) io_.stop();
}

void HttpServer::Impl::close_longest_idle() {
  HttpSession* longest = nullptr;
  for (HttpSession* session : sessions_) {
    if (session->idle() && (longest == nullptr || session->idle_since() < longest->idle_since())) longest = session;
  }
  if (longest != nullptr) longest->close();
}

void HttpServer::Impl::begin_drain() {
  asio::post(io_, [this] {
    context_.draining = true;
    for (HttpSession* session : sessions_) {
      if (session->idle()) session->close();
    }
  });
}

void HttpServer::Impl::stop_on_thread() {
  context_.draining = context_.stopping = true;
  error_code ignored;
  for (const auto& acceptor : acceptors_) acceptor->close(ignored);
  room_timer_.cancel();
  for (HttpSession* session : sessions_) session->stop();
  if (sessions_.empty()) return io_.stop();
  stop_timer_.expires_after(options_.stop_timeout);
  stop_timer_.async_wait([this](const error_code&) { io_.stop(); });
}

void HttpServer::Impl::stop() {
  const std::lock_guard lock(stop_mutex_);
  if (thread_.running()) {
    asio::post(io_, [this] { stop_on_thread(); });
    thread_.join();
    for (const std::string& path : unix_paths_) unlink(path.c_str());
    unix_paths_.clear();
  }
  prepare_work_.reset();
  prepare_thread_.join();
  // No thread runs io_ any more. What is left of the sessions ends here, in order, and not when io_ is destroyed.
  for (HttpSession* session : sessions_) session->abandon();
  for (int i = 0; i < 4; ++i) {
    io_.restart();
    io_.poll();
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const {
  return impl_->port();
}
std::vector<std::string> HttpServer::addresses() const {
  return impl_->addresses();
}
const HttpStats& HttpServer::stats() const {
  return impl_->stats();
}
void HttpServer::begin_drain() {
  impl_->begin_drain();
}
void HttpServer::stop() {
  impl_->stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, Engine& engine) {
  auto impl = std::make_unique<Impl>(std::move(options), engine);
  LLMD_RETURN_IF_ERROR(impl->listen());
  LLMD_RETURN_IF_ERROR(impl->run());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace llmd
