// ChatReply: the JSON of a chat completion's answer, whole or in stream chunks, as the OpenAI SDKs parse it.
//
// All chunks of one answer carry the same id, created and model. Each function returns one complete SSE event
// ("data: {...}\n\n") or one JSON text. Pure functions of the constructor's values; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/engine.h"

namespace llmd {

class ChatReply {
 public:
  ChatReply(std::string id, int64_t created_unix, std::string model);

  const std::string& id() const { return id_; }

  std::string role_event() const;
  /// `logprobs`: elements for choices[].logprobs.content, as JSON text separated by commas; empty: there are none.
  std::string content_event(std::string_view text, std::string_view logprobs) const;
  std::string progress_event(int32_t processed, int32_t total, double seconds) const;
  std::string finish_event(FinishReason reason) const;
  std::string usage_event(const GenerationUsage& usage) const;

  /// `logprobs`: as above; null: they were not asked for.
  std::string whole(std::string_view text, const std::string* logprobs, FinishReason reason,
                    const GenerationUsage& usage) const;

 private:
  nlohmann::ordered_json chunk(nlohmann::ordered_json delta, nlohmann::ordered_json finish_reason) const;

  std::string id_;
  int64_t created_unix_;
  std::string model_;
};

inline constexpr std::string_view kSsePing = ": ping\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

/// "data: {...}\n\n" of a JSON text.
std::string sse_event(std::string_view json);

}  // namespace llmd
