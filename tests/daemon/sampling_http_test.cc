// Sampling through the whole daemon: HTTP requests to the demo model.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/listener.h"
#include "daemon/scheduler.h"
#include "tests/api/raw_client.h"

namespace llmd::test {
namespace {

using nlohmann::json;

class SamplingHttpTest : public testing::Test {
 protected:
  void start(const Options& more = {}) {
    spdlog::set_level(spdlog::level::off);
    Options options = more;
    options.model = std::string(LLMD_SOURCE_DIR) + "/demo/llmd-demo.gguf";
    options.memory_bytes = 1ull << 30;
    options.threads = 2;
    scheduler_ = std::make_unique<Scheduler>(options);
    scheduler_->start();
    for (int i = 0; i < 6000 && scheduler_->status().phase == EngineStatus::Phase::kLoading; i++)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(scheduler_->status().phase, EngineStatus::Phase::kReady);
    HttpOptions http;
    http.listen = {"127.0.0.1:0"};
    auto server = HttpServer::start(http, *scheduler_);
    ASSERT_TRUE(server.ok()) << server.error().to_string();
    server_ = std::move(server).value();
  }
  ~SamplingHttpTest() override {
    if (scheduler_) scheduler_->stop();
    server_.reset();
  }
  std::string post(const std::string& more) {
    const std::string body =
        R"({"messages":[{"role":"user","content":"Tell me a story about a fox."}],"max_tokens":20,)" + more + "}";
    RawClient client(server_->port());
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    const Response response = client.read_response();
    EXPECT_EQ(response.status, 200) << response.body;
    return response.body;
  }
  json choice(const std::string& more) { return json::parse(post(more))["choices"][0]; }
  std::string text(const std::string& more) { return choice(more)["message"]["content"].get<std::string>(); }

  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<HttpServer> server_;
};

const std::string kFree = R"("temperature":2,"top_k":0,"top_p":1,"min_p":0,)";

TEST_F(SamplingHttpTest, GivesTheSameText_ForTheSameSeedOnly) {
  start();
  const std::string first = text(kFree + R"("seed":1)");
  EXPECT_EQ(text(kFree + R"("seed":1)"), first);
  EXPECT_EQ(text(kFree + R"("seed":1,"cache_prompt":false)"), first);
  EXPECT_NE(text(kFree + R"("seed":2)"), first);
  EXPECT_NE(text(kFree + R"("top_p":1)"), text(kFree + R"("top_p":1)"));  // a seed of its own each time
}

TEST_F(SamplingHttpTest, ForcesAToken_ByABiasOf100) {
  start();
  const Tokenizer& tokenizer = scheduler_->tokenizer();
  const std::vector<int32_t> ids = tokenizer.encode(" the", false, false);
  const std::string id = std::to_string(ids[0]), piece(tokenizer.token_bytes(ids[0]));
  std::string forced;
  for (int i = 0; i < 20; i++) forced += piece;
  EXPECT_EQ(text(R"("logit_bias":{")" + id + R"(":100})"), forced);
  EXPECT_EQ(text(R"("logit_bias":[[)" + id + R"(,100]],"temperature":0)"), forced);
  const json stopped = choice(R"("logit_bias":{")" + id + R"(":100},"stop_token_ids":[)" + id + "]");
  EXPECT_EQ(stopped["message"]["content"], "");
  EXPECT_EQ(stopped["finish_reason"], "stop");
}

TEST_F(SamplingHttpTest, GoesOnToMaxTokens_WhenEndTokensAreIgnoredOrHeldBack) {
  start();
  const int32_t eos = scheduler_->tokenizer().eos();
  const std::string bias = R"("logit_bias":{")" + std::to_string(eos) + R"(":100})";
  const json at_once = json::parse(post(bias));
  EXPECT_EQ(at_once["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(at_once["usage"]["completion_tokens"], 1);
  const json ignored = json::parse(post(bias + R"(,"ignore_eos":true)"));
  EXPECT_EQ(ignored["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(ignored["usage"]["completion_tokens"], 20);
  const json held_back = json::parse(post(bias + R"(,"min_tokens":7)"));
  EXPECT_EQ(held_back["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(held_back["usage"]["completion_tokens"], 8);
}

TEST_F(SamplingHttpTest, LooksForStopStrings_FromMinTokensOn) {
  start();
  const std::string whole = text(R"("temperature":0)");
  ASSERT_GT(whole.size(), 20u);
  const std::string stop = json(whole.substr(0, 2)).dump();
  EXPECT_EQ(text(R"("temperature":0,"stop":)" + stop), "");
  EXPECT_EQ(text(R"("temperature":0,"min_tokens":20,"stop":)" + stop), whole);
}

TEST_F(SamplingHttpTest, GivesLogprobsOfTheModelsOwnDistribution) {
  start();
  const json greedy = choice(R"("temperature":0,"logprobs":true,"top_logprobs":5)");
  std::string spelled;
  double sum = 0;
  for (const json& entry : greedy["logprobs"]["content"]) {
    EXPECT_LE(entry["logprob"], 0);
    ASSERT_EQ(entry["top_logprobs"].size(), 5u);
    EXPECT_EQ(entry["top_logprobs"][0]["logprob"], entry["logprob"]);
    EXPECT_EQ(entry["top_logprobs"][0]["token"], entry["token"]);
    for (size_t i = 1; i < 5; i++)
      EXPECT_LE(entry["top_logprobs"][i]["logprob"], entry["top_logprobs"][i - 1]["logprob"]);
    for (const json& byte : entry["bytes"]) spelled.push_back(static_cast<char>(byte.get<int>()));
    sum += entry["logprob"].get<double>();
  }
  EXPECT_EQ(spelled, greedy["message"]["content"]);
  EXPECT_LE(sum, 0);
  // A bias changes what is drawn and not what is told of the model.
  const json biased = choice(R"("temperature":0,"logprobs":true,"max_tokens":1,"logit_bias":[["q",100]])");
  EXPECT_LT(biased["logprobs"]["content"][0]["logprob"], greedy["logprobs"]["content"][0]["logprob"]);
  EXPECT_TRUE(biased["logprobs"]["content"][0]["top_logprobs"].empty());
  EXPECT_TRUE(choice(R"("temperature":0)")["logprobs"].is_null());
}

TEST_F(SamplingHttpTest, StreamsTheSameLogprobs) {
  start();
  const std::string asked = R"("temperature":0,"logprobs":true,"top_logprobs":2,"stop":["zzz"])";
  const json whole = choice(asked);
  json streamed = json::array();
  std::string content;
  const std::string body = post(asked + R"(,"stream":true)");
  for (size_t at = body.find("data: {"); at != std::string::npos; at = body.find("data: {", at + 1)) {
    const json piece = json::parse(body.substr(at + 6, body.find("\n\n", at) - at - 6))["choices"][0];
    content += piece["delta"].value("content", "");
    if (piece["logprobs"].is_null()) continue;
    for (const json& entry : piece["logprobs"]["content"]) streamed.push_back(entry);
  }
  EXPECT_EQ(content, whole["message"]["content"]);
  EXPECT_EQ(streamed, whole["logprobs"]["content"]);
}

TEST_F(SamplingHttpTest, PrefersRequestToSettingToFile) {
  Options options;
  options.override_kv = {{"general.sampling.temp", "float:2"},
                         {"general.sampling.top_k", "int:1"},
                         {"general.sampling.penalty_last_n", "int:-1"},
                         {"general.sampling.top_p", "float:7"}};
  start(options);
  const SamplingParams file = scheduler_->info().sampling;
  EXPECT_EQ(file.temperature, 2.0f);
  EXPECT_EQ(file.top_k, 1);
  EXPECT_EQ(file.repeat_last_n, -1);
  EXPECT_EQ(file.top_p, SamplingParams().top_p);                       // nonsense is left out
  EXPECT_EQ(text(R"("seed":3)"), text(R"("temperature":0)"));          // the file's top_k of 1 holds
  EXPECT_NE(text(kFree + R"("seed":3)"), text(R"("temperature":0)"));  // the request's own is stronger
  server_.reset();
  scheduler_->stop();
  options.sampling_temperature = 0;
  options.sampling_top_k = 0;
  start(options);
  EXPECT_EQ(scheduler_->info().sampling.top_k, 0);
  EXPECT_EQ(text(R"("seed":3)"), text(R"("seed":4)"));  // the setting's temperature of 0 holds
}

}  // namespace
}  // namespace llmd::test
