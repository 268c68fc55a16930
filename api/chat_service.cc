#include "api/chat_service.h"

#include <malloc.h>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>

#include "api/api_error.h"
#include "api/completion_request.h"
#include "api/json_input.h"
#include "api/sampling_check.h"
#include "api/status_pages.h"
#include "api/text_endpoints.h"
#include "kv/sha256.h"

namespace llmd {

using nlohmann::ordered_json;

namespace {

constexpr size_t kTrimBytes = 64 << 10;

/// A lower bound of the number of tokens, from the size of the text alone.
int64_t least_tokens(const std::vector<TextRun>& runs, int64_t longest_token_bytes) {
  int64_t bytes = 0;
  for (const TextRun& run : runs) bytes += static_cast<int64_t>(run.text.size());
  return (bytes + longest_token_bytes - 1) / longest_token_bytes;
}

/// Where a request's prefixes are looked for: another for every tenant, salt and key.
uint64_t cache_space(std::string_view tenant, const ChatRequest& request) {
  if (tenant.empty() && request.cache_salt.empty() && request.cache_key.empty()) return 0;
  std::string text;
  for (const std::string_view part :
       {tenant, std::string_view(request.cache_salt), std::string_view(request.cache_key)})
    text.append(std::to_string(part.size())).append(":").append(part);
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
  if (serves_model(engine_, options_, name)) return {};
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

// The body is gone before anything is made of it.
Result<ordered_json> ChatService::read(std::string& body) const {
  Result<ordered_json> json = parse_json(body);
  body = std::string();
  return json;
}

Result<ChatService::Prompt> ChatService::render(ChatRequest& request) {
  LLMD_RETURN_IF_ERROR(load_prompt());
  const time_t seconds = time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  LLMD_ASSIGN_OR_RETURN(Prompt runs, prompt_->render(request, now));
  return runs;
}

// Tokenizing takes up to 32 bytes for each byte of text: not for a text that cannot fit.
Result<std::vector<int32_t>> ChatService::encode(const Prompt& runs, const char* param) const {
  const int64_t tokens_min = least_tokens(runs, engine_.tokenizer().longest_token_bytes());
  if (tokens_min >= engine_.info().context_tokens) return too_long(tokens_min, true, param);
  return engine_.tokenizer().encode(runs, true);
}

Error ChatService::too_long(int64_t tokens, bool at_least, const char* param) const {
  too_long_ = context_length_reply(tokens, engine_.info().context_tokens, at_least, param);
  return client_error("context_length_exceeded", "the prompt does not fit", param);
}

Result<PreparedChat> ChatService::build_chat(const ordered_json& body) {
  LLMD_ASSIGN_OR_RETURN(ChatRequest request, parse_chat_request(body, options_.strict_params, engine_.info().sampling));
  LLMD_RETURN_IF_ERROR(check_model(request.model));
  GenerationRequest generation;
  LLMD_RETURN_IF_ERROR(take_sampling(request, engine_.tokenizer(), generation));
  LLMD_ASSIGN_OR_RETURN(const Prompt runs, render(request));
  LLMD_ASSIGN_OR_RETURN(generation.prompt_tokens, encode(runs, "messages"));
  for (std::string& stop : prompt_->stops()) request.stops.push_back(std::move(stop));
  const ReasoningSplitter splitter = request.split_reasoning ? prompt_->splitter(runs) : ReasoningSplitter();
  for (const std::string& tag : {prompt_->reasoning().open, prompt_->reasoning().close})
    if (const int32_t id = engine_.tokenizer().find(tag); id >= 0 && engine_.tokenizer().is_control(id))
      generation.printed_control.push_back(id);
  LLMD_ASSIGN_OR_RETURN(PreparedChat chat, admit(std::move(request), std::move(generation), ReplyStyle::kChat));
  chat.splitter = splitter;
  return chat;
}

Result<PreparedChat> ChatService::build_completion(const ordered_json& body) {
  LLMD_ASSIGN_OR_RETURN(CompletionRequest request,
                        parse_completion_request(body, options_.strict_params, engine_.info().sampling));
  LLMD_RETURN_IF_ERROR(check_model(request.common.model));
  GenerationRequest generation;
  LLMD_RETURN_IF_ERROR(take_sampling(request.common, engine_.tokenizer(), generation));
  const int32_t vocab = engine_.tokenizer().vocab_size();
  for (size_t i = 0; i < request.tokens.size(); ++i) {
    if (request.tokens[i] < vocab) continue;
    const std::string param = "prompt[" + std::to_string(i) + "]";
    return client_error("invalid_value", param + " is not among the model's " + std::to_string(vocab) + " tokens.",
                        param);
  }
  generation.prompt_tokens = std::move(request.tokens);
  if (generation.prompt_tokens.empty()) {
    const Prompt runs{{std::move(request.text), request.parse_special}};
    LLMD_ASSIGN_OR_RETURN(generation.prompt_tokens, encode(runs, "prompt"));
  }
  return admit(std::move(request.common), std::move(generation), ReplyStyle::kText);
}

Result<PreparedChat> ChatService::admit(ChatRequest request, GenerationRequest generation, ReplyStyle style) const {
  const bool chat = style == ReplyStyle::kChat;
  const char* param = chat ? "messages" : "prompt";
  const int32_t context_tokens = engine_.info().context_tokens;
  const auto prompt_tokens = static_cast<int64_t>(generation.prompt_tokens.size());
  if (prompt_tokens == 0) return client_error("invalid_value", "The prompt has no tokens.", param);
  if (prompt_tokens >= context_tokens) return too_long(prompt_tokens, false, param);
  const auto room = static_cast<int32_t>(context_tokens - prompt_tokens);
  generation.tokens_max = std::min(request.tokens_max.value_or(room), room);
  generation.stops = std::move(request.stops);
  generation.cache_prompt = request.cache_prompt;
  generation.cache_space = cache_space(tenant_, request);
  generation.priority = request.priority;
  generation.deadline_seconds = request.deadline_seconds;
  ChatReply reply(random_id(chat ? "chatcmpl-" : "cmpl-"), time(nullptr), engine_.info().model_id, style);
  return PreparedChat{std::move(generation), std::move(reply),        request.stream,
                      request.include_usage, request.return_progress, request.choices};
}

Result<HttpReply> ChatService::answer_text(Work work, const ordered_json& body) {
  if (work == Work::kTokenize) return tokenize_reply(body, engine_.tokenizer());
  if (work == Work::kDetokenize) return detokenize_reply(body, engine_.tokenizer());
  LLMD_ASSIGN_OR_RETURN(ChatRequest request, parse_chat_request(body, options_.strict_params, engine_.info().sampling));
  LLMD_ASSIGN_OR_RETURN(const Prompt runs, render(request));
  return prompt_reply(runs);
}

Status ChatService::work(Work work, std::string& body, PrepareOutcome& outcome) {
  LLMD_ASSIGN_OR_RETURN(const ordered_json json, read(body));
  if (work == Work::kChat) {
    LLMD_ASSIGN_OR_RETURN(outcome.chat, build_chat(json));
  } else if (work == Work::kCompletion) {
    LLMD_ASSIGN_OR_RETURN(outcome.chat, build_completion(json));
  } else {
    LLMD_ASSIGN_OR_RETURN(outcome.reply, answer_text(work, json));
  }
  return {};
}

PrepareOutcome ChatService::prepare(Work what, std::string body, std::string_view tenant) {
  PrepareOutcome outcome;
  tenant_ = tenant;
  const bool large = body.size() >= kTrimBytes;
  too_long_.reset();
  try {
    const Status done = work(what, body, outcome);
    if (!done) outcome.reply = too_long_ ? std::move(*too_long_) : error_reply(done.error());
  } catch (const std::exception& exception) {
    spdlog::error("a request could not be prepared: {}", exception.what());
    outcome.reply = error_reply(operating_error("internal_error", exception.what()));
  }
  // The allocator would keep what a large request took, and the memory budget counts it.
  if (large) malloc_trim(0);
  return outcome;
}

}  // namespace llmd
