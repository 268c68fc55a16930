#include "api/http_session.h"

#include <spdlog/spdlog.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>

#include "api/access.h"
#include "api/api_error.h"

namespace llmd {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kBufferMax = 64 << 10;     // what a client may have sent that is not yet understood
constexpr size_t kReadAheadMax = 32 << 10;  // of it, while a reply is under way
constexpr size_t kTargetMax = 4096;

Error stopping_error() {
  return operating_error("shutting_down", "llmd is shutting down.");
}

HttpReply bad_request(const std::string& message) {
  return error_reply(client_error("invalid_http", message));
}

bool is_http_error(const error_code& error) {
  static const auto& category = http::make_error_code(http::error::end_of_stream).category();
  return error.category() == category;
}

std::string field_text(const auto& fields, http::field name) {
  const auto value = fields[name];
  return std::string(value.data(), value.size());
}

// What Beast lets pass and llmd does not: ways of framing a body that two readers could understand differently.
std::optional<HttpReply> check_header(const auto& header) {
  const auto te = header.count(http::field::transfer_encoding);
  const auto lengths = header.count(http::field::content_length);
  if (lengths > 1) return bad_request("Content-Length is given more than once.");
  if (te > 0 && lengths > 0) return bad_request("Content-Length and Transfer-Encoding exclude each other.");
  if (te > 1 || (te == 1 && !boost::beast::iequals(header[http::field::transfer_encoding], "chunked"))) {
    return error_reply(client_error("transfer_encoding_unsupported", "Transfer-Encoding must be chunked."));
  }
  if (header.version() != 10 && header.version() != 11) return bad_request("The HTTP version must be 1.0 or 1.1.");
  if (te > 0 && header.version() == 10) return bad_request("HTTP/1.0 has no Transfer-Encoding.");
  if (header.version() == 11 && header.count(http::field::host) != 1) {
    return bad_request("HTTP/1.1 needs exactly one Host field.");
  }
  if (header.target().size() > kTargetMax) {
    return error_reply(client_error("uri_too_long", "The request target is too long."));
  }
  const auto expect = header[http::field::expect];
  if (!expect.empty() && !boost::beast::iequals(expect, "100-continue")) {
    return error_reply(client_error("expectation_failed", "Only Expect: 100-continue is known."));
  }
  return std::nullopt;
}

HttpReply too_large(uint64_t limit) {
  return error_reply(
      client_error("request_too_large", "The body may have at most " + std::to_string(limit) + " bytes."));
}

}  // namespace

HttpSession::HttpSession(HttpContext& context, Socket socket, bool loopback, std::function<void(HttpSession*)> on_end)
    : context_(context),
      socket_(std::move(socket)),
      loopback_(loopback),
      on_end_(std::move(on_end)),
      buffer_(kBufferMax),
      read_timer_(context.io),
      write_timer_(context.io),
      wake_timer_(context.io),
      idle_since_(Clock::now()) {}

HttpSession::~HttpSession() {
  release_body();
}

// The parameter keeps the session alive as long as the coroutine. In this file co_await never stands in the condition
// of a loop: g++ 12 miscompiles `while (co_await f()) {}`, an invalid instruction or a crash at run time.
void HttpSession::start() {
  asio::co_spawn(context_.io, run(shared_from_this()), asio::detached);
}

void HttpSession::close() {
  error_code ignored;
  disarm_read();
  disarm_write();
  wake_timer_.cancel();
  socket_.close(ignored);
}

void HttpSession::stop() {
  if (exchange_ != nullptr) {
    exchange_->abort(stopping_error());
    wake_timer_.cancel();
  } else if (!watching_) {
    close();  // waiting for a request, or in the middle of one
  }
}

void HttpSession::abandon() {
  peer_gone_ = true;
  if (exchange_ != nullptr) exchange_->peer_gone();
  close();
}

