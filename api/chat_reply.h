// ChatReply: the JSON of a chat completion's answer, whole or in stream chunks, as the OpenAI SDKs parse it.
//
// All chunks of one answer carry the same id, created and model; `choice` is the index of the one that a chunk goes on
// with. Each function returns one complete SSE event
// ("data: {...}\n\n") or one JSON text. Pure functions of the constructor's values; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "api/engine.h"

namespace llmd {

/// A complete choice. `logprobs`: elements for its logprobs.content, as JSON text separated by commas; null: they were
/// not asked for.
struct ChoiceText {
  std::string_view text;
  const std::string* logprobs = nullptr;
  FinishReason reason = FinishReason::kStop;
};

class ChatReply {
 public:
  ChatReply(std::string id, int64_t created_unix, std::string model);

  const std::string& id() const { return id_; }

  std::string role_event(size_t choice) const;
  /// `logprobs`: as in ChoiceText; empty: there are none.
  std::string content_event(size_t choice, std::string_view text, std::string_view logprobs) const;
  std::string progress_event(int32_t processed, int32_t total, double seconds) const;
  std::string finish_event(size_t choice, FinishReason reason) const;
  std::string usage_event(const GenerationUsage& usage) const;

  std::string whole(std::span<const ChoiceText> choices, const GenerationUsage& usage) const;

 private:
  nlohmann::ordered_json chunk(size_t choice, nlohmann::ordered_json delta, nlohmann::ordered_json finish_reason) const;

  std::string id_;
  int64_t created_unix_;
  std::string model_;
};

inline constexpr std::string_view kSsePing = ": ping\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

/// "data: {...}\n\n" of a JSON text.
std::string sse_event(std::string_view json);

}  // namespace llmd
