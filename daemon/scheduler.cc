#include "daemon/scheduler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "daemon/log.h"
#include "daemon/serve_limits.h"
#include "io/process_memory.h"

namespace llmd {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr double kHeatSaveSeconds = 600;
constexpr double kProgressSeconds = 1;  // between reports of a chunk's progress

Error shutting_down() {
  return operating_error("shutting_down", "the server is shutting down");
}

}  // namespace

struct Scheduler::Request {
  Request(uint64_t number, GenerationRequest wanted, std::shared_ptr<GenerationSink> to)
      : id(number), request(std::move(wanted)), sink(std::move(to)), stops(request.stops) {}

  uint64_t id;
  GenerationRequest request;
  std::shared_ptr<GenerationSink> sink;
  StopMatcher stops;
  Detokenizer detokenizer;
  std::optional<Sampler> sampler;  // set at admission, as the next two
  std::unique_ptr<KvSequence> sequence;
  std::vector<int32_t> tokens;  // the prompt, then what was generated; all but the last have been accepted
  int32_t computed = 0;         // rows of `tokens` whose KV is in place
  bool cancelled = false, ended = false;
  std::optional<int32_t> sampled;  // by the step at hand
  double admitted_at = 0, first_token_at = 0;

  int32_t prompt() const { return static_cast<int32_t>(request.prompt_tokens.size()); }
  int32_t generated() const { return static_cast<int32_t>(tokens.size()) - prompt(); }
  int32_t uncomputed() const { return static_cast<int32_t>(tokens.size()) - computed; }
  /// Decoding: only the newest token has no row yet. A prompt of one token is decoded like any other.
  bool decoding() const { return uncomputed() == 1; }
  /// A row's form follows from the request alone: prompt rows by the prompt's length, generated rows absorbed.
  AttentionForm form(int32_t position) const {
    return position < prompt() && prompt() >= kExpandedPromptTokens ? AttentionForm::kExpanded
                                                                    : AttentionForm::kAbsorbed;
  }
};

/// Takes each row's logits to its request's sampler.
class Scheduler::RowSink final : public LogitsSink {
 public:
  RowSink(std::span<const Row> rows, std::span<Request* const> requests) : rows_(rows), requests_(requests) {}

  void on_logits(size_t row, std::span<const float> logits) override {
    for (Request* request : requests_) {
      if (request->sequence.get() != rows_[row].sequence) continue;
      request->sampled = request->sampler->sample(logits);
      return;
    }
  }

 private:
  std::span<const Row> rows_;
  std::span<Request* const> requests_;
};

Scheduler::Scheduler(const Options& options) : options_(options) {
  status_.phase_detail = "starting";
  cancelled_.reserve(kQueueMax + kRunningMax);
}

Scheduler::~Scheduler() {
  stop();
}

void Scheduler::start() {
  thread_ = std::thread([this] { run(); });
}

std::optional<Error> Scheduler::load_error() const {
  std::lock_guard lock(mutex_);
  return load_error_;
}

EngineStatus Scheduler::status() const {
  std::lock_guard lock(mutex_);
  EngineStatus status = status_;
  status.requests_running = static_cast<int32_t>(running_count_);
  status.requests_waiting = static_cast<int32_t>(waiting_.size());
  return status;
}

Result<uint64_t> Scheduler::submit(GenerationRequest request, std::shared_ptr<GenerationSink> sink) {
  std::lock_guard lock(mutex_);
  if (draining_ || stopping_) return shutting_down();
  if (status_.phase != EngineStatus::Phase::kReady)
    return operating_error("model_loading", "the model is still being loaded: " + status_.phase_detail);
  if (waiting_.size() >= kQueueMax) return client_error("queue_full", "too many requests are waiting; try again later");
  uint64_t id = next_id_++;
  waiting_.push_back(std::make_unique<Request>(id, std::move(request), std::move(sink)));
  wake_.notify_one();
  return id;
}

void Scheduler::cancel(uint64_t id) {
  std::lock_guard lock(mutex_);
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    if ((*at)->id != id) continue;
    waiting_.erase(at);
    return;
  }
  if (std::find(cancelled_.begin(), cancelled_.end(), id) == cancelled_.end() &&
      cancelled_.size() < kQueueMax + kRunningMax)
    cancelled_.push_back(id);
  wake_.notify_one();
}

void Scheduler::begin_drain() {
  std::deque<std::unique_ptr<Request>> turned_away;
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
    if (status_.phase == EngineStatus::Phase::kReady) status_.phase = EngineStatus::Phase::kDraining;
    turned_away.swap(waiting_);
  }
  for (const std::unique_ptr<Request>& request : turned_away) request->sink->on_error(shutting_down());
}