HttpSession::Task<void> HttpSession::run(std::shared_ptr<HttpSession> self) {
  try {
    bool again = true;
    while (again) again = co_await serve_one();
    if (socket_.is_open() && !peer_gone_) co_await linger();
  } catch (const std::exception& exception) {
    spdlog::error("a connection ended with an exception: {}", exception.what());
  }
  close();
  on_end_(self.get());
}

HttpSession::Task<bool> HttpSession::serve_one() {
  HttpRequest request;
  HttpReply reply;
  const ReadEnd end = co_await read_request(request, reply);
  disarm_read();
  if (end == ReadEnd::kClosed) co_return false;
  ++context_.stats.requests_total;
  bool keep = false;
  if (end == ReadEnd::kWork) {
    keep = co_await answer_work(request);
  } else {
    release_body();
    keep = co_await send_reply(reply, request, end == ReadEnd::kReply);
    log(request, reply.status, nullptr);
  }
  co_return keep;
}

// ---- reading ----

void HttpSession::arm_read(Clock::time_point deadline) {
  read_expired_ = false;
  read_timer_.expires_at(deadline);
  read_timer_.async_wait([weak = weak_from_this(), arming = ++read_arming_](const error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->read_arming_ != arming) return;
    self->read_expired_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

void HttpSession::disarm_read() {
  ++read_arming_;
  read_timer_.cancel();
}

HttpSession::Task<bool> HttpSession::wait_first_byte() {
  if (buffer_.size() > 0) co_return true;
  if (context_.stopping) co_return false;  // while draining, a new connection still gets its refusal
  idle_ = true;
  idle_since_ = Clock::now();
  arm_read(idle_since_ + context_.options.keep_alive_idle);
  const auto [error, size] = co_await socket_.async_read_some(buffer_.prepare(4096), kTuple);
  buffer_.commit(size);
  idle_ = false;
  co_return size > 0;
}

HttpSession::ReadEnd HttpSession::refuse(const error_code& error, HttpReply& reply) const {
  if (error == asio::error::operation_aborted && read_expired_) {
    reply = error_reply(client_error("request_timeout", "The request did not arrive in time."));
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    reply = error_reply(client_error("header_too_large", "The header is too large."));
  } else if (error == http::error::body_limit) {
    reply = too_large(context_.options.body_bytes_max);
  } else if (!is_http_error(error) || error == http::error::end_of_stream || error == http::error::partial_message) {
    return ReadEnd::kClosed;
  } else {
    reply = bad_request("The request is not valid HTTP/1.1: " + error.message() + ".");
  }
  return ReadEnd::kRefuse;
}

void HttpSession::take_header(const Parser& parser, HttpRequest& request) {
  const auto& header = parser.get();
  request.method = std::string(header.method_string());
  request.target = std::string(header.target());
  request.http_1_0 = header.version() == 10;
  request.keep_alive = header.keep_alive();
  request.loopback = loopback_;
  request.content_type = field_text(header, http::field::content_type);
  request.content_encoding = field_text(header, http::field::content_encoding);
  request.host = field_text(header, http::field::host);
  request.origin = field_text(header, http::field::origin);
  request.authorization = field_text(header, http::field::authorization);
  const auto api_key = header["x-api-key"];
  request.api_key = std::string(api_key.data(), api_key.size());
  allow_origin_ = allowed_origin(request, context_.options);
}

HttpSession::Task<HttpSession::ReadEnd> HttpSession::read_request(HttpRequest& request, HttpReply& reply) {
  if (!co_await wait_first_byte()) co_return ReadEnd::kClosed;
  idle_ = false;
  request_start_ = Clock::now();
  request_id_ = random_id("req_");
  allow_origin_.clear();
  Parser parser;
  parser.header_limit(context_.options.header_bytes_max);
  parser.body_limit(context_.options.body_bytes_max);
  arm_read(request_start_ + context_.options.header_timeout);
  const auto [error, size] = co_await http::async_read_header(socket_, buffer_, parser, kTuple);
  if (error) co_return refuse(error, reply);

  take_header(parser, request);
  if (std::optional<HttpReply> refusal = check_header(parser.get())) {
    reply = std::move(*refusal);
    co_return ReadEnd::kRefuse;
  }
  Route routed = route(request, context_.engine, context_.options, context_.draining);
  work_ = routed.work;
  const bool known = work_ == Work::kNone;
  reply = std::move(routed.reply);
  if (routed.refuse && !parser.is_done()) co_return ReadEnd::kRefuse;
  if (!parser.is_done()) {
    const bool asks = !parser.get()[http::field::expect].empty() && !request.http_1_0;
    if (asks && known) co_return ReadEnd::kRefuse;
    HttpReply refusal;
    if (asks && buffer_.size() == 0 && parser.content_length().value_or(0) <= context_.options.body_bytes_max) {
      if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return ReadEnd::kClosed;
    }
    const ReadEnd end = co_await read_body(parser, refusal);
    if (end != ReadEnd::kWork) {
      reply = std::move(refusal);
      co_return end;
    }
  }
  request.body = std::move(parser.get().body());
  co_return known ? ReadEnd::kReply : ReadEnd::kWork;
}

HttpSession::Task<HttpSession::ReadEnd> HttpSession::read_body(Parser& parser, HttpReply& reply) {
  const HttpOptions& options = context_.options;
  const Error busy = operating_error("server_busy", "Too many bytes of requests are being received; try again.");
  const uint64_t length = parser.content_length().value_or(0);
  if (length > options.body_bytes_max) {
    reply = too_large(options.body_bytes_max);
    co_return ReadEnd::kRefuse;
  }
  if (!account_body(length)) {
    reply = error_reply(busy);
    co_return ReadEnd::kRefuse;
  }
  const Clock::time_point start = Clock::now();
  uint64_t received = 0;
  while (!parser.is_done()) {
    // One rule for stalls and for drips: the deadline moves on with the bytes that came.
    const auto earned =
        std::chrono::milliseconds(received * 1000 / std::max<uint64_t>(options.body_bytes_per_second_min, 1));
    arm_read(start + options.body_grace + earned);
    const auto [error, size] = co_await http::async_read_some(socket_, buffer_, parser, kTuple);
    if (error) co_return refuse(error, reply);
    received += size;
    const uint64_t held = parser.get().body().size();
    if (held > body_bytes_ && !account_body(held - body_bytes_)) {
      reply = error_reply(busy);
      co_return ReadEnd::kRefuse;
    }
  }
  co_return ReadEnd::kWork;
}

bool HttpSession::account_body(uint64_t bytes) {
  if (context_.body_bytes + bytes > context_.options.body_bytes_total_max) return false;
  context_.body_bytes += bytes;
  body_bytes_ += bytes;
  return true;
}

void HttpSession::release_body() {
  context_.body_bytes -= body_bytes_;
  body_bytes_ = 0;
}

// ---- writing ----

void HttpSession::arm_write(Clock::time_point deadline) {
  write_timer_.expires_at(deadline);
  write_timer_.async_wait([weak = weak_from_this(), arming = ++write_arming_](const error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->write_arming_ != arming) return;
    self->peer_gone_ = true;
    self->close();
  });
}

void HttpSession::disarm_write() {
  ++write_arming_;
  write_timer_.cancel();
}

HttpSession::Task<bool> HttpSession::write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!socket_.is_open()) co_return false;
    arm_write(Clock::now() + context_.options.send_stall);
    const auto [error, size] = co_await socket_.async_write_some(asio::buffer(bytes.data(), bytes.size()), kTuple);
    disarm_write();
    if (error) {
      peer_gone_ = true;
      co_return false;
    }
    bytes.remove_prefix(size);
  }
  co_return true;
}

