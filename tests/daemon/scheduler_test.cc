// The scheduler on the demo model: answers alone and beside others, cancelling, waiting for KV, draining.
#include "daemon/scheduler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <thread>

namespace llmd {
namespace {

using namespace std::chrono_literals;

class Collector final : public GenerationSink {
 public:
  void on_progress(int32_t processed, int32_t) override {
    std::lock_guard lock(mutex_);
    progress_ = processed;
  }
  void on_text(std::string_view text, const GeneratedToken&) override {
    std::lock_guard lock(mutex_);
    text_ += text;
    if (pieces_++ == 0) first_piece_number_ = ++events_;
    changed_.notify_all();
  }
  void on_finish(FinishReason reason, const GenerationUsage& usage) override { end(reason, usage, std::nullopt); }
  void on_error(const Error& error) override { end(std::nullopt, {}, error); }

  /// Waits for the end; false after two minutes.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 120s, [&] { return ended_; });
  }
  bool wait_for_pieces(int wanted) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 120s, [&] { return ended_ || pieces_ >= wanted; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  int pieces_ = 0;
  int32_t progress_ = 0;
  bool ended_ = false;
  std::optional<FinishReason> reason_;
  std::optional<Error> error_;
  GenerationUsage usage_;
  int first_piece_number_ = 0, end_number_ = 0;  // of the events of all collectors

 private:
  static inline std::atomic<int> events_{0};
  void end(std::optional<FinishReason> reason, const GenerationUsage& usage, std::optional<Error> error) {
    std::lock_guard lock(mutex_);
    reason_ = reason;
    usage_ = usage;
    error_ = std::move(error);
    ended_ = true;
    end_number_ = ++events_;
    changed_.notify_all();
  }
};

/// A reader that notes what it was told about sweeps.
class NotingReader final : public Reader {
 public:
  NotingReader(std::unique_ptr<Reader> reader, std::vector<uint64_t>& notes)
      : reader_(std::move(reader)), notes_(notes) {}
  void submit(std::span<Read* const> reads) override { reader_->submit(reads); }
  void cancel(std::span<Read* const> reads) override { reader_->cancel(reads); }
  void raise(std::span<Read* const> reads, ReadPriority priority) override { reader_->raise(reads, priority); }
  void set_bytes_in_flight_max(uint64_t bytes) override { reader_->set_bytes_in_flight_max(bytes); }
  uint64_t bytes_in_flight_max() const override { return reader_->bytes_in_flight_max(); }
  void set_sweep_bytes_in_flight_max(uint64_t bytes) override { notes_.push_back(bytes); }
  uint64_t now_ns() const override { return reader_->now_ns(); }
  uint64_t cpu_ns() const override { return reader_->cpu_ns(); }
  ReaderStatistics statistics() const override { return reader_->statistics(); }
  const std::string& path_name() const override { return reader_->path_name(); }
  const std::string& path_reason() const override { return reader_->path_reason(); }

 private:
  std::unique_ptr<Reader> reader_;
  std::vector<uint64_t>& notes_;
};

class SchedulerTest : public testing::Test {
 protected:
  void start(std::optional<uint64_t> kv_memory = {}, std::optional<int32_t> context = {}) {
    Options options;
    options.model = model_;
    options.memory_bytes = 1ull << 30;
    options.threads = 2;
    options.kv_memory_bytes = kv_memory;
    options.context_tokens = context;
    options.kv_store = kv_store_;
    scheduler_ = std::make_unique<Scheduler>(options, make_reader_);
    scheduler_->start();
    for (int i = 0; i < 6000 && scheduler_->status().phase == EngineStatus::Phase::kLoading; i++)
      std::this_thread::sleep_for(10ms);
    ASSERT_EQ(scheduler_->status().phase, EngineStatus::Phase::kReady) << scheduler_->status().phase_detail;
  }

