// ChatReply: the JSON of an answer, whole or in stream chunks, as the OpenAI SDKs parse it: of a chat completion, or of
// a plain completion.
//
// All chunks of one answer carry the same id, created and model; `choice` is the index of the one that a chunk goes on
// with. Each function returns one complete SSE event ("data: {...}\n\n"), nothing, or one JSON text. One thread at a
// time.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/engine.h"
#include "api/old_logprobs.h"

namespace llmd {

/// A complete choice: its thinking, where there was any, and its text. `logprobs`: elements for its logprobs.content,
/// as JSON text separated by commas; null: they were not asked for.
struct ChoiceText {
  std::string_view reasoning, text;
  const std::string* logprobs = nullptr;
  FinishReason reason = FinishReason::kStop;
};

enum class ReplyStyle { kChat, kText };

class ChatReply {
 public:
  ChatReply(std::string id, int64_t created_unix, std::string model, ReplyStyle style = ReplyStyle::kChat);

  const std::string& id() const { return id_; }

  /// Empty in a plain completion, where nobody has a role.
  std::string role_event(size_t choice) const;
  /// `logprobs`: as in ChoiceText; empty: there are none.
  std::string content_event(size_t choice, std::string_view text, std::string_view logprobs);
  std::string reasoning_event(size_t choice, std::string_view text, std::string_view logprobs);
  std::string progress_event(int32_t processed, int32_t total, double seconds) const;
  std::string finish_event(size_t choice, FinishReason reason) const;
  std::string usage_event(const GenerationUsage& usage) const;

  std::string whole(std::span<const ChoiceText> choices, const GenerationUsage& usage) const;

 private:
  std::string text_event(size_t choice, const char* field, std::string_view text, std::string_view logprobs);
  std::string with_logprobs(std::string json, std::string_view elements, OldLogprobs& old) const;
  nlohmann::ordered_json chunk(size_t choice, nlohmann::ordered_json delta, nlohmann::ordered_json finish_reason) const;

  std::string id_;
  int64_t created_unix_;
  std::string model_;
  ReplyStyle style_;
  std::vector<OldLogprobs> old_logprobs_;  // of the choices of a stream
};

inline constexpr std::string_view kSsePing = ": ping\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

/// "data: {...}\n\n" of a JSON text.
std::string sse_event(std::string_view json);

}  // namespace llmd