HttpSession::Task<bool> HttpSession::send_reply(const HttpReply& reply, const HttpRequest& request, bool keep_alive) {
  const bool keep = keep_alive && request.keep_alive && !context_.draining && !context_.stopping;
  if (reply.status >= 400) ++context_.stats.rejected_total;
  std::string bytes = wire_head(reply, {BodyFraming::kLength, keep, request.http_1_0, request_id_, allow_origin_});
  if (request.method != "HEAD") bytes += reply.body;
  const bool sent = co_await write(bytes);
  co_return sent&& keep;
}

// A close with unread bytes in the socket resets it, and the reset may overtake the reply.
HttpSession::Task<void> HttpSession::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  buffer_.consume(buffer_.size());
  arm_read(Clock::now() + context_.options.linger_timeout);
  while (!read_expired_ && !context_.stopping) {
    const auto [error, size] = co_await socket_.async_read_some(buffer_.prepare(16 << 10), kTuple);
    if (error) break;
  }
}

// ---- a request with a body ----

HttpSession::Task<bool> HttpSession::answer_work(HttpRequest& request) {
  start_watch();
  PrepareOutcome outcome = co_await prepare(request);
  release_body();
  bool keep = false;
  if (peer_gone_ ||
      (peer_half_closed_ && outcome.chat && !outcome.chat->stream && !context_.options.half_close_answer)) {
    ++context_.stats.cancelled_total;
    peer_gone_ = true;
  } else if (context_.stopping || !outcome.chat) {
    const HttpReply reply = outcome.chat ? error_reply(stopping_error()) : std::move(outcome.reply);
    keep = co_await send_reply(reply, request, true);
    log(request, reply.status, nullptr);
  } else {
    ChatExchange exchange(context_.engine, std::move(*outcome.chat), context_.options,
                          [weak = weak_from_this(), &io = context_.io] {
                            asio::post(io, [weak] {
                              if (const auto self = weak.lock()) self->on_wake();
                            });
                          });
    exchange_ = &exchange;
    keep = co_await run_exchange(exchange, request);
    exchange_ = nullptr;
    if (exchange.cancelled()) ++context_.stats.cancelled_total;
    log(request, exchange.summary().status, &exchange);
  }
  if (peer_gone_) close();
  co_await stop_watch();
  co_return keep&& socket_.is_open();
}

