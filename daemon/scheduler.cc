#include "daemon/scheduler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "daemon/chat_template_file.h"
#include "daemon/log.h"
#include "daemon/sampling_defaults.h"
#include "daemon/serve_limits.h"
#include "io/process_memory.h"
#include "model/heat_file.h"
#include "model/kernels/kernels.h"

namespace llmd {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr double kHeatSaveSeconds = 600;
constexpr uint64_t kStoreDrainNs = 10'000'000'000;

Error shutting_down() {
  return operating_error("shutting_down", "the server is shutting down");
}

}  // namespace

Scheduler::Scheduler(const Options& options, ReaderMaker make_reader)
    : options_(options), make_reader_(std::move(make_reader)) {
  status_.phase_detail = "starting";
  cancelled_.reserve(kQueueMax + Batcher::kRunningMax);
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

BatchCounters Scheduler::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

KvPages Scheduler::kv_pages() const {
  std::lock_guard lock(mutex_);
  return kv_pages_;
}

KvStoreStatistics Scheduler::kv_store() const {
  std::lock_guard lock(mutex_);
  return kv_store_;
}

Result<uint64_t> Scheduler::submit(GenerationRequest request, std::vector<std::shared_ptr<GenerationSink>> sinks) {
  std::lock_guard lock(mutex_);
  if (draining_ || stopping_) return shutting_down();
  if (status_.phase != EngineStatus::Phase::kReady)
    return operating_error("model_loading", "the model is still being loaded: " + status_.phase_detail);
  if (waiting_.size() >= kQueueMax) return client_error("queue_full", "too many requests are waiting; try again later");
  double now = now_seconds();
  uint64_t id = next_id_;
  next_id_ += sinks.size();
  auto first = std::make_unique<Request>(id, std::move(request), std::move(sinks.front()), now);
  for (size_t i = 1; i < sinks.size(); i++) {
    first->others.push_back(std::make_unique<Request>(id + i, first->request, std::move(sinks[i]), now));
    first->others.back()->generation = id;
    first->others.back()->request.sampling.seed += i;
  }
  waiting_.push_back(std::move(first));
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
      cancelled_.size() < kQueueMax + Batcher::kRunningMax)
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
  for (const std::unique_ptr<Request>& request : turned_away) request->end_with(shutting_down());
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
  std::string given_template;
  if (!options_.chat_template_file.empty()) {
    LLMD_ASSIGN_OR_RETURN(given_template, read_chat_template(options_.chat_template_file));
  }
  uint64_t store_bytes = options_.kv_store.empty() ? 0 : kStoreBudgetBytes;
  LLMD_ASSIGN_OR_RETURN(model_, open_model(options_, kHttpBudgetBytes + store_bytes, make_reader_));
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
  info_.model_id = !options_.aliases.empty() ? options_.aliases.front()
                   : name && !name->empty()  ? *name
                                             : std::filesystem::path(options_.model).stem().string();
  info_.context_tokens = model_.runtime->plan().context_tokens;
  std::vector<std::string> warnings;
  info_.sampling = sampling_defaults(options_, *model_.gguf, warnings);
  for (const std::string& warning : warnings) spdlog::warn("{}", warning);
  info_.created_unix =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (const std::string* source = model_.gguf->get_string("tokenizer.chat_template")) info_.chat_template = *source;
  if (!given_template.empty()) info_.chat_template = std::move(given_template);
  LLMD_RETURN_IF_ERROR(open_store());
  batcher_ = std::make_unique<Batcher>(model_, store_.get());
  std::lock_guard guard(mutex_);
  status_.read_path = model_.runtime->reader().path_name();
  status_.read_path_reason = model_.runtime->reader().path_reason();
  return {};
}

