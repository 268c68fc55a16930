// `llmd eval`: run a prompt through the model once, without a server: logits, greedy tokens, and what it cost.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "daemon/commands.h"
#include "daemon/model_loader.h"
#include "daemon/npy_writer.h"
#include "daemon/progress.h"
#include "io/process_memory.h"
#include "model/generator.h"

namespace llmd {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Result<std::vector<int32_t>> prompt_tokens(const Options& options, const LoadedModel& model) {
  std::vector<int32_t> tokens;
  if (options.tokens) {
    tokens = *options.tokens;
  } else {
    std::string text = options.text.value_or("");
    if (!options.text_file.empty()) {
      std::ifstream file(options.text_file, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(file), {});
      if (!file) return operating_error("file_open", "cannot read the prompt", options.text_file);
    }
    tokens = model.tokenizer->encode(text, true, true);
  }
  if (tokens.empty()) return client_error("empty_prompt", "the prompt has no tokens");
  int32_t vocab = model.runtime->shape().vocab;
  for (int32_t token : tokens)
    if (token < 0 || token >= vocab)
      return client_error("invalid_token",
                          "token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(vocab));
  int32_t total = static_cast<int32_t>(tokens.size()) + options.greedy_tokens,
          context = model.runtime->plan().context_tokens;
  if (total > context)
    return client_error("context_length_exceeded", std::to_string(total) + " tokens do not fit the context of " +
                                                       std::to_string(context) + "; raise --ctx");
  return tokens;
}

struct EvalResult {
  std::vector<int32_t> prompt, greedy;
  double load_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
  uint64_t faults_at_ready = 0;
};

Status evaluate(const Options& options, LoadedModel& model, EvalResult& result) {
  Runtime& runtime = *model.runtime;
  NpyWriter npy;
  bool all = !options.logits_file.empty();
  int32_t total = static_cast<int32_t>(result.prompt.size()) + options.greedy_tokens;
  if (all) {
    // The last greedy token is chosen, not fed: it has no row.
    uint64_t rows =
        result.prompt.size() + static_cast<uint64_t>(options.greedy_tokens > 0 ? options.greedy_tokens - 1 : 0);
    LLMD_RETURN_IF_ERROR(npy.open(options.logits_file, rows, static_cast<uint64_t>(runtime.shape().vocab)));
  }
  Generator generator(runtime, total);
  int32_t next = 0;
  auto on_logits = [&](int32_t position, std::span<const float> logits) {
    if (all) npy.write_row(logits);
    if (position + 1 >= static_cast<int32_t>(result.prompt.size())) next = argmax(logits);
  };
  double begin = now_seconds();
  LLMD_RETURN_IF_ERROR(generator.prefill(result.prompt, all, on_logits));
  result.prefill_seconds = now_seconds() - begin;
  begin = now_seconds();
  for (int32_t i = 0; i < options.greedy_tokens; i++) {
    result.greedy.push_back(next);
    if (i + 1 < options.greedy_tokens) LLMD_RETURN_IF_ERROR(generator.decode(next, on_logits));
  }
  result.decode_seconds = now_seconds() - begin;
  return all ? npy.finish() : Status();
}

void print_json(const LoadedModel& model, const EvalResult& result, const std::string& text) {
  const Runtime& runtime = *model.runtime;
  ProcessMemory memory = process_memory();
  nlohmann::ordered_json out = {{"prompt_tokens", result.prompt},
                                {"greedy_tokens", result.greedy},
                                {"ready_seconds", result.load_seconds},
                                {"prefill_seconds", result.prefill_seconds},
                                {"decode_seconds", result.decode_seconds},
                                {"plan_bytes", runtime.plan().total_bytes()},
                                {"peak_rss_bytes", memory.resident_peak_bytes},
                                {"file_rss_bytes", memory.file_resident_bytes},
                                {"major_faults", memory.major_faults - result.faults_at_ready}};
  if (model.tokenizer) out["text"] = text;
  if (runtime.residency() != nullptr) {
    ResidencyStatistics s = runtime.residency()->statistics();
    out["expert_bytes_read"] = s.bytes_read + s.prefetch_bytes;
    out["expert_hits"] = s.hits;
    out["expert_misses"] = s.misses;
  }
  std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace

int run_eval(const Options& options) {
  double begin = now_seconds();
  Result<LoadedModel> model = open_model(options, 0);
  if (!model.ok()) return report(model.error());
  bool need_tokenizer = !options.tokens.has_value();
  std::unique_ptr<Progress> progress;
  Status loaded = load_model(*model, need_tokenizer, [&](const char* phase, uint64_t done, uint64_t total) {
    if (total == 0) return;
    if (!progress) progress = std::make_unique<Progress>(phase, total, Progress::Unit::kBytes);
    progress->update(done);
  });
  progress.reset();
  if (!loaded.ok()) return report(loaded.error());
  log_notes(*model);
  TextLock lock = lock_program_text();
  if (!lock.warning.empty()) std::fprintf(stderr, "llmd: %s\n", lock.warning.c_str());
  EvalResult result;
  result.load_seconds = now_seconds() - begin;
  result.faults_at_ready = process_memory().major_faults;
  Result<std::vector<int32_t>> prompt = prompt_tokens(options, *model);
  if (!prompt.ok()) return report(prompt.error());
  result.prompt = std::move(prompt).value();
  Status status = evaluate(options, *model, result);
  if (!status.ok()) return report(status.error());

  std::string text;
  if (model->tokenizer) {
    Detokenizer detokenizer;
    for (int32_t token : result.greedy) text += detokenizer.add(model->tokenizer->token_bytes(token, true));
  }
  if (options.json) {
    print_json(*model, result, text);
  } else if (!result.greedy.empty()) {
    for (size_t i = 0; i < result.greedy.size(); i++) std::printf("%s%d", i ? "," : "", result.greedy[i]);
    std::printf("\n%s\n", text.c_str());
  }
  return 0;
}

}  // namespace llmd