  GenerationRequest request(const std::string& question, int32_t tokens_max = 40) {
    GenerationRequest wanted;
    wanted.prompt_tokens = scheduler_->tokenizer().encode("<｜User｜>" + question + "<｜Assistant｜>", true, true);
    wanted.tokens_max = tokens_max;
    wanted.sampling.temperature = 0;
    return wanted;
  }
  std::vector<std::shared_ptr<Collector>> submit_choices(GenerationRequest wanted, size_t choices) {
    std::vector<std::shared_ptr<Collector>> sinks;
    for (size_t i = 0; i < choices; i++) sinks.push_back(std::make_shared<Collector>());
    Result<uint64_t> id = scheduler_->submit(std::move(wanted), {sinks.begin(), sinks.end()});
    EXPECT_TRUE(id.ok());
    id_ = id.ok() ? *id : 0;
    return sinks;
  }
  GenerationRequest long_request(const std::string& question, size_t tokens, int32_t tokens_max = 40);
  std::shared_ptr<Collector> submit(GenerationRequest wanted) {
    auto sink = std::make_shared<Collector>();
    Result<uint64_t> id = scheduler_->submit(std::move(wanted), {sink});
    EXPECT_TRUE(id.ok()) << id.error().message;
    id_ = id.ok() ? *id : 0;
    return sink;
  }
  std::string answer(const std::string& question, int32_t tokens_max = 40) {
    std::shared_ptr<Collector> sink = submit(request(question, tokens_max));
    EXPECT_TRUE(sink->wait());
    return sink->text_;
  }

  std::string model_ = std::string(LLMD_SOURCE_DIR) + "/demo/llmd-demo.gguf";
  std::string kv_store_;
  ReaderMaker make_reader_;
  std::unique_ptr<Scheduler> scheduler_;
  uint64_t id_ = 0;
};

const std::vector<std::string> kQuestions = {"What is the capital of France?", "What is the opposite of hot?",
                                             "Which day comes after Monday?",  "Who are you?",
                                             "Tell me a story about a fox.",   "What is the capital of Italy?"};

// A prompt of at least `tokens` tokens that begins the same for everyone and ends with a question.
GenerationRequest SchedulerTest::long_request(const std::string& question, size_t tokens, int32_t tokens_max) {
  GenerationRequest wanted = request(question, tokens_max);
  std::vector<int32_t> filler = scheduler_->tokenizer().encode(" the cat sat on the mat.", true, false);
  while (wanted.prompt_tokens.size() < tokens)
    wanted.prompt_tokens.insert(wanted.prompt_tokens.begin() + 2, filler.begin(), filler.end());
  return wanted;
}

TEST_F(SchedulerTest, AnswersTheDemoQuestion) {
  start();
  std::shared_ptr<Collector> sink = submit(request(kQuestions[0]));
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->text_, "The capital of France is Paris.");
  EXPECT_EQ(sink->reason_, FinishReason::kStop);
  EXPECT_GT(sink->usage_.completion_tokens, 3);
  EXPECT_GT(sink->usage_.prompt_tokens, 3);
}

TEST_F(SchedulerTest, GivesTheSameAnswers_AloneAndTogether) {
  start();
  std::vector<std::string> alone;
  for (const std::string& question : kQuestions) alone.push_back(answer(question));
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int round = 0; round < 4; round++)
    for (const std::string& question : kQuestions) sinks.push_back(submit(request(question)));
  for (size_t i = 0; i < sinks.size(); i++) {
    ASSERT_TRUE(sinks[i]->wait());
    EXPECT_EQ(sinks[i]->text_, alone[i % alone.size()]);
  }
}

