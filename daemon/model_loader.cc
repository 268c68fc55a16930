#include "daemon/model_loader.h"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <utility>

#include "daemon/diagnosis.h"
#include "daemon/log.h"
#include "daemon/memory_limit.h"
#include "io/process_memory.h"
#include "model/processors.h"

namespace llmd {
namespace {

void log_late_read(const LateRead& late) {
  std::string others = late.others ? ", and so have " + std::to_string(late.others) + " others" : "";
  spdlog::warn(
      "a read has been waiting for the drive for {:.1f} s: {} at {}{}; look at the drive's health (dmesg, "
      "smartctl)",
      static_cast<double>(late.age_ns) * 1e-9, late.file->path(), late.offset, others);
}

}  // namespace

ReaderOptions::Path reader_path(ReadPath path) {
  switch (path) {
    case ReadPath::kUring:
      return ReaderOptions::Path::kUring;
    case ReadPath::kThreads:
      return ReaderOptions::Path::kThreads;
    case ReadPath::kAuto:
      break;
  }
  return ReaderOptions::Path::kAuto;
}

Result<LoadedModel> open_model(const Options& options, uint64_t http_bytes, ReaderMaker make_reader) {
  LoadedModel model;
  LLMD_ASSIGN_OR_RETURN(GgufModel gguf, GgufModel::open(options.model));
  model.gguf = std::make_unique<GgufModel>(std::move(gguf));
  for (const auto& [key, value] : options.override_kv) LLMD_RETURN_IF_ERROR(model.gguf->override_kv(key + "=" + value));
  RuntimeOptions runtime;
  if (options.memory_bytes) {
    runtime.plan.memory_bytes = *options.memory_bytes;
  } else {
    MemoryLimit limit = automatic_memory("/");
    runtime.plan.memory_bytes = limit.bytes;
    model.memory_source = limit.source;
  }
  runtime.plan.context_tokens = options.context_tokens;
  runtime.plan.kv_memory_bytes = options.kv_memory_bytes;
  runtime.plan.prefill_chunk = options.prefill_chunk;
  runtime.plan.kv_type = options.kv_type;
  runtime.plan.threads = options.threads.value_or(allowed_processors().default_threads());
  runtime.plan.http_bytes = http_bytes;
  runtime.read_path = reader_path(options.read_path);
  runtime.checksums_file = options.checksums_file;
  runtime.verify_reads = options.verify_reads;
  runtime.residency.read_timeout_ns = static_cast<uint64_t>(options.read_timeout_seconds) * 1'000'000'000;
  runtime.prefetch = options.prefetch;
  runtime.state_directory = options.state_directory;
  runtime.on_late_read = log_late_read;
  runtime.make_reader = std::move(make_reader);
  model.threads_asked_for = options.read_path == ReadPath::kThreads;
  LLMD_ASSIGN_OR_RETURN(model.runtime, Runtime::open(*model.gguf, runtime));
  return model;
}

Status load_model(LoadedModel& model, bool need_tokenizer, const Runtime::ProgressFn& progress) {
  raise_memlock_limit();
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(*model.gguf);
  if (tokenizer.ok()) {
    model.tokenizer = std::move(tokenizer).value();
    if (model.tokenizer->vocab_size() > model.runtime->shape().vocab)
      return operating_error("gguf_invalid", "the vocabulary has more tokens than the embedding has rows",
                             model.gguf->shards()[0].path);
  } else if (need_tokenizer) {
    return std::move(tokenizer).error();
  }
  LLMD_RETURN_IF_ERROR(model.runtime->load(progress));
  model.runtime->threads().pin_leader();
  return {};
}

void log_notes(const LoadedModel& model) {
  if (!model.memory_source.empty())
    spdlog::info("memory budget {} from {}", human_bytes(model.runtime->plan().budget_bytes), model.memory_source);
  for (const std::string& note : model.runtime->notes()) spdlog::info("{}", note);
  for (const std::string& warning : model.runtime->warnings()) spdlog::warn("{}", warning);
  for (const DiagnosisLine& line : diagnose(gather_facts(*model.runtime, model.threads_asked_for)))
    spdlog::log(line.degraded ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
}

int report(const Error& error) {
  std::string text = error.to_string(), line;
  for (char c : text) line += c == '\n' ? std::string("\n") : escape_controls(std::string_view(&c, 1));
  std::fprintf(stderr, "llmd: %s\n", line.c_str());
  return 1;
}

}  // namespace llmd