// What decides about the bytes of a KV row is part of the store's identity: another model, KV type or arithmetic finds
// nothing there.
Status Scheduler::open_store() {
  if (options_.kv_store.empty()) return {};
  KvStoreOptions wanted;
  wanted.directory = options_.kv_store;
  wanted.bytes_max = options_.kv_store_bytes;
  wanted.records_max = kStoreRecordsMax;
  wanted.model = model_identity(*model_.gguf);
  wanted.label = info_.model_id;
  wanted.identity = "model " + std::to_string(wanted.model) + ", KV type " +
                    std::to_string(static_cast<int>(model_.runtime->kv_type())) + ", kernels " +
                    std::string(kernels().numerics) + ", version " + std::to_string(kNumericsVersion);
  for (const auto& [key, value] : options_.override_kv) wanted.identity += ", " + key + "=" + value;
  wanted.log = [](const std::string& line) { spdlog::warn("{}", line); };
  wanted.on_load_finished = [this] { wake_.notify_one(); };
  LLMD_ASSIGN_OR_RETURN(store_, KvStore::open(std::move(wanted), model_.runtime->kv(), model_.runtime->reader()));
  KvStoreStatistics found = store_->statistics();
  spdlog::info("KV store: {} records, {}, in {}", found.records, human_bytes(found.bytes), options_.kv_store);
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
      wake_.wait_for(lock, care_pause_, [&] { return stopping_ || !waiting_.empty() || batcher_->busy(); });
      if (stopping_) break;
    }
    care_for_pool();
    take_cancelled();
    admit();
    batcher_->turn();
    publish_counters();
  }
  save_heat();
  batcher_->end_all(shutting_down());
  if (store_ != nullptr && !store_->drain(kStoreDrainNs))
    spdlog::warn("not all contexts could be kept in the KV store");
  std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Request>& request : waiting_) request->end_with(shutting_down());
  waiting_.clear();
  running_count_ = 0;
}

// The pool is warmed and healed, what was learnt is saved in time, and /health knows of experts that cannot be read.
void Scheduler::care_for_pool() {
  bool more = model_.runtime->maintain(batcher_->running() == 0);
  if (store_ != nullptr) more = store_->poll() || more;
  care_pause_ = std::chrono::milliseconds(more || batcher_->running() > 0 ? 20 : 1000);
  if (now_seconds() - heat_saved_at_ > kHeatSaveSeconds) save_heat();
  const Residency* residency = model_.runtime->residency();
  size_t bad = residency ? residency->bad().size() : 0;
  bool output_invalid = batcher_->output_invalid();  // for good: what can heal is the drive
  std::lock_guard lock(mutex_);
  status_.degraded = bad > 0 || output_invalid;
  if (bad == 0) {
    status_.degraded_reason = output_invalid ? "the model's output was not a number" : "";
    return;
  }
  const Error& error = residency->bad().front().error;  // /health is for everyone: the file's name, not its path
  status_.degraded_reason = std::to_string(bad) + " experts cannot be read; the first: " + error.message + " (" +
                            std::filesystem::path(error.file).filename().string() + " at byte " +
                            std::to_string(error.offset.value_or(0)) + ")";
}

void Scheduler::publish_counters() {
  double now = now_seconds();
  std::optional<KvPages> pages;
  if (batcher_->running() == 0 || now - pages_counted_at_ > 1) {
    pages = batcher_->kv_pages();
    pages_counted_at_ = now;
  }
  std::lock_guard lock(mutex_);
  running_count_ = batcher_->running();
  counters_ = batcher_->counters();
  if (pages) kv_pages_ = *pages;
  if (pages && store_ != nullptr) kv_store_ = store_->statistics();
}

void Scheduler::save_heat() {
  heat_saved_at_ = now_seconds();
  Status saved = model_.runtime->save_heat();
  if (!saved.ok()) spdlog::warn("{}", saved.error().to_string());
}

// Requests whose client left are dropped between two steps, with their KV.
void Scheduler::take_cancelled() {
  std::lock_guard lock(mutex_);
  if (cancelled_.empty()) return;
  batcher_->cancel(cancelled_);
  cancelled_.clear();
}

// Those that waited too long are told, of the others the lowest ranks run.
void Scheduler::admit() {
  double now = now_seconds();
  std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](const std::unique_ptr<Request>& request) {
    if (!request->overdue(now)) return false;
    request->end_with(deadline_exceeded(*request));
    return true;
  });
  while (!waiting_.empty()) {
    auto first = std::min_element(waiting_.begin(), waiting_.end(), [&](const auto& a, const auto& b) {
      return std::pair(a->rank(now), a->id) < std::pair(b->rank(now), b->id);
    });
    if (!batcher_->admit(*first)) break;
    waiting_.erase(first);
  }
  running_count_ = batcher_->running();
}

}  // namespace llmd