// The text is parsed, rendered and tokenized on the http-prepare thread: it can be megabytes, and others are waiting.
HttpSession::Task<PrepareOutcome> HttpSession::prepare(HttpRequest& request) {
  std::optional<PrepareOutcome> outcome;
  std::string tenant = accepted_key(request, context_.options.keys);
  asio::post(context_.prepare, [self = shared_from_this(), &outcome, tenant = std::move(tenant),
                                body = std::move(request.body)]() mutable {
    HttpContext& context = self->context_;
    PrepareOutcome made;
    if (context.stopping) {
      made.reply = error_reply(stopping_error());
    } else {
      made = context.service.prepare(self->work_, std::move(body), tenant);
    }
    // The session goes back whole: were a reference kept here, its destructor could run on this thread.
    asio::post(context.io, [self = std::move(self), &outcome, made = std::move(made)]() mutable {
      outcome = std::move(made);
      self->wake_timer_.cancel();
    });
  });
  while (!outcome) co_await wait_wake(Clock::time_point::max());
  co_return std::move(*outcome);
}

HttpSession::Task<bool> HttpSession::run_exchange(ChatExchange& exchange, const HttpRequest& request) {
  exchange.start(Clock::now());
  if (peer_half_closed_) exchange.peer_half_closed();
  const BodyFraming framing = request.http_1_0 ? BodyFraming::kUntilClose : BodyFraming::kChunked;
  bool keep = request.keep_alive && framing == BodyFraming::kChunked && !context_.draining;
  while (true) {
    exchange.poll(Clock::now());
    if (exchange.broken()) {
      peer_gone_ = true;
      co_return false;
    }
    ChatExchange::Output output = exchange.take(Clock::now());
    const bool last = exchange.finished();
    if (output.whole) {
      const bool kept = co_await send_reply(*output.whole, request, !exchange.close_after());
      co_return kept;
    }
    keep = keep && !exchange.close_after() && !context_.stopping;
    std::string bytes;
    if (output.head) bytes = wire_head(*output.head, {framing, keep, request.http_1_0, request_id_, allow_origin_});
    const bool chunked = framing == BodyFraming::kChunked;
    if (!output.body.empty()) bytes += chunked ? wire_chunk(output.body) : output.body;
    if (last && chunked) bytes += kLastChunk;
    if (!bytes.empty()) {
      const bool sent = co_await write(bytes);
      if (!sent) exchange.peer_gone();
      if (!sent) co_return false;
    }
    if (last) co_return keep;
    if (bytes.empty()) co_await wait_wake(exchange.next_deadline());
  }
}

