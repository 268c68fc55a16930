// Engine: what the HTTP layer needs of the scheduler. daemon/scheduler.h implements it; tests use a scripted one.
//
// submit() and cancel() may be called from any thread and never block on compute. A sink's calls come from the engine's
// thread, one at a time, and must return at once (post to your own executor); after on_finish or on_error no call
// follows and the engine lets go of the sink.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/result.h"
#include "model/sampler.h"
#include "model/sampler_logprobs.h"
#include "model/tokenizer/tokenizer.h"

namespace llmd {

enum class FinishReason { kStop, kLength };

inline constexpr size_t kChoicesMax = 16;

struct GenerationRequest {
  std::vector<int32_t> prompt_tokens;  // not empty, shorter than the context
  int32_t tokens_max = 0;              // at least 1; the engine also ends at the context's end (kLength)
  SamplingParams sampling;
  std::vector<std::string> stops;        // not empty strings
  std::vector<int32_t> printed_control;  // control tokens whose text is part of the answer; others have none
  bool cache_prompt = true;     // what earlier requests have computed may be used, and what this one computes kept
  uint64_t cache_space = 0;     // only requests of the same space share what was computed
  int32_t priority = 0;         // the lowest goes first; who waits gains one every 10 seconds
  double deadline_seconds = 0;  // from submit() on; then "deadline_exceeded". 0: none
  std::optional<int32_t> top_logprobs;  // log-probabilities are wanted, with as many of the likeliest tokens
};

/// One token of an answer, and what it adds to the text (sent with it, or later).
struct GeneratedToken {
  int32_t id = -1;        // -1: no token; the end releases text that was held back
  size_t text_bytes = 0;  // of the text that the token completes; 0: an unfinished character
  std::optional<TokenLogprobs> logprobs;
};

struct GenerationUsage {
  int32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  int32_t reasoning_tokens = 0;  // of the completion; the mailbox counts them (api/mailbox.h)
  double prefill_seconds = 0, decode_seconds = 0;
};

class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  /// Prompt tokens done so far.
  virtual void on_progress(int32_t processed, int32_t total) = 0;
  /// Text that may be sent: valid UTF-8, stop strings already held back; may be empty for a token that completes
  /// nothing.
  virtual void on_text(std::string_view text, const GeneratedToken& token) = 0;
  virtual void on_finish(FinishReason reason, const GenerationUsage& usage) = 0;
  virtual void on_error(const Error& error) = 0;
};

struct EngineStatus {
  enum class Phase { kLoading, kReady, kDraining, kFailed } phase = Phase::kLoading;
  std::string phase_detail;                 // "reading core weights", ...
  double progress = 0;                      // 0..1 while loading
  bool degraded = false;                    // something of the model cannot be read now
  std::string degraded_reason;              // what, in one line
  std::string read_path, read_path_reason;  // io_uring or threads, and why
  int32_t requests_running = 0, requests_waiting = 0;
};

struct EngineInfo {
  std::string model_id;  // --alias, else general.name, else the file's stem
  int32_t context_tokens = 0;
  std::string chat_template;  // Jinja source; empty: none
  int64_t created_unix = 0;
  SamplingParams sampling;  // what holds where a request says nothing
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual EngineStatus status() const = 0;
  /// The three below are valid once the phase has been kReady.
  virtual const EngineInfo& info() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  /// Queues a request. Errors: client "queue_full"; operating "model_loading", "shutting_down".
  /// `sinks`: one for each answer wanted to the same prompt, 1 to kChoicesMax. The prompt is computed once, and only
  /// the first hears of its progress; answer i is what a request of its own would get with the seed raised by i.
  virtual Result<uint64_t> submit(GenerationRequest request, std::vector<std::shared_ptr<GenerationSink>> sinks) = 0;
  /// Stops a generation, with all its answers, within one step; the sinks hear nothing more. Unknown ids are ignored.
  virtual void cancel(uint64_t id) = 0;
};

}  // namespace llmd