// Two contexts of KV for six requests that each want most of one: they wait, are put back, and answer the same. What
// one may use of another's is part of its answer (low bits), so the exact comparison is without.
TEST_F(SchedulerTest, GivesTheSameAnswers_WhenKvIsShort) {
  for (bool cache_prompt : {false, true}) {
    start();
    std::vector<std::string> alone;
    std::vector<std::shared_ptr<Collector>> sinks;
    auto wordy = [&](const std::string& question) {
      GenerationRequest wanted = long_request(question, 230, 300);
      wanted.cache_prompt = cache_prompt;
      return wanted;
    };
    for (const std::string& question : kQuestions) {
      std::shared_ptr<Collector> sink = submit(wordy(question));
      ASSERT_TRUE(sink->wait());
      alone.push_back(sink->text_);
    }
    uint64_t page = 6 * (64 + 16) * 2 * 256;  // six layers, latent and rope key, f16
    start(page * 4, 600);
    for (const std::string& question : kQuestions) sinks.push_back(submit(wordy(question)));
    for (size_t i = 0; i < sinks.size(); i++) {
      ASSERT_TRUE(sinks[i]->wait());
      EXPECT_FALSE(sinks[i]->error_.has_value());
      if (!cache_prompt) {
        EXPECT_EQ(sinks[i]->text_, alone[i]);
      }
    }
  }
}

TEST_F(SchedulerTest, ComputesAPromptOnce_ForWhoeverAsksAgain) {
  start();
  // Rows of a short prompt are all computed in the same form, found ones and others: the answers are the same. The last
  // row of a long one is not, when all before it are found; but then it always is the same.
  for (size_t tokens : {100, 600}) {
    GenerationRequest wanted = long_request(kQuestions[0], tokens);
    int32_t prompt = static_cast<int32_t>(wanted.prompt_tokens.size());
    std::shared_ptr<Collector> first = submit(wanted), second, third;
    ASSERT_TRUE(first->wait());
    if (tokens == 100) {
      EXPECT_EQ(first->usage_.cached_tokens, 0);
    }
    for (auto* again : {&second, &third}) {
      *again = submit(wanted);
      ASSERT_TRUE((*again)->wait());
      EXPECT_EQ((*again)->usage_.cached_tokens, prompt - 1);
      EXPECT_EQ((*again)->usage_.prompt_tokens, prompt);
    }
    EXPECT_EQ(third->text_, second->text_);
    if (tokens == 100) {
      EXPECT_EQ(second->text_, first->text_);
    }
  }
}

TEST_F(SchedulerTest, ComputesAPromptAnew_InAnotherSpaceOrWhenAsked) {
  start();
  GenerationRequest wanted = long_request(kQuestions[0], 600);
  std::shared_ptr<Collector> first = submit(wanted);
  ASSERT_TRUE(first->wait());
  wanted.cache_space = 7;  // somebody else's
  std::shared_ptr<Collector> stranger = submit(wanted);
  ASSERT_TRUE(stranger->wait());
  EXPECT_EQ(stranger->usage_.cached_tokens, 0);
  EXPECT_EQ(stranger->text_, first->text_);
  wanted.cache_space = 0;
  wanted.cache_prompt = false;
  std::shared_ptr<Collector> anew = submit(wanted);
  ASSERT_TRUE(anew->wait());
  EXPECT_EQ(anew->usage_.cached_tokens, 0);
  EXPECT_EQ(anew->text_, first->text_);
}

TEST_F(SchedulerTest, ComputesOnlyWhatIsNew_InTheNextTurn) {
  start();
  GenerationRequest wanted = long_request(kQuestions[0], 300);
  std::shared_ptr<Collector> first = submit(wanted);
  ASSERT_TRUE(first->wait());
  GenerationRequest next = wanted;
  std::vector<int32_t> answer = scheduler_->tokenizer().encode(first->text_, true, false);
  next.prompt_tokens.insert(next.prompt_tokens.end(), answer.begin(), answer.end());
  std::vector<int32_t> turn =
      scheduler_->tokenizer().encode("<｜User｜>" + kQuestions[1] + "<｜Assistant｜>", true, false);
  next.prompt_tokens.insert(next.prompt_tokens.end(), turn.begin(), turn.end());
  std::shared_ptr<Collector> second = submit(next);
  ASSERT_TRUE(second->wait());
  EXPECT_GE(second->usage_.cached_tokens, static_cast<int32_t>(wanted.prompt_tokens.size() + answer.size()) - 1);
  next.cache_prompt = false;
  std::shared_ptr<Collector> anew = submit(next);
  ASSERT_TRUE(anew->wait());
  EXPECT_EQ(second->text_, anew->text_);
}