bool Scheduler::idle() const {
  std::lock_guard lock(mutex_);
  return running_count_ == 0 && waiting_.empty();
}

void Scheduler::stop() {
  {
    std::lock_guard lock(mutex_);
    draining_ = stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// ---------------------------------------------------------------- the compute thread

void Scheduler::set_phase(EngineStatus::Phase phase, std::string detail, double progress) {
  std::lock_guard lock(mutex_);
  status_.phase = draining_ && phase == EngineStatus::Phase::kReady ? EngineStatus::Phase::kDraining : phase;
  status_.phase_detail = std::move(detail);
  status_.progress = progress;
}

Status Scheduler::load() {
  set_phase(EngineStatus::Phase::kLoading, "reading metadata", 0);
  LLMD_ASSIGN_OR_RETURN(model_, open_model(options_, kHttpBudgetBytes));
  spdlog::info("memory plan for {}", options_.model);
  log_lines(plan_table(model_.runtime->plan()));
  LLMD_RETURN_IF_ERROR(load_model(model_, true, [this](const char* phase, uint64_t done, uint64_t total) {
    set_phase(EngineStatus::Phase::kLoading, phase,
              total ? static_cast<double>(done) / static_cast<double>(total) : 1.0);
  }));
  log_notes(model_);
  TextLock lock = lock_program_text();
  if (!lock.warning.empty()) spdlog::warn("{}", lock.warning);

  const std::string* name = model_.gguf->get_string("general.name");
  info_.model_id = !options_.alias.empty()  ? options_.alias
                   : name && !name->empty() ? *name
                                            : std::filesystem::path(options_.model).stem().string();
  info_.context_tokens = model_.runtime->plan().context_tokens;
  info_.created_unix =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (const std::string* source = model_.gguf->get_string("tokenizer.chat_template")) info_.chat_template = *source;
  if (!options_.chat_template_file.empty()) {
    std::ifstream file(options_.chat_template_file, std::ios::binary);
    info_.chat_template.assign(std::istreambuf_iterator<char>(file), {});
    if (!file) return operating_error("file_open", "cannot read the chat template", options_.chat_template_file);
  }
  size_t rows = static_cast<size_t>(model_.runtime->step().rows_max());
  rows_.reserve(rows);
  row_errors_.reserve(rows);
  sweep_rows_.reserve(rows);
  sweep_errors_.reserve(rows);
  batch_.reserve(kRunningMax);
  std::lock_guard guard(mutex_);
  status_.read_path = model_.runtime->reader().path_name();
  status_.read_path_reason = model_.runtime->reader().path_reason();
  return {};
}

void Scheduler::run() {
  Status loaded = load();
  if (!loaded.ok()) {
    set_phase(EngineStatus::Phase::kFailed, loaded.error().message, 0);
    std::lock_guard lock(mutex_);
    load_error_ = loaded.error();
    return;
  }
  set_phase(EngineStatus::Phase::kReady, "", 1);
  heat_saved_at_ = now_seconds();
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, care_pause_, [&] { return stopping_ || !waiting_.empty() || !running_.empty(); });
      if (stopping_) break;
    }
    care_for_pool();
    take_cancelled();
    admit();
    decode_step();
    remove_ended();
    prefill_layer();
    remove_ended();
  }
  save_heat();
  if (swept_ != nullptr) drop_sweep_of(*swept_);
  for (const std::unique_ptr<Request>& request : running_)
    if (!request->ended) request->sink->on_error(shutting_down());
  running_.clear();
  std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Request>& request : waiting_) request->sink->on_error(shutting_down());
  waiting_.clear();
  running_count_ = 0;
}

// The pool is warmed and healed, what was learnt is saved in time, and /health knows of experts that cannot be read.
void Scheduler::care_for_pool() {
  care_pause_ =
      model_.runtime->maintain(running_.empty()) ? std::chrono::milliseconds(20) : std::chrono::milliseconds(1000);
  if (now_seconds() - heat_saved_at_ > kHeatSaveSeconds) save_heat();
  const Residency* residency = model_.runtime->residency();
  size_t bad = residency ? residency->bad().size() : 0;
  std::lock_guard lock(mutex_);
  if (bad == 0 && !status_.degraded) return;
  status_.degraded = bad > 0 || output_invalid_;
  if (bad == 0) {
    status_.degraded_reason = output_invalid_ ? "the model's output was not a number" : "";
    return;
  }
  const Error& error = residency->bad().front().error;  // /health is for everyone: the file's name, not its path
  status_.degraded_reason = std::to_string(bad) + " experts cannot be read; the first: " + error.message + " (" +
                            std::filesystem::path(error.file).filename().string() + " at byte " +
                            std::to_string(error.offset.value_or(0)) + ")";
}

