// HttpSession: one client's connection: read a request, answer it, again. And HttpContext, what all of them share.
//
// A C++20 coroutine on the http thread. Beside it, while a request is being answered, a second one keeps reading the
// socket: it sees a client that hangs up at once, and keeps what a pipelining client sends, up to a bound. Two timers
// guard every wait of reading and writing. Only this file and api/listener know Asio and Beast.
//
// All methods are the http thread's. Nothing thrown or sent by a client leaves the session; its end is its destruction.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/chat_exchange.h"
#include "api/chat_service.h"
#include "api/http_message.h"
#include "api/http_options.h"
#include "api/router.h"

namespace llmd {

struct HttpContext {
  boost::asio::io_context& io;
  boost::asio::io_context& prepare;  // run by one thread: one body at a time is parsed and tokenized
  Engine& engine;
  ChatService& service;
  const HttpOptions& options;
  HttpStats& stats;
  bool draining = false;
  std::atomic<bool> stopping{false};  // read by the prepare thread too
  uint64_t body_bytes = 0;            // of all bodies being received or parsed
};

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Clock = std::chrono::steady_clock;

  /// `loopback`: the client came to a loopback address.
  HttpSession(HttpContext& context, Socket socket, bool loopback, std::function<void(HttpSession*)> on_end);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  void start();
  /// Between two requests: nothing is lost by closing it.
  bool idle() const { return idle_; }
  Clock::time_point idle_since() const { return idle_since_; }
  void close();
  /// Ends what it is doing with an error to the client and closes.
  void stop();
  /// Drops whatever it is doing. Nothing of it reaches the engine, or comes from there, afterwards.
  void abandon();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  template <typename T>
  using Task = boost::asio::awaitable<T>;

  // kWork: the body is there, and work_ says what for; kReply: the reply is known; kRefuse: the same, and the
  // connection is not to be used again; kClosed: nobody to answer.
  enum class ReadEnd { kWork, kReply, kRefuse, kClosed };

  Task<void> run(std::shared_ptr<HttpSession> self);
  Task<bool> serve_one();
  Task<bool> wait_first_byte();
  Task<ReadEnd> read_request(HttpRequest& request, HttpReply& reply);
  Task<ReadEnd> read_body(Parser& parser, HttpReply& reply);
  Task<bool> answer_work(HttpRequest& request);
  Task<bool> run_exchange(ChatExchange& exchange, const HttpRequest& request);
  Task<PrepareOutcome> prepare(HttpRequest& request);
  Task<bool> send_reply(const HttpReply& reply, const HttpRequest& request, bool keep_alive);
  Task<bool> write(std::string_view bytes);
  Task<void> watch(std::shared_ptr<HttpSession> self);
  Task<void> watch_peer();
  Task<void> stop_watch();
  Task<void> wait_wake(Clock::time_point deadline);
  Task<void> linger();

  void take_header(const Parser& parser, HttpRequest& request);
  ReadEnd refuse(const boost::system::error_code& error, HttpReply& reply) const;
  void start_watch();
  void on_wake();
  void arm_read(Clock::time_point deadline);
  void disarm_read();
  void arm_write(Clock::time_point deadline);
  void disarm_write();
  bool account_body(uint64_t bytes);
  void release_body();
  void log(const HttpRequest& request, int status, const ChatExchange* exchange);

  HttpContext& context_;
  Socket socket_;
  const bool loopback_;
  std::function<void(HttpSession*)> on_end_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer read_timer_, write_timer_, wake_timer_;
  // A timer that has fired may still have its handler queued when it is disarmed: the handler then finds a newer
  // number.
  uint64_t read_arming_ = 0, write_arming_ = 0;
  bool read_expired_ = false, idle_ = true;
  bool watching_ = false, watch_stop_ = false, peer_half_closed_ = false, peer_gone_ = false;
  Clock::time_point idle_since_, request_start_;
  uint64_t body_bytes_ = 0;
  std::string request_id_, allow_origin_;
  Work work_ = Work::kNone;
  ChatExchange* exchange_ = nullptr;  // while one runs
};

}  // namespace llmd
