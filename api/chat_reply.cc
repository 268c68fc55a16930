#include "api/chat_reply.h"

#include <cmath>

namespace llmd {
namespace {

using nlohmann::ordered_json;

// The engine promises UTF-8; a broken promise must not end a stream.
std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

const char* name_of(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

ordered_json usage_json(const GenerationUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", 0}}}};
}

// Puts the elements in the place of choices[0].logprobs. They are text already, since as a document they would take
// many times as much. In a JSON text no string can hold the mark: its quotes would be escaped.
std::string with_logprobs(std::string json, std::string_view elements) {
  constexpr std::string_view kMark = "\"logprobs\":null";
  const size_t at = json.find(kMark);
  if (at == std::string::npos) return json;
  std::string member = "\"logprobs\":{\"content\":[";
  member.append(elements).append("],\"refusal\":null}");
  return json.replace(at, kMark.size(), member);
}

}  // namespace

std::string sse_event(std::string_view json) {
  std::string out = "data: ";
  out.append(json).append("\n\n");
  return out;
}

ChatReply::ChatReply(std::string id, int64_t created_unix, std::string model)
    : id_(std::move(id)), created_unix_(created_unix), model_(std::move(model)) {}

ordered_json ChatReply::chunk(ordered_json delta, ordered_json finish_reason) const {
  ordered_json choice;
  choice["index"] = 0;
  choice["delta"] = std::move(delta);
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = std::move(finish_reason);
  ordered_json out;
  out["id"] = id_;
  out["object"] = "chat.completion.chunk";
  out["created"] = created_unix_;
  out["model"] = model_;
  out["choices"] = ordered_json::array();
  out["choices"].push_back(std::move(choice));
  return out;
}

std::string ChatReply::role_event() const {
  return sse_event(dump(chunk({{"role", "assistant"}, {"content", ""}}, nullptr)));
}

std::string ChatReply::content_event(std::string_view text, std::string_view logprobs) const {
  std::string json = dump(chunk({{"content", text}}, nullptr));
  return sse_event(logprobs.empty() ? json : with_logprobs(std::move(json), logprobs));
}

std::string ChatReply::progress_event(int32_t processed, int32_t total, double seconds) const {
  ordered_json out = chunk(ordered_json::object(), nullptr);
  out["prompt_progress"] = {{"total", total}, {"processed", processed}, {"time_ms", std::llround(seconds * 1000)}};
  return sse_event(dump(out));
}

std::string ChatReply::finish_event(FinishReason reason) const {
  return sse_event(dump(chunk(ordered_json::object(), name_of(reason))));
}

std::string ChatReply::usage_event(const GenerationUsage& usage) const {
  ordered_json out = chunk(ordered_json::object(), nullptr);
  out["choices"] = ordered_json::array();
  out["usage"] = usage_json(usage);
  return sse_event(dump(out));
}

std::string ChatReply::whole(std::string_view text, const std::string* logprobs, FinishReason reason,
                             const GenerationUsage& usage) const {
  ordered_json choice;
  choice["index"] = 0;
  choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = name_of(reason);
  ordered_json out;
  out["id"] = id_;
  out["object"] = "chat.completion";
  out["created"] = created_unix_;
  out["model"] = model_;
  out["choices"] = ordered_json::array();
  out["choices"].push_back(std::move(choice));
  out["usage"] = usage_json(usage);
  std::string json = dump(out);
  return (logprobs != nullptr ? with_logprobs(std::move(json), *logprobs) : json) + "\n";
}

}  // namespace llmd
