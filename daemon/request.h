// Request: one answer, from the queue to its last token.
//
// When several answers to one prompt are wanted, the first carries the others until its prompt is computed; then each
// goes on alone (Batcher::fork). Plain data: the scheduler's lock guards it while it waits, the compute thread owns it
// from admission on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/engine.h"
#include "kv/kv_store.h"
#include "model/architecture.h"
#include "model/sampler.h"
#include "model/tokenizer/tokenizer.h"

namespace llmd {

struct Request {
  Request(uint64_t number, GenerationRequest wanted, std::shared_ptr<GenerationSink> to, double now)
      : id(number),
        generation(number),
        request(std::move(wanted)),
        sink(std::move(to)),
        stops(request.stops),
        tokens(std::move(request.prompt_tokens)),
        prompt_length(static_cast<int32_t>(tokens.size())),
        submitted_at(now),
        served_at(now) {}

  uint64_t id;
  uint64_t generation = 0;  // what submit() returned: the id of the first answer
  GenerationRequest request;
  std::shared_ptr<GenerationSink> sink;
  StopMatcher stops;
  Detokenizer detokenizer;
  std::vector<int32_t> tokens;     // the prompt, then what was generated; all but the last have been accepted
  int32_t prompt_length = 0;       // of `tokens`
  double submitted_at = 0;         // by the steady clock, in seconds, as the other times
  double served_at = 0;            // when its last chunk began
  std::optional<Sampler> sampler;  // set at admission, as the next one
  std::unique_ptr<KvSequence> sequence;
  int32_t computed = 0;  // rows of `tokens` whose KV is in place
  // How the rows were computed, as many as ever were: the same rows are always computed in the same forms again.
  std::vector<uint8_t> forms;
  bool looked_up = false;           // the prefix tree and the store have been asked, since the KV was last dropped
  std::unique_ptr<KvLoad> load;     // what the store is bringing
  std::vector<uint8_t> load_forms;  // of the rows that are in place meanwhile
  double load_began_at = 0;
  bool expanded = false;                  // the form of the prompt's rows that were not found there
  int32_t cached = 0;                     // prompt tokens that were
  bool ended = false;                     // the sink has heard the end, or the client is gone
  std::optional<int32_t> sampled;         // by the step at hand
  std::optional<TokenLogprobs> logprobs;  // of `sampled`
  double admitted_at = 0, first_token_at = 0;
  std::vector<std::unique_ptr<Request>> others;  // answers that begin where this one's prompt ends

  size_t answers() const { return 1 + others.size(); }
  /// Tells everyone who waits for this that nothing more comes.
  void end_with(const Error& error) {
    ended = true;
    sink->on_error(error);
    for (const std::unique_ptr<Request>& other : others) other->sink->on_error(error);
  }
  int32_t prompt() const { return prompt_length; }
  int32_t generated() const { return static_cast<int32_t>(tokens.size()) - prompt(); }
  int32_t uncomputed() const { return static_cast<int32_t>(tokens.size()) - computed; }
  /// Who goes first has the lowest: its priority, less what it has gained by waiting since it was last served.
  double rank(double now) const {
    constexpr double kSecondsAPriority = 10;
    return request.priority - (now - served_at) / kSecondsAPriority;
  }
  bool overdue(double now) const {
    return request.deadline_seconds > 0 && now - submitted_at > request.deadline_seconds;
  }
  /// Decoding: only the newest token has no row yet. A prompt of one token is decoded like any other.
  bool decoding() const { return uncomputed() == 1; }
  /// A row's form follows from the request alone: generated rows are absorbed, prompt rows go by how many were not
  /// found in the prefix tree; what was computed before keeps its form.
  AttentionForm form(int32_t position) const {
    size_t at = static_cast<size_t>(position);
    if (at < forms.size()) return static_cast<AttentionForm>(forms[at]);
    return position < prompt() && expanded ? AttentionForm::kExpanded : AttentionForm::kAbsorbed;
  }
};

inline Error deadline_exceeded(const Request& request) {
  return client_error("deadline_exceeded", "the answer was not complete within the deadline of " +
                                               std::to_string(request.request.deadline_seconds) + " s");
}

}  // namespace llmd