void Scheduler::save_heat() {
  heat_saved_at_ = now_seconds();
  Status saved = model_.runtime->save_heat();
  if (!saved.ok()) spdlog::warn("{}", saved.error().to_string());
}

// Requests whose client left are dropped between two steps, with their KV.
void Scheduler::take_cancelled() {
  {
    std::lock_guard lock(mutex_);
    if (cancelled_.empty()) return;
    for (const std::unique_ptr<Request>& request : running_)
      if (std::find(cancelled_.begin(), cancelled_.end(), request->id) != cancelled_.end()) request->ended = true;
    cancelled_.clear();
  }
  remove_ended();
}

void Scheduler::remove_ended() {
  if (swept_ != nullptr && swept_->ended) drop_sweep_of(*swept_);
  running_.remove_if([](const std::unique_ptr<Request>& request) { return request->ended; });
  std::lock_guard lock(mutex_);
  running_count_ = running_.size();
}

// Takes waiting requests while there are KV pages for their prompts.
void Scheduler::admit() {
  std::lock_guard lock(mutex_);
  while (!waiting_.empty() && running_.size() < kRunningMax) {
    Request& request = *waiting_.front();
    if (!request.sequence) {
      request.sequence = std::make_unique<KvSequence>(model_.runtime->kv(), info_.context_tokens);
      request.sampler.emplace(request.request.sampling, model_.runtime->shape().vocab);
      request.tokens = request.request.prompt_tokens;
      request.admitted_at = now_seconds();
    }
    // A prompt that does not fit now waits, unless nothing runs that could make room.
    if (!request.sequence->extend(static_cast<int32_t>(request.tokens.size())).ok() && !running_.empty()) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  running_count_ = running_.size();
}

// Pages for `tokens` tokens of a request, taken from younger requests if need be, so that the oldest always goes on.
// False: the request must wait.
bool Scheduler::make_room(Request& request, int32_t tokens) {
  while (!request.sequence->extend(tokens).ok()) {
    Request* youngest = nullptr;
    for (const std::unique_ptr<Request>& other : running_)
      if (other->id > request.id && !other->ended && other->sequence->length() > 0 &&
          (youngest == nullptr || other->id > youngest->id))
        youngest = other.get();
    if (youngest == nullptr) return false;
    put_back(*youngest);
  }
  return true;
}

// Drops what was computed; the tokens stay and are computed again when there is room.
void Scheduler::put_back(Request& request) {
  spdlog::info("request {} is put back: no KV memory is left (--kv-memory)", request.id);
  drop_sweep_of(request);
  request.sequence->truncate(0);
  request.computed = 0;
}

void Scheduler::decode_step() {
  batch_.clear();
  rows_.clear();
  for (const std::unique_ptr<Request>& entry : running_) {
    Request& request = *entry;
    if (request.ended || !request.decoding() || static_cast<int32_t>(batch_.size()) == kDecodeRowsMax) continue;
    int32_t position = request.computed;
    if (!make_room(request, position + 1)) continue;
    batch_.push_back(&request);
    rows_.push_back({request.sequence.get(), position, request.tokens.back(), request.form(position), true});
  }
  // Making room may have put back one that was already chosen.
  for (size_t i = batch_.size(); i > 0; i--) {
    if (batch_[i - 1]->sequence->length() > rows_[i - 1].position) continue;
    batch_.erase(batch_.begin() + static_cast<std::ptrdiff_t>(i - 1));
    rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  if (batch_.empty()) return;
  // Those served move to the end, so that more than 16 take turns.
  for (Request* request : batch_) {
    auto at = std::find_if(running_.begin(), running_.end(), [&](const auto& entry) { return entry.get() == request; });
    running_.splice(running_.end(), running_, at);
  }
  step(batch_);
}

// One layer of the chunk that is being swept, or of the next prompt's next chunk.
void Scheduler::prefill_layer() {
  if (swept_ == nullptr && !begin_chunk()) return;
  Step& step = model_.runtime->step();
  bool more = step.sweep_layer();
  if (!more) return end_chunk();
  if (now_seconds() - sweep_reported_at_ < kProgressSeconds) return;
  sweep_reported_at_ = now_seconds();
  int64_t rows = static_cast<int64_t>(sweep_rows_.size());
  int64_t done = rows * step.sweep_layers() / model_.runtime->shape().layers;
  if (swept_->generated() == 0)
    swept_->sink->on_progress(swept_->computed + static_cast<int32_t>(done), swept_->prompt());
}

// Prompts take turns, chunk by chunk.
bool Scheduler::begin_chunk() {
  auto next = std::find_if(running_.begin(), running_.end(),
                           [](const auto& entry) { return !entry->ended && !entry->decoding(); });
  if (next == running_.end()) return false;
  running_.splice(running_.end(), running_, next);
  Request& request = **next;
  int32_t total = static_cast<int32_t>(request.tokens.size());
  if (!make_room(request, total)) return false;
  int32_t end = std::min(total, request.computed + model_.runtime->plan().prefill_chunk);
  sweep_rows_.clear();
  for (int32_t p = request.computed; p < end; p++)
    sweep_rows_.push_back(
        {request.sequence.get(), p, request.tokens[static_cast<size_t>(p)], request.form(p), p + 1 == total});
  sweep_errors_.assign(sweep_rows_.size(), std::nullopt);
  model_.runtime->step().begin_sweep(sweep_rows_, sweep_errors_);
  swept_ = &request;
  sweep_reported_at_ = now_seconds();
  return true;
}

void Scheduler::end_chunk() {
  Request* request = swept_;
  swept_ = nullptr;
  request->sampled.reset();
  RowSink sink(sweep_rows_, {&request, 1});
  model_.runtime->step().end_sweep(sink);
  hand_out(sweep_rows_, sweep_errors_, {&request, 1});
  if (!request->ended && request->generated() == 0) request->sink->on_progress(request->computed, request->prompt());
}

void Scheduler::drop_sweep_of(const Request& request) {
  if (swept_ != &request) return;
  model_.runtime->step().drop_sweep();
  swept_ = nullptr;
}

// Runs rows_, which belong to `requests`.
void Scheduler::step(std::span<Request* const> requests) {
  row_errors_.assign(rows_.size(), std::nullopt);
  RowSink sink(rows_, requests);
  for (Request* request : requests) request->sampled.reset();
  model_.runtime->step().run(rows_, sink, row_errors_);
  hand_out(rows_, row_errors_, requests);
}

// Hands out what came of rows that belong to `requests`.
void Scheduler::hand_out(std::span<const Row> rows, std::span<const std::optional<Error>> errors,
                         std::span<Request* const> requests) {
  for (Request* request : requests) {
    const Error* error = nullptr;
    for (size_t r = 0; r < rows.size(); r++) {
      if (rows[r].sequence != request->sequence.get()) continue;
      request->computed = rows[r].position + 1;
      if (errors[r] && error == nullptr) error = &*errors[r];
    }
    if (error != nullptr) {
      fail(*request, *error);
    } else if (request->sampled) {
      accept_token(*request, *request->sampled);
    }
  }
}

void Scheduler::accept_token(Request& request, int32_t token) {
  if (request.generated() == 0) request.first_token_at = now_seconds();
  if (model_.tokenizer->is_end_of_generation(token)) {
    request.tokens.push_back(token);
    finish(request, FinishReason::kStop);
    return;
  }
  request.tokens.push_back(token);
  std::string text = request.stops.add(request.detokenizer.add(model_.tokenizer->token_bytes(token)));
  request.sink->on_text(text, token);
  if (request.stops.stopped())
    finish(request, FinishReason::kStop);
  else if (request.generated() >= request.request.tokens_max ||
           static_cast<int32_t>(request.tokens.size()) >= info_.context_tokens)
    finish(request, FinishReason::kLength);
}

void Scheduler::finish(Request& request, FinishReason reason) {
  request.detokenizer.finish();
  if (!request.stops.stopped()) {
    std::string held = request.stops.finish();
    if (!held.empty()) request.sink->on_text(held, -1);
  }
  GenerationUsage usage;
  usage.prompt_tokens = request.prompt();
  usage.completion_tokens = request.generated();
  usage.prefill_seconds = request.first_token_at - request.admitted_at;
  usage.decode_seconds = now_seconds() - request.first_token_at;
  request.ended = true;
  request.sink->on_finish(reason, usage);
}

void Scheduler::fail(Request& request, const Error& error) {
  spdlog::error("request {}: {}", request.id, error.to_string());
  if (error.code == "model_output_invalid") {
    std::lock_guard lock(mutex_);
    status_.degraded = output_invalid_ = true;
  }
  request.ended = true;
  request.sink->on_error(error);
}

}  // namespace llmd