TEST_F(SchedulerTest, ComputesAPromptOnce_WhenManyAskAtTheSameTime) {
  start();
  std::vector<std::shared_ptr<Collector>> sinks;
  for (const std::string& question : kQuestions) sinks.push_back(submit(long_request(question, 1200)));
  for (auto& sink : sinks) ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sinks[0]->usage_.cached_tokens, 0);
  for (size_t i = 1; i < sinks.size(); i++) EXPECT_GE(sinks[i]->usage_.cached_tokens, 1100);
}

// Each choice is what a request of its own gets with its seed, also where pages are short; the prompt is computed once.
TEST_F(SchedulerTest, GivesEachChoiceItsOwnAnswer_FromOnePrompt) {
  start();
  GenerationRequest wanted = long_request(kQuestions[4], 300, 150);
  wanted.sampling.temperature = 1.5f;
  wanted.sampling.seed = 40;
  wanted.cache_prompt = false;
  std::vector<std::string> alone;
  for (uint64_t i = 0; i < 5; i++) {
    GenerationRequest one = wanted;
    one.sampling.seed += i;
    std::shared_ptr<Collector> sink = submit(one);
    ASSERT_TRUE(sink->wait());
    alone.push_back(sink->text_);
  }
  EXPECT_NE(alone[0], alone[1]);
  uint64_t page = 6 * (64 + 16) * 2 * 256;  // six layers, latent and rope key, f16
  for (std::optional<uint64_t> kv : {std::optional<uint64_t>(), std::optional<uint64_t>(page * 4)}) {
    start(kv, 600);
    std::vector<std::shared_ptr<Collector>> sinks = submit_choices(wanted, 5);
    for (size_t i = 0; i < 5; i++) {
      ASSERT_TRUE(sinks[i]->wait());
      EXPECT_EQ(sinks[i]->text_, alone[i]) << i;
      EXPECT_EQ(sinks[i]->usage_.prompt_tokens, static_cast<int32_t>(wanted.prompt_tokens.size()));
    }
    BatchCounters counters = scheduler_->counters();
    EXPECT_EQ(counters.prompt_tokens, wanted.prompt_tokens.size());
    EXPECT_EQ(counters.put_back > 0, kv.has_value());
  }
}

TEST_F(SchedulerTest, EndsAllChoices_WhenCancelledOrTooLate) {
  start();
  GenerationRequest wanted = long_request(kQuestions[4], 600, 1000);
  wanted.cache_prompt = false;
  wanted.sampling.ignore_eos = true;
  for (int pieces : {0, 3}) {  // before the prompt is computed, and after
    std::vector<std::shared_ptr<Collector>> sinks = submit_choices(wanted, 4);
    EXPECT_TRUE(sinks[3]->wait_for_pieces(pieces));
    scheduler_->cancel(id_);
    for (int i = 0; i < 6000 && !scheduler_->idle(); i++) std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(scheduler_->idle());
    for (auto& sink : sinks) EXPECT_FALSE(sink->ended_);
    EXPECT_EQ(scheduler_->kv_pages().free, scheduler_->kv_pages().total);
  }
  wanted.deadline_seconds = 0.001;
  for (auto& sink : submit_choices(wanted, 4)) {
    ASSERT_TRUE(sink->wait());
    ASSERT_TRUE(sink->error_.has_value());
    EXPECT_EQ(sink->error_->code, "deadline_exceeded");
  }
}