void HttpSession::on_wake() {
  if (exchange_ != nullptr) {
    exchange_->poll(Clock::now());
    if (exchange_->broken()) {
      peer_gone_ = true;
      close();  // also ends a write that waits for a reader
    }
  }
  wake_timer_.cancel();
}

HttpSession::Task<void> HttpSession::wait_wake(Clock::time_point deadline) {
  wake_timer_.expires_at(deadline);
  co_await wake_timer_.async_wait(kTuple);
}

// ---- watching the peer while it is answered ----

void HttpSession::start_watch() {
  watching_ = true;
  watch_stop_ = false;
  asio::co_spawn(context_.io, watch(shared_from_this()), asio::detached);
}

HttpSession::Task<void> HttpSession::watch(std::shared_ptr<HttpSession> self) {
  try {
    co_await watch_peer();
  } catch (const std::exception& exception) {
    spdlog::error("a connection is not watched any more: {}", exception.what());
  }
  self->watching_ = false;
  self->on_wake();
}

HttpSession::Task<void> HttpSession::watch_peer() {
  while (!watch_stop_ && !peer_half_closed_ && buffer_.size() < kReadAheadMax) {
    const auto [error, size] = co_await socket_.async_read_some(buffer_.prepare(4096), kTuple);
    buffer_.commit(size);
    if (!error) continue;
    if (error == asio::error::operation_aborted) co_return;
    if (error == asio::error::eof) {
      peer_half_closed_ = true;
      if (exchange_ != nullptr) exchange_->peer_half_closed();
    } else {
      peer_gone_ = true;
      if (exchange_ != nullptr) exchange_->peer_gone();
      co_return;
    }
    on_wake();
  }
  // There is nothing left to read, or enough has been: only a reset is of interest now.
  if (watch_stop_ || !socket_.is_open()) co_return;
  const auto [error] = co_await socket_.async_wait(Socket::wait_error, kTuple);
  if (error || watch_stop_) co_return;
  peer_gone_ = true;
  if (exchange_ != nullptr) exchange_->peer_gone();
}

HttpSession::Task<void> HttpSession::stop_watch() {
  watch_stop_ = true;
  error_code ignored;
  if (socket_.is_open()) socket_.cancel(ignored);
  while (watching_) co_await wait_wake(Clock::time_point::max());
}

void HttpSession::log(const HttpRequest& request, int status, const ChatExchange* exchange) {
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - request_start_);
  const std::string line = printable(request.method, 16) + " " + printable(normal_path(request.target), 120);
  if (exchange == nullptr) {
    spdlog::info("{} {} {} {} ms", request_id_, line, status, elapsed.count());
    return;
  }
  const ChatExchange::Summary& summary = exchange->summary();
  spdlog::info("{} {} {} {} ms {} {} prompt {} cached {} completion {}", request_id_, line, status, elapsed.count(),
               exchange->id(), exchange->cancelled() ? "cancelled" : summary.end, summary.usage.prompt_tokens,
               summary.usage.cached_tokens, summary.usage.completion_tokens);
}

}  // namespace llmd
