// ChatExchange: one chat completion, with all its choices, from submit to its last byte, without a socket.
//
// A state machine: events of the engine, of the peer and of the clock go in; what to send comes out. The session asks
// take() whenever it can write, and poll()s at next_deadline() or when woken. Streams: head and role delta before
// prefill, then deltas, pings while silent, and an error event if it fails. Non-streamed: one reply; when that takes
// long, a head and newlines first. A client that falls behind by more than send_bytes_max is given up (broken()).
//
// http thread only. Destroying it cancels a generation that still runs; the engine may hold its mailbox longer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/chat_service.h"
#include "api/mailbox.h"

namespace llmd {

class ChatExchange {
 public:
  using Clock = std::chrono::steady_clock;

  /// What to send next, in this order. `whole` is a complete reply and excludes the others; `head` opens a body of
  /// unknown length, which `body` continues.
  struct Output {
    std::optional<HttpReply> whole, head;
    std::string body;
  };

  /// For the log line.
  struct Summary {
    int status = 200;
    GenerationUsage usage;
    const char* end = "cancelled";  // stop, length, error, cancelled
  };

  ChatExchange(Engine& engine, PreparedChat chat, const HttpOptions& options, std::function<void()> wake);
  ~ChatExchange();
  ChatExchange(const ChatExchange&) = delete;
  ChatExchange& operator=(const ChatExchange&) = delete;

  /// Submits the generation. A refusal becomes the reply.
  void start(Clock::time_point now);
  /// Collects what the engine said and what the clock asks for.
  void poll(Clock::time_point now);
  Output take(Clock::time_point now);
  Clock::time_point next_deadline() const;

  /// Nothing more will come out after the next take().
  bool finished() const { return finished_; }
  /// The connection is to be dropped without another byte: the client is gone or too slow.
  bool broken() const { return broken_; }
  /// The body ended with an error: close the connection after it.
  bool close_after() const { return close_after_; }
  bool cancelled() const { return cancelled_; }
  bool stream() const { return chat_.stream; }
  const std::string& id() const { return chat_.reply.id(); }
  const Summary& summary() const { return summary_; }

  /// The peer closed its sending side: a stream is probed with a comment, anything else given up (by default).
  void peer_half_closed();
  void peer_gone();
  /// Ends the exchange with an error of the server's (shutdown).
  void abort(const Error& error);

 private:
  struct Choice {
    std::shared_ptr<Mailbox> mailbox;
    std::string reasoning, text, logprobs;  // of a non-streamed answer so far; the last as JSON elements
    std::optional<FinishReason> finish;
  };

  void cancel_generation();
  void fail(const Error& error);
  void take_events(size_t choice, Clock::time_point now);
  void add_stream_events(size_t choice, const Mailbox::Events& events, Clock::time_point now);
  void add_whole_events(Choice& choice, const Mailbox::Events& events);
  void add_logprobs(const Mailbox::Events& events, std::string& to) const;
  void end_choice(size_t choice, const Mailbox::Finish& finish);
  void finish();

  Engine& engine_;
  PreparedChat chat_;
  const HttpOptions& options_;
  std::vector<Choice> choices_;
  std::optional<uint64_t> generation_;  // set while the engine runs it

  const bool logprobs_;  // were asked for
  std::optional<HttpReply> whole_, head_;
  std::string out_;  // of the body
  bool head_made_ = false, finished_ = false, broken_ = false, close_after_ = false, cancelled_ = false;
  Clock::time_point started_, last_output_;
  Summary summary_;
};

}  // namespace llmd