// The pages come from disk after the restart, and from memory where there is none: the answers are the same.
TEST_F(SchedulerTest, FindsAConversationInTheStore_AfterARestart) {
  kv_store_ = testing::TempDir() + "llmd_scheduler_kv_" + std::to_string(getpid());
  std::filesystem::remove_all(kv_store_);
  start();
  GenerationRequest wanted = long_request(kQuestions[0], 700);
  int32_t prompt = static_cast<int32_t>(wanted.prompt_tokens.size());
  ASSERT_TRUE(submit(wanted)->wait());
  std::shared_ptr<Collector> remembered = submit(wanted);
  ASSERT_TRUE(remembered->wait());
  for (int i = 0; i < 1000 && (!scheduler_->idle() || scheduler_->kv_store().pending > 0); i++)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(scheduler_->kv_store().pending, 0u);
  EXPECT_GT(scheduler_->kv_store().pages_written, 2u);
  scheduler_.reset();

  start();
  std::shared_ptr<Collector> again = submit(wanted);
  ASSERT_TRUE(again->wait());
  EXPECT_EQ(again->usage_.cached_tokens, prompt - 1);
  EXPECT_EQ(again->text_, remembered->text_);
  scheduler_.reset();

  // Damaged records are computed anew.
  for (const auto& entry : std::filesystem::directory_iterator(kv_store_)) {
    std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(5000);
    file.put('x');
  }
  start();
  std::shared_ptr<Collector> anew = submit(wanted);
  ASSERT_TRUE(anew->wait());
  EXPECT_FALSE(anew->error_.has_value());
  EXPECT_EQ(anew->usage_.cached_tokens, 0);
  scheduler_.reset();
  std::filesystem::remove_all(kv_store_);
}

// With the KV of one context and a store, pages go and come back, and every prompt is computed once.
TEST_F(SchedulerTest, BringsPagesBack_WhenMemoryHoldsOneConversation) {
  kv_store_ = testing::TempDir() + "llmd_scheduler_swap_" + std::to_string(getpid());
  std::filesystem::remove_all(kv_store_);
  uint64_t page = 6 * (64 + 16) * 2 * 256;
  start(page * 4, 1024);
  std::vector<std::string> texts;
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < 3; i++) {
      GenerationRequest wanted = long_request(kQuestions[i], 700, 20);
      for (int32_t& token : wanted.prompt_tokens)
        token = token == wanted.prompt_tokens[2] ? 400 + static_cast<int32_t>(i) : token;
      int32_t prompt = static_cast<int32_t>(wanted.prompt_tokens.size());
      std::shared_ptr<Collector> sink = submit(std::move(wanted));
      ASSERT_TRUE(sink->wait());
      ASSERT_FALSE(sink->error_.has_value());
      for (int k = 0; k < 1000 && (!scheduler_->idle() || scheduler_->kv_store().pending > 0); k++)
        std::this_thread::sleep_for(10ms);
      if (round == 0) continue;
      EXPECT_EQ(sink->usage_.cached_tokens, prompt - 1);
      if (round == 1) {
        texts.push_back(sink->text_);
      } else {
        EXPECT_EQ(sink->text_, texts[i]);
      }
    }
  }
  EXPECT_GT(scheduler_->kv_store().pages_loaded, 6u);
  scheduler_.reset();
  std::filesystem::remove_all(kv_store_);
}

TEST_F(SchedulerTest, KeepsWhatACancelledRequestHasComputed) {
  start();
  GenerationRequest wanted = long_request(kQuestions[4], 600, 1000);
  std::shared_ptr<Collector> gone = submit(wanted);
  ASSERT_TRUE(gone->wait_for_pieces(2));
  scheduler_->cancel(id_);
  for (int i = 0; i < 1000 && !scheduler_->idle(); i++) std::this_thread::sleep_for(10ms);
  std::shared_ptr<Collector> again = submit(wanted);
  ASSERT_TRUE(again->wait());
  EXPECT_EQ(again->usage_.cached_tokens, static_cast<int32_t>(wanted.prompt_tokens.size()) - 1);
}

