#include "api/mailbox.h"

#include <utility>

namespace llmd {

template <typename Change>
void Mailbox::put(Change change) {
  // wake_ is called under the lock so that detach() can promise that no call is under way.
  const std::lock_guard lock(mutex_);
  if (!wake_) return;
  change(events_);
  if (!std::exchange(woken_, true)) wake_();
}

Mailbox::Events Mailbox::take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  return std::exchange(events_, Events{});
}

void Mailbox::detach() {
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  events_ = Events{};
}

void Mailbox::on_progress(int32_t processed, int32_t total) {
  put([&](Events& events) { events.progress = std::pair(processed, total); });
}

void Mailbox::on_text(std::string_view text, const GeneratedToken& token) {
  put([&](Events& events) {
    const bool thought = splitter_.thinking();
    logprobs_.add(text.size(), token, events.logprobs);
    if (events.reasoning.size() + events.text.size() + text.size() + events.logprobs.size() * sizeof(TokenLogprobs) >
        bytes_max_) {
      events.logprobs.clear();
      events.overflow = true;
    } else {
      splitter_.add(text, events.reasoning, events.text);
    }
    if (token.id >= 0 && (thought || splitter_.thinking())) reasoning_tokens_++;
  });
}

void Mailbox::on_finish(FinishReason reason, const GenerationUsage& usage) {
  put([&](Events& events) {
    logprobs_.finish(events.logprobs);
    splitter_.finish(events.reasoning, events.text);
    events.finish = Finish{reason, usage};
    events.finish->usage.reasoning_tokens = reasoning_tokens_;
  });
}

void Mailbox::on_error(const Error& error) {
  put([&](Events& events) { events.error = error; });
}

}  // namespace llmd
