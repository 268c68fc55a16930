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
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

// Puts `text` in the place of a null member: what is JSON text already would take many times as much as a document. In
// a JSON text no string can hold the mark, since its quotes would be escaped.
std::string replace_mark(std::string json, std::string_view mark, std::string_view text) {
  const size_t at = json.find(mark);
  return at == std::string::npos ? json : json.replace(at, mark.size(), text);
}

}  // namespace

std::string sse_event(std::string_view json) {
  std::string out = "data: ";
  out.append(json).append("\n\n");
  return out;
}

ChatReply::ChatReply(std::string id, int64_t created_unix, std::string model, ReplyStyle style)
    : id_(std::move(id)), created_unix_(created_unix), model_(std::move(model)), style_(style) {}

std::string ChatReply::with_logprobs(std::string json, std::string_view elements, OldLogprobs& old) const {
  std::string member = "\"logprobs\":";
  if (style_ == ReplyStyle::kText) {
    member += old.convert(elements);
  } else {
    member.append("{\"content\":[").append(elements).append("],\"refusal\":null}");
  }
  return replace_mark(std::move(json), "\"logprobs\":null", member);
}

ordered_json ChatReply::chunk(size_t index, ordered_json delta, ordered_json finish_reason) const {
  ordered_json choice;
  if (style_ == ReplyStyle::kText) choice["text"] = delta.value("content", "");
  choice["index"] = index;
  if (style_ == ReplyStyle::kChat) choice["delta"] = std::move(delta);
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = std::move(finish_reason);
  ordered_json out;
  out["id"] = id_;
  out["object"] = style_ == ReplyStyle::kChat ? "chat.completion.chunk" : "text_completion";
  out["created"] = created_unix_;
  out["model"] = model_;
  out["choices"] = ordered_json::array();
  out["choices"].push_back(std::move(choice));
  return out;
}

std::string ChatReply::role_event(size_t choice) const {
  if (style_ == ReplyStyle::kText) return {};
  return sse_event(dump(chunk(choice, {{"role", "assistant"}, {"content", ""}}, nullptr)));
}

std::string ChatReply::content_event(size_t choice, std::string_view text, std::string_view logprobs) {
  return text_event(choice, "content", text, logprobs);
}

std::string ChatReply::reasoning_event(size_t choice, std::string_view text, std::string_view logprobs) {
  return text_event(choice, "reasoning_content", text, logprobs);
}

std::string ChatReply::text_event(size_t choice, const char* field, std::string_view text, std::string_view logprobs) {
  std::string json = dump(chunk(choice, {{field, text}}, nullptr));
  if (logprobs.empty()) return sse_event(json);
  if (old_logprobs_.size() <= choice) old_logprobs_.resize(choice + 1);
  return sse_event(with_logprobs(std::move(json), logprobs, old_logprobs_[choice]));
}

std::string ChatReply::progress_event(int32_t processed, int32_t total, double seconds) const {
  ordered_json out = chunk(0, ordered_json::object(), nullptr);
  out["prompt_progress"] = {{"total", total}, {"processed", processed}, {"time_ms", std::llround(seconds * 1000)}};
  return sse_event(dump(out));
}

std::string ChatReply::finish_event(size_t choice, FinishReason reason) const {
  return sse_event(dump(chunk(choice, ordered_json::object(), name_of(reason))));
}

std::string ChatReply::usage_event(const GenerationUsage& usage) const {
  ordered_json out = chunk(0, ordered_json::object(), nullptr);
  out["choices"] = ordered_json::array();
  out["usage"] = usage_json(usage);
  return sse_event(dump(out));
}

std::string ChatReply::whole(std::span<const ChoiceText> choices, const GenerationUsage& usage) const {
  ordered_json out;
  out["id"] = id_;
  out["object"] = style_ == ReplyStyle::kChat ? "chat.completion" : "text_completion";
  out["created"] = created_unix_;
  out["model"] = model_;
  out["choices"] = nullptr;
  out["usage"] = usage_json(usage);
  std::string list = "\"choices\":[";
  for (size_t i = 0; i < choices.size(); i++) {
    ordered_json choice;
    if (style_ == ReplyStyle::kText) choice["text"] = choices[i].text;
    choice["index"] = i;
    if (style_ == ReplyStyle::kChat) {
      choice["message"] = {{"role", "assistant"}, {"content", choices[i].text}, {"refusal", nullptr}};
      if (!choices[i].reasoning.empty()) choice["message"]["reasoning_content"] = choices[i].reasoning;
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = name_of(choices[i].reason);
    std::string json = dump(choice);
    if (i > 0) list += ',';
    OldLogprobs old;
    list += choices[i].logprobs != nullptr ? with_logprobs(std::move(json), *choices[i].logprobs, old) : json;
  }
  return replace_mark(dump(out), "\"choices\":null", list + "]") + "\n";
}

}  // namespace llmd