// Between two steps of those who chat, at most one layer of a prompt runs, and they end long before it does.
TEST_F(SchedulerTest, LetsChatsGoOn_WhileALongPromptIsComputed) {
  start();
  std::vector<std::shared_ptr<Collector>> chats;
  for (size_t i = 0; i < 4; i++) chats.push_back(submit(request(kQuestions[i], 12)));
  for (auto& chat : chats) ASSERT_TRUE(chat->wait_for_pieces(1));
  std::shared_ptr<Collector> prompt = submit(long_request(kQuestions[5], 1900, 4));
  ASSERT_TRUE(prompt->wait());
  for (auto& chat : chats) {
    ASSERT_TRUE(chat->wait());
    EXPECT_LT(chat->end_number_, prompt->first_piece_number_);
  }
  EXPECT_LE(scheduler_->counters().layers_between_steps, 1u);
  EXPECT_GT(scheduler_->counters().sweep_layers, 0u);
}

TEST_F(SchedulerTest, LetsASweepHaveOneMatrixInFlight_WhileOthersDecode) {
  std::vector<uint64_t> notes;
  make_reader_ = [&](const ReaderOptions& options) -> Result<std::unique_ptr<Reader>> {
    LLMD_ASSIGN_OR_RETURN(std::unique_ptr<Reader> reader, Reader::create(options));
    return std::unique_ptr<Reader>(std::make_unique<NotingReader>(std::move(reader), notes));
  };
  start();
  ASSERT_TRUE(submit(request(kQuestions[4], 1))->wait());  // nobody decodes beside this prompt
  std::shared_ptr<Collector> chat = submit(request(kQuestions[4], 8));
  ASSERT_TRUE(chat->wait_for_pieces(1));
  std::shared_ptr<Collector> prompt = submit(long_request(kQuestions[5], 1900, 4));
  ASSERT_TRUE(prompt->wait());
  scheduler_->stop();
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes.front(), UINT64_MAX);
  uint64_t least = *std::min_element(notes.begin(), notes.end());
  EXPECT_GT(least, 0u);
  EXPECT_LT(least, 100u << 10);         // the demo's matrices are small
  EXPECT_EQ(notes.back(), UINT64_MAX);  // the chat has ended before the prompt
}

TEST_F(SchedulerTest, EndsWithLength_AtTheLimitAndAtTheContextsEnd) {
  start({}, 64);
  std::shared_ptr<Collector> sink = submit(request(kQuestions[4], 3));
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->reason_, FinishReason::kLength);
  EXPECT_EQ(sink->usage_.completion_tokens, 3);
  GenerationRequest long_one = request(kQuestions[4], 1000);
  int32_t prompt = static_cast<int32_t>(long_one.prompt_tokens.size());
  sink = submit(std::move(long_one));
  ASSERT_TRUE(sink->wait());
  if (sink->reason_ == FinishReason::kLength) {
    EXPECT_EQ(prompt + sink->usage_.completion_tokens, 64);
  }
}

TEST_F(SchedulerTest, StopsAtAStopString_AndSendsNothingOfIt) {
  start();
  GenerationRequest wanted = request(kQuestions[0]);
  wanted.stops = {" is Par"};
  std::shared_ptr<Collector> sink = submit(std::move(wanted));
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->text_, "The capital of France");
  EXPECT_EQ(sink->reason_, FinishReason::kStop);
}

TEST_F(SchedulerTest, FreesItsKv_WhenCancelled) {
  start();
  std::shared_ptr<Collector> sink = submit(request(kQuestions[4], 1500));
  ASSERT_TRUE(sink->wait_for_pieces(3));
  scheduler_->cancel(id_);
  for (int i = 0; i < 1000 && !scheduler_->idle(); i++) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(scheduler_->idle());
  EXPECT_EQ(answer(kQuestions[0]), "The capital of France is Paris.");
}

