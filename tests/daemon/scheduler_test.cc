// The scheduler on the demo model: answers alone and beside others, cancelling, waiting for KV, draining.
#include "daemon/scheduler.h"

#include <gtest/gtest.h>
#include <unistd.h>

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
  void on_text(std::string_view text, int32_t) override {
    std::lock_guard lock(mutex_);
    text_ += text;
    pieces_++;
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

 private:
  void end(std::optional<FinishReason> reason, const GenerationUsage& usage, std::optional<Error> error) {
    std::lock_guard lock(mutex_);
    reason_ = reason;
    usage_ = usage;
    error_ = std::move(error);
    ended_ = true;
    changed_.notify_all();
  }
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
    scheduler_ = std::make_unique<Scheduler>(options);
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
  std::shared_ptr<Collector> submit(GenerationRequest wanted) {
    auto sink = std::make_shared<Collector>();
    Result<uint64_t> id = scheduler_->submit(std::move(wanted), sink);
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
  std::unique_ptr<Scheduler> scheduler_;
  uint64_t id_ = 0;
};

const std::vector<std::string> kQuestions = {"What is the capital of France?", "What is the opposite of hot?",
                                             "Which day comes after Monday?",  "Who are you?",
                                             "Tell me a story about a fox.",   "What is the capital of Italy?"};

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

// One context of KV for six requests that each want most of it: they wait, are put back, and answer the same.
TEST_F(SchedulerTest, GivesTheSameAnswers_WhenKvIsShort) {
  start();
  std::vector<std::string> alone;
  auto wordy = [&](const std::string& question) {
    GenerationRequest wanted = request(question, 300);
    std::vector<int32_t> filler = scheduler_->tokenizer().encode(" the cat sat on the mat.", true, false);
    while (wanted.prompt_tokens.size() < 230)
      wanted.prompt_tokens.insert(wanted.prompt_tokens.begin() + 2, filler.begin(), filler.end());
    return wanted;
  };
  for (const std::string& question : kQuestions) {
    std::shared_ptr<Collector> sink = submit(wordy(question));
    ASSERT_TRUE(sink->wait());
    alone.push_back(sink->text_);
  }
  uint64_t page = 6 * (64 + 16) * 2 * 256;  // six layers, latent and rope key, f16
  start(page * 3, 600);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (const std::string& question : kQuestions) sinks.push_back(submit(wordy(question)));
  for (size_t i = 0; i < sinks.size(); i++) {
    ASSERT_TRUE(sinks[i]->wait());
    EXPECT_FALSE(sinks[i]->error_.has_value());
    EXPECT_EQ(sinks[i]->text_, alone[i]);
  }
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

TEST_F(SchedulerTest, TurnsAwayTooMany_AndEveryoneWhenDraining) {
  start();
  std::vector<std::shared_ptr<Collector>> sinks;
  std::optional<Error> refused;
  for (int i = 0; i < 400 && !refused; i++) {
    auto sink = std::make_shared<Collector>();
    Result<uint64_t> id = scheduler_->submit(request(kQuestions[4], 60), sink);
    if (id.ok())
      sinks.push_back(sink);
    else
      refused = id.error();
  }
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code, "queue_full");
  EXPECT_EQ(refused->kind, ErrorKind::kClient);
  scheduler_->begin_drain();
  Result<uint64_t> late = scheduler_->submit(request(kQuestions[0]), std::make_shared<Collector>());
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
