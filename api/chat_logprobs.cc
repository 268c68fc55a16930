#include "api/chat_logprobs.h"

#include <nlohmann/json.hpp>

namespace llmd {
namespace {

using nlohmann::ordered_json;

// A token may be a part of a character: "bytes" has it exactly, "token" as text with U+FFFD for what is none.
ordered_json entry_json(const Tokenizer& tokenizer, const TokenLogprob& entry) {
  const std::string_view text = tokenizer.token_bytes(entry.id, true);
  ordered_json bytes = ordered_json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  ordered_json out;
  out["token"] = text;
  out["logprob"] = entry.logprob;
  out["bytes"] = std::move(bytes);
  return out;
}

}  // namespace

void LogprobQueue::add(size_t sent_bytes, const GeneratedToken& token, std::vector<TokenLogprobs>& out) {
  if (token.logprobs) {
    waiting_.push_back({*token.logprobs, produced_, produced_ + token.text_bytes});
    produced_ += token.text_bytes;
  }
  sent_ += sent_bytes;
  for (; !waiting_.empty() && waiting_.front().end <= sent_; waiting_.pop_front())
    out.push_back(waiting_.front().logprobs);
}

void LogprobQueue::finish(std::vector<TokenLogprobs>& out) {
  if (!waiting_.empty() && waiting_.front().begin < sent_) out.push_back(waiting_.front().logprobs);
  waiting_.clear();
}

std::string logprob_json(const Tokenizer& tokenizer, const TokenLogprobs& logprobs) {
  ordered_json out = entry_json(tokenizer, logprobs.chosen);
  ordered_json& top = out["top_logprobs"] = ordered_json::array();
  for (int32_t i = 0; i < logprobs.top_count; i++)
    top.push_back(entry_json(tokenizer, logprobs.top[static_cast<size_t>(i)]));
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace llmd