// The prompts of the first two are long; the third, which came last, begins before the second has ended.
TEST_F(SchedulerTest, LetsTheLowerPriorityNumberGoFirst) {
  start();
  std::vector<std::shared_ptr<Collector>> sinks;
  for (int32_t priority : {0, 5, -5}) {
    GenerationRequest wanted = long_request(kQuestions[static_cast<size_t>(priority + 5) % 6], 1900, 2);
    wanted.prompt_tokens[1] = 300 + priority;  // nothing in common
    wanted.priority = priority;
    sinks.push_back(submit(std::move(wanted)));
  }
  for (auto& sink : sinks) ASSERT_TRUE(sink->wait());
  EXPECT_LT(sinks[2]->first_piece_number_, sinks[1]->first_piece_number_);
}

TEST_F(SchedulerTest, EndsARequestWithAnError_WhenItsDeadlineHasPassed) {
  start();
  GenerationRequest wanted = long_request(kQuestions[4], 1500, 500);
  wanted.deadline_seconds = 1e-9;
  std::shared_ptr<Collector> late = submit(std::move(wanted));
  ASSERT_TRUE(late->wait());
  ASSERT_TRUE(late->error_.has_value());
  EXPECT_EQ(late->error_->code, "deadline_exceeded");
  EXPECT_EQ(late->error_->kind, ErrorKind::kClient);
  EXPECT_EQ(answer(kQuestions[0]), "The capital of France is Paris.");
}

TEST_F(SchedulerTest, TurnsAwayTooMany_AndEveryoneWhenDraining) {
  start();
  std::vector<std::shared_ptr<Collector>> sinks;
  std::optional<Error> refused;
  for (int i = 0; i < 400 && !refused; i++) {
    auto sink = std::make_shared<Collector>();
    Result<uint64_t> id = scheduler_->submit(request(kQuestions[4], 60), {sink});
    if (id.ok())
      sinks.push_back(sink);
    else
      refused = id.error();
  }
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code, "queue_full");
  EXPECT_EQ(refused->kind, ErrorKind::kClient);
  scheduler_->begin_drain();
  Result<uint64_t> late = scheduler_->submit(request(kQuestions[0]), {std::make_shared<Collector>()});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, "shutting_down");
  scheduler_->stop();
  for (auto& sink : sinks) EXPECT_TRUE(sink->wait());
}

TEST_F(SchedulerTest, SaysWhatIsWrong_WhenThePlanDoesNotFit) {
  Options options;
  options.model = std::string(LLMD_SOURCE_DIR) + "/demo/llmd-demo.gguf";
  options.memory_bytes = 1 << 20;
  Scheduler scheduler(options);
  scheduler.start();
  for (int i = 0; i < 1000 && !scheduler.load_error(); i++) std::this_thread::sleep_for(10ms);
  ASSERT_TRUE(scheduler.load_error().has_value());
  EXPECT_EQ(scheduler.load_error()->code, "plan_does_not_fit");
  EXPECT_NE(scheduler.load_error()->message.find("expert pool"), std::string::npos);
  EXPECT_EQ(scheduler.status().phase, EngineStatus::Phase::kFailed);
}

// An infinity in a weight that every token uses.
TEST_F(SchedulerTest, EndsARequestWithAnError_WhenTheLogitsAreNotNumbers) {
  std::string damaged = testing::TempDir() + "llmd_scheduler_" + std::to_string(getpid()) + ".gguf";
  std::filesystem::copy_file(model_, damaged, std::filesystem::copy_options::overwrite_existing);
  Result<GgufModel> model = GgufModel::open(damaged);
  ASSERT_TRUE(model.ok());
  float infinity = std::numeric_limits<float>::infinity();
  std::fstream file(damaged, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(model->find_tensor("output_norm.weight")->file_offset));
  file.write(reinterpret_cast<const char*>(&infinity), sizeof infinity);
  file.close();
  model_ = damaged;
  start();
  std::shared_ptr<Collector> sink = submit(request(kQuestions[0]));
  ASSERT_TRUE(sink->wait());
  ASSERT_TRUE(sink->error_.has_value());
  EXPECT_EQ(sink->error_->code, "model_output_invalid");
  EXPECT_EQ(sink->text_, "");
  std::filesystem::remove(damaged);
}

}  // namespace
}  // namespace llmd
