#include "api/chat_exchange.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "api/api_error.h"

namespace llmd {

ChatExchange::ChatExchange(Engine& engine, PreparedChat chat, const HttpOptions& options, std::function<void()> wake)
    : engine_(engine),
      chat_(std::move(chat)),
      options_(options),
      choices_(chat_.choices),
      logprobs_(chat_.generation.top_logprobs.has_value()) {
  for (Choice& choice : choices_)
    choice.mailbox = std::make_shared<Mailbox>(options.send_bytes_max / choices_.size(), wake, chat_.splitter);
  summary_.usage.prompt_tokens = static_cast<int32_t>(chat_.generation.prompt_tokens.size());
}

ChatExchange::~ChatExchange() {
  cancel_generation();
}

void ChatExchange::start(Clock::time_point now) {
  started_ = last_output_ = now;
  std::vector<std::shared_ptr<GenerationSink>> sinks;
  for (const Choice& choice : choices_) sinks.push_back(choice.mailbox);
  Result<uint64_t> generation = engine_.submit(std::move(chat_.generation), std::move(sinks));
  if (!generation.ok()) return fail(generation.error());
  generation_ = generation.value();
  if (!chat_.stream) return;
  HttpReply head;
  head.content_type = "text/event-stream";
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");
  head_ = std::move(head);
  head_made_ = true;
  for (size_t i = 0; i < choices_.size(); i++) out_ += chat_.reply.role_event(i);
}

void ChatExchange::poll(Clock::time_point now) {
  if (finished_) return;
  if (out_.size() > options_.send_bytes_max) {
    cancelled_ = true;
    return peer_gone();
  }
  for (size_t i = 0; i < choices_.size() && !finished_; i++) take_events(i, now);
  if (finished_) return;
  if (std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) { return choice.finish.has_value(); }))
    return finish();
  if (now < next_deadline() || !out_.empty()) return;
  if (chat_.stream) {
    out_ += kSsePing;
  } else {
    if (!std::exchange(head_made_, true)) head_ = HttpReply{};
    out_ += "\n";
  }
}

void ChatExchange::take_events(size_t choice, Clock::time_point now) {
  const Mailbox::Events events = choices_[choice].mailbox->take();
  if (events.overflow) {
    cancelled_ = true;
    return peer_gone();
  }
  if (chat_.stream) {
    add_stream_events(choice, events, now);
  } else {
    add_whole_events(choices_[choice], events);
  }
  if (finished_) return;
  if (events.error) {
    cancel_generation();  // the other choices
    return fail(*events.error);
  }
  if (events.finish) end_choice(choice, *events.finish);
}

void ChatExchange::add_stream_events(size_t choice, const Mailbox::Events& events, Clock::time_point now) {
  // Progress is news only while nothing else waits to be sent.
  if (events.progress && chat_.return_progress && out_.empty()) {
    const double seconds = std::chrono::duration<double>(now - started_).count();
    out_ += chat_.reply.progress_event(events.progress->first, events.progress->second, seconds);
  }
  std::string logprobs;
  add_logprobs(events, logprobs);
  if (!events.reasoning.empty()) {
    const bool only = events.text.empty();
    out_ += chat_.reply.reasoning_event(choice, events.reasoning, only ? logprobs : "");
    if (only) return;
  }
  if (!events.text.empty() || !logprobs.empty()) out_ += chat_.reply.content_event(choice, events.text, logprobs);
}

void ChatExchange::add_whole_events(Choice& choice, const Mailbox::Events& events) {
  choice.reasoning += events.reasoning;
  choice.text += events.text;
  add_logprobs(events, choice.logprobs);
  if (choice.logprobs.size() <= options_.logprobs_bytes_max / choices_.size()) return;
  cancel_generation();
  fail(client_error("reply_too_large",
                    "The log-probabilities take more than " + std::to_string(options_.logprobs_bytes_max) +
                        " bytes: ask for fewer tokens or fewer top_logprobs, or stream.",
                    "logprobs"));
}

void ChatExchange::add_logprobs(const Mailbox::Events& events, std::string& to) const {
  for (const TokenLogprobs& logprobs : events.logprobs) {
    if (!to.empty()) to += ',';
    to += logprob_json(engine_.tokenizer(), logprobs);
  }
}

void ChatExchange::end_choice(size_t choice, const Mailbox::Finish& finish) {
  choices_[choice].finish = finish.reason;
  summary_.end = finish.reason == FinishReason::kStop ? "stop" : "length";
  // The prompt counts once.
  GenerationUsage& usage = summary_.usage;
  const int32_t before = usage.completion_tokens, thought = usage.reasoning_tokens;
  const double decode_seconds = std::max(usage.decode_seconds, finish.usage.decode_seconds);
  usage = finish.usage;
  usage.completion_tokens += before;
  usage.reasoning_tokens += thought;
  usage.decode_seconds = decode_seconds;
  if (chat_.stream) out_ += chat_.reply.finish_event(choice, finish.reason);
}

void ChatExchange::finish() {
  finished_ = true;
  generation_.reset();
  if (chat_.stream) {
    if (chat_.include_usage) out_ += chat_.reply.usage_event(summary_.usage);
    out_ += kSseDone;
    return;
  }
  std::vector<ChoiceText> texts;
  for (const Choice& choice : choices_)
    texts.push_back({choice.reasoning, choice.text, logprobs_ ? &choice.logprobs : nullptr, *choice.finish});
  HttpReply reply;
  reply.body = chat_.reply.whole(texts, summary_.usage);
  if (head_made_) {
    out_ += reply.body;
  } else {
    whole_ = std::move(reply);
  }
}

void ChatExchange::fail(const Error& error) {
  finished_ = true;
  summary_.status = status_of(error);
  summary_.end = "error";
  if (error.kind == ErrorKind::kOperating) spdlog::warn("{}: {}", id(), error.to_string());
  if (!head_made_) {
    whole_ = error_reply(error);
    return;
  }
  // The status line is out: the error takes the place of what would have come, and no [DONE] follows it.
  close_after_ = true;
  out_ += chat_.stream ? sse_event(error_json(error)) : error_json(error) + "\n";
}

ChatExchange::Output ChatExchange::take(Clock::time_point now) {
  Output output{std::exchange(whole_, {}), std::exchange(head_, {}), std::exchange(out_, {})};
  if (output.head || !output.body.empty()) last_output_ = now;
  return output;
}

ChatExchange::Clock::time_point ChatExchange::next_deadline() const {
  if (chat_.stream) return last_output_ + options_.ping_interval;
  if (!options_.json_keepalive) return Clock::time_point::max();
  return head_made_ ? last_output_ + options_.json_keepalive_interval : started_ + options_.json_keepalive_after;
}

void ChatExchange::peer_half_closed() {
  if (finished_) return;
  // Only a write can tell a vanished peer from one that has merely nothing more to say.
  if (chat_.stream) {
    out_ += kSsePing;
  } else if (!options_.half_close_answer) {
    peer_gone();
  }
}

void ChatExchange::peer_gone() {
  if (broken_) return;
  broken_ = true;
  if (generation_) cancelled_ = true;
  finished_ = true;
  cancel_generation();
}

void ChatExchange::abort(const Error& error) {
  if (finished_) return;
  cancel_generation();
  fail(error);
}

void ChatExchange::cancel_generation() {
  for (const Choice& choice : choices_) choice.mailbox->detach();
  if (generation_) engine_.cancel(*std::exchange(generation_, {}));
}

}  // namespace llmd
