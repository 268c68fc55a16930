// Mailbox: the events of one generation on their way from the engine's thread to the http thread.
//
// The engine calls the GenerationSink side; take() is the http thread's. Events are merged (text is appended, only the
// newest progress is kept; thinking is told from the answer), so what waits here is bounded: text and log-probabilities
// beyond `bytes_max` is dropped and the box says so, and its owner gives the generation up. `wake` is called, from the
// engine's thread, when the box stops being empty; it must only post. After detach() it is never called again, so the
// owner may go while the engine still holds the box.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/chat_logprobs.h"
#include "api/engine.h"
#include "api/reasoning.h"

namespace llmd {

class Mailbox final : public GenerationSink {
 public:
  struct Finish {
    FinishReason reason = FinishReason::kStop;
    GenerationUsage usage;
  };
  struct Events {
    std::string reasoning, text;                          // thinking, and the answer
    std::vector<TokenLogprobs> logprobs;                  // of the tokens whose text has come, in order
    std::optional<std::pair<int32_t, int32_t>> progress;  // processed, total
    std::optional<Finish> finish;
    std::optional<Error> error;
    bool overflow = false;
  };

  Mailbox(uint64_t bytes_max, std::function<void()> wake, ReasoningSplitter splitter = {})
      : bytes_max_(bytes_max), splitter_(std::move(splitter)), wake_(std::move(wake)) {}

  Events take();
  void detach();

  void on_progress(int32_t processed, int32_t total) override;
  void on_text(std::string_view text, const GeneratedToken& token) override;
  void on_finish(FinishReason reason, const GenerationUsage& usage) override;
  void on_error(const Error& error) override;

 private:
  template <typename Change>
  void put(Change change);

  const uint64_t bytes_max_;
  std::mutex mutex_;
  Events events_;
  LogprobQueue logprobs_;
  ReasoningSplitter splitter_;
  int32_t reasoning_tokens_ = 0;
  bool woken_ = false;
  std::function<void()> wake_;
};

}  // namespace llmd
