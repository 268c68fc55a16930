#include "api/chat_service.h"

#include <malloc.h>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <random>

#include "api/api_error.h"
#include "api/json_input.h"
#include "kv/sha256.h"

namespace llmd {

namespace {

constexpr size_t kTrimBytes = 64 << 10;

/// A lower bound of the number of tokens, from the size of the text alone.
int64_t least_tokens(const std::vector<TextRun>& runs, int64_t longest_token_bytes) {
  int64_t bytes = 0;
  for (const TextRun& run : runs) bytes += static_cast<int64_t>(run.text.size());
  return (bytes + longest_token_bytes - 1) / longest_token_bytes;
}

/// Where a request's prefixes are looked for: another for every salt and key that clients name.
uint64_t cache_space(const ChatRequest& request) {
  if (request.cache_salt.empty() && request.cache_key.empty()) return 0;
  const std::string text = std::to_string(request.cache_salt.size()) + ":" + request.cache_salt + request.cache_key;
  const Sha256 digest = sha256(std::as_bytes(std::span(text)));
  uint64_t space = 0;
  std::memcpy(&space, digest.data(), sizeof space);
  return space;
}

}  // namespace

std::string random_id(const char* prefix) {
  static constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  std::uniform_int_distribution<size_t> pick(0, kLetters.size() - 1);
  std::string id = prefix;
  for (int i = 0; i < 24; ++i) id.push_back(kLetters[pick(random)]);
  return id;
}

Status ChatService::check_model(const std::string& name) const {
  if (name.empty() || options_.ignore_model_name || name == engine_.info().model_id) return {};
  const auto& aliases = options_.model_aliases;
  if (std::find(aliases.begin(), aliases.end(), name) != aliases.end()) return {};
  return client_error(
      "model_not_found",
      "There is no model \"" + name + "\" here; this server serves \"" + engine_.info().model_id + "\".", "model");
}

Status ChatService::load_prompt() {
  if (prompt_) return {};
  const Tokenizer& tokenizer = engine_.tokenizer();
  // What a prompt may cost follows from what a body may be; templates add little to the text they are given.
  TemplateLimits limits;
  limits.output_bytes_max = options_.body_bytes_max + (1 << 20);
  limits.memory_bytes_max = 12 * limits.output_bytes_max;
  Result<ChatPrompt> prompt =
      ChatPrompt::load(engine_.info().chat_template, tokenizer.bos_text(), tokenizer.eos_text(), limits);
  if (!prompt.ok()) {
    spdlog::error("the model's chat template cannot be used: {}", prompt.error().to_string());
    return std::move(prompt).error();
  }
  prompt_ = std::move(prompt).value();
  return {};
}

Result<ChatRequest> ChatService::parse(std::string& body) const {
  LLMD_ASSIGN_OR_RETURN(const nlohmann::ordered_json json, parse_json(body));
  body = std::string();
  return parse_chat_request(json, options_.strict_params, engine_.info().sampling);
}

// What only the vocabulary can tell: which ids exist, what a text's tokens are, and that some token stays possible.
Status ChatService::take_sampling(ChatRequest& request, GenerationRequest& generation) const {
  const Tokenizer& tokenizer = engine_.tokenizer();
  const int32_t vocab = tokenizer.vocab_size();
  const auto unknown = [vocab](const char* param) {
    return client_error(
        "invalid_value",
        std::string(param) + " names a token that is not among the model's " + std::to_string(vocab) + ".", param);
  };
  SamplingParams& sampling = request.sampling;
  for (const auto& [text, bias] : request.text_bias)
    for (int32_t id : tokenizer.encode(text, false, false)) sampling.logit_bias.push_back({id, bias});
  bool forbids = false;
  for (const TokenBias& entry : sampling.logit_bias) {
    if (entry.id >= vocab) return unknown("logit_bias");
    forbids |= std::isinf(entry.bias);
  }
  for (int32_t id : sampling.stop_token_ids)
    if (id >= vocab) return unknown("stop_token_ids");
  if (forbids) {
    std::vector<bool> possible(static_cast<size_t>(vocab), true);
    for (const TokenBias& entry : sampling.logit_bias)
      if (std::isinf(entry.bias)) possible[static_cast<size_t>(entry.id)] = false;
    if (sampling.min_tokens > 0)
      for (int32_t id : sampling.stop_token_ids) possible[static_cast<size_t>(id)] = false;
    bool some = false;
    for (int32_t id = 0; id < vocab && !some; id++)
      some = possible[static_cast<size_t>(id)] && !tokenizer.is_end_of_generation(id);
    if (!some) return client_error("invalid_value", "logit_bias leaves no token to answer with.", "logit_bias");
  }
  if (!request.has_seed) sampling.seed = std::random_device{}() * 0x9e3779b97f4a7c15ull;
  if (request.logprobs) generation.top_logprobs = request.top_logprobs;
  generation.sampling = std::move(sampling);
  return {};
}

Result<PreparedChat> ChatService::build(std::string& body, std::optional<HttpReply>& special) {
  LLMD_ASSIGN_OR_RETURN(ChatRequest request, parse(body));
  LLMD_RETURN_IF_ERROR(check_model(request.model));
  GenerationRequest generation;
  LLMD_RETURN_IF_ERROR(take_sampling(request, generation));
  LLMD_RETURN_IF_ERROR(load_prompt());
  const time_t seconds = time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  LLMD_ASSIGN_OR_RETURN(const std::vector<TextRun> runs, prompt_->render(request, now));

  // Tokenizing takes up to 32 bytes for each byte of text: not for a text that cannot fit.
  const int64_t context_tokens = engine_.info().context_tokens;
  const int64_t tokens_min = least_tokens(runs, engine_.tokenizer().longest_token_bytes());
  if (tokens_min >= context_tokens) {
    special = context_length_reply(tokens_min, context_tokens, true);
    return client_error("context_length_exceeded", "", "messages");
  }
  generation.prompt_tokens = engine_.tokenizer().encode(runs, true);
  const auto prompt_tokens = static_cast<int64_t>(generation.prompt_tokens.size());
  if (prompt_tokens == 0) return client_error("invalid_value", "The prompt has no tokens.", "messages");
  if (prompt_tokens >= context_tokens) {
    special = context_length_reply(prompt_tokens, context_tokens, false);
    return client_error("context_length_exceeded", "", "messages");
  }
  const auto room = static_cast<int32_t>(context_tokens - prompt_tokens);
  generation.tokens_max = std::min(request.tokens_max.value_or(room), room);
  generation.stops = std::move(request.stops);
  for (std::string& stop : prompt_->stops()) generation.stops.push_back(std::move(stop));
  generation.cache_prompt = request.cache_prompt;
  generation.cache_space = cache_space(request);
  generation.priority = request.priority;
  generation.deadline_seconds = request.deadline_seconds;
  return PreparedChat{std::move(generation),   ChatReply(random_id("chatcmpl-"), seconds, engine_.info().model_id),
                      request.stream,          request.include_usage,
                      request.return_progress, request.choices};
}

PrepareOutcome ChatService::prepare(std::string body) {
  PrepareOutcome outcome;
  const bool large = body.size() >= kTrimBytes;
  try {
    std::optional<HttpReply> special;
    Result<PreparedChat> chat = build(body, special);
    if (chat.ok()) {
      outcome.chat = std::move(chat).value();
    } else {
      outcome.error = special ? std::move(*special) : error_reply(chat.error());
    }
  } catch (const std::exception& exception) {
    spdlog::error("a request could not be prepared: {}", exception.what());
    outcome.error = error_reply(operating_error("internal_error", exception.what()));
  }
  // The allocator would keep what a large request took, and the memory budget counts it.
  if (large) malloc_trim(0);
  return outcome;
}

}  // namespace llmd
