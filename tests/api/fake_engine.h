// FakeEngine: an engine that does what the test says, and a tokenizer of one token per byte.
//
// submit() records a job; the test then speaks for the engine through say(), progress(), finish() and fail(), or sets
// `answer` and the engine's own thread answers every job with it. Waits are bounded and return false when they give up.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/engine.h"

namespace llmd::test {

inline constexpr std::chrono::seconds kPatience{20};

/// Bytes are tokens; 256 is BOS; "<|end|>" is the control token 257 where all of it is trusted.
class FakeTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kBos = 256, kEnd = 257;

  std::vector<int32_t> encode(std::span<const TextRun> runs, bool add_special) const override {
    std::vector<int32_t> ids;
    if (add_special) ids.push_back(kBos);
    for (const TextRun& run : runs) {
      std::string_view text = run.text;
      while (!text.empty()) {
        const bool control = run.trusted && text.starts_with("<|end|>");
        ids.push_back(control ? kEnd : static_cast<unsigned char>(text[0]));
        text.remove_prefix(control ? 7 : 1);
      }
    }
    return ids;
  }
  std::string_view token_bytes(int32_t id, bool special) const override {
    if (id == kBos || id == kEnd) return !special ? "" : id == kBos ? "<s>" : "<|end|>";
    return std::string_view(bytes_).substr(static_cast<size_t>(id), 1);
  }
  bool is_control(int32_t id) const override { return id >= kBos; }
  bool is_end_of_generation(int32_t id) const override { return id == kEnd; }
  int32_t vocab_size() const override { return 258; }
  int32_t bos() const override { return kBos; }
  int32_t eos() const override { return kEnd; }
  bool add_bos() const override { return true; }
  std::string bos_text() const override { return "<s>"; }
  std::string eos_text() const override { return "<|end|>"; }
  const std::string& pre() const override { return pre_; }
  int32_t find(std::string_view) const override { return -1; }
  uint64_t memory_bytes() const override { return 0; }
  int32_t longest_token_bytes() const override { return 7; }

 private:
  static std::string all_bytes() {
    std::string out;
    for (int byte = 0; byte < 256; byte++) out.push_back(static_cast<char>(byte));
    return out;
  }
  std::string pre_ = "fake", bytes_ = all_bytes();
};

class FakeEngine final : public Engine {
 public:
  struct Job {
    uint64_t id = 0;
    GenerationRequest request;
    std::vector<std::shared_ptr<GenerationSink>> sinks;  // one for each choice
    bool cancelled = false;
    GenerationUsage usage() const {
      GenerationUsage usage;
      usage.prompt_tokens = static_cast<int32_t>(request.prompt_tokens.size());
      usage.completion_tokens = 3;
      usage.cached_tokens = 1;
      return usage;
    }
  };

  FakeEngine() {
    info_.model_id = "fake-model";
    info_.context_tokens = 4096;
    info_.created_unix = 1700000000;
    status_.phase = EngineStatus::Phase::kReady;
    thread_ = std::thread([this] { run(); });
  }
  ~FakeEngine() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  EngineStatus status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  const EngineInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }

  Result<uint64_t> submit(GenerationRequest request, std::vector<std::shared_ptr<GenerationSink>> sinks) override {
    const std::lock_guard lock(mutex_);
    if (refusal_) return *refusal_;
    const uint64_t id = ++last_id_;
    jobs_[id] = Job{id, std::move(request), std::move(sinks), false};
    if (!answer_.empty()) queue_.push_back(id);
    changed_.notify_all();
    return id;
  }
  void cancel(uint64_t id) override {
    const std::lock_guard lock(mutex_);
    const auto it = jobs_.find(id);
    if (it == jobs_.end()) return;
    it->second.cancelled = true;
    it->second.sinks.clear();
    changed_.notify_all();
  }

  // ---- what the test does ----

  EngineInfo& mutable_info() { return info_; }
  void set_status(EngineStatus status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
  }
  void refuse(Error error) {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(error);
  }
  /// Every later job is answered with these pieces of text.
  void answer(std::vector<std::string> pieces) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(pieces);
  }

  bool wait_submitted(uint64_t id) {
    return wait([&] { return last_id_ >= id; });
  }
  bool wait_cancelled(uint64_t id) {
    return wait([&] { return jobs_.count(id) != 0 && jobs_[id].cancelled; });
  }
  bool cancelled(uint64_t id) {
    const std::lock_guard lock(mutex_);
    return jobs_[id].cancelled;
  }
  GenerationRequest request(uint64_t id) {
    const std::lock_guard lock(mutex_);
    return jobs_[id].request;
  }
  uint64_t submitted() {
    const std::lock_guard lock(mutex_);
    return last_id_;
  }

  void progress(uint64_t id, int32_t processed, int32_t total) {
    if (const auto sink = sink_of(id)) sink->on_progress(processed, total);
  }
  void say(uint64_t id, std::string_view text) {
    if (const auto sink = sink_of(id)) sink->on_text(text, {1, text.size(), {}});
  }
  void say(uint64_t id, std::string_view text, const GeneratedToken& token) {
    if (const auto sink = sink_of(id)) sink->on_text(text, token);
  }
  void say_choice(uint64_t id, size_t choice, std::string_view text) {
    if (const auto sink = sink_of(id, choice)) sink->on_text(text, {1, text.size(), {}});
  }
  /// Ends one choice.
  void finish(uint64_t id, FinishReason reason = FinishReason::kStop, size_t choice = 0) {
    const auto sink = sink_of(id, choice);
    if (!sink) return;
    sink->on_finish(reason, usage_of(id));
    forget(id, choice);
  }
  void fail(uint64_t id, const Error& error) {
    for (size_t choice = 0; choice < kChoicesMax; choice++) {
      if (const auto sink = sink_of(id, choice)) sink->on_error(error);
      forget(id, choice);
    }
  }

 private:
  template <typename Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }
  std::shared_ptr<GenerationSink> sink_of(uint64_t id, size_t choice = 0) {
    const std::lock_guard lock(mutex_);
    const auto& sinks = jobs_[id].sinks;
    return choice < sinks.size() ? sinks[choice] : nullptr;
  }
  GenerationUsage usage_of(uint64_t id) {
    const std::lock_guard lock(mutex_);
    return jobs_[id].usage();
  }
  void forget(uint64_t id, size_t choice = 0) {
    const std::lock_guard lock(mutex_);
    auto& sinks = jobs_[id].sinks;
    if (choice < sinks.size()) sinks[choice].reset();
  }
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
      if (ending_) return;
      const uint64_t id = queue_.front();
      queue_.pop_front();
      const std::vector<std::string> pieces = answer_;
      lock.unlock();
      for (size_t choice = 0; choice < kChoicesMax; choice++) {
        for (const std::string& piece : pieces) say_choice(id, choice, piece);
        finish(id, FinishReason::kStop, choice);
      }
      lock.lock();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  EngineStatus status_;
  EngineInfo info_;
  FakeTokenizer tokenizer_;
  std::optional<Error> refusal_;
  std::vector<std::string> answer_;
  std::map<uint64_t, Job> jobs_;
  std::deque<uint64_t> queue_;
  uint64_t last_id_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace llmd::test
