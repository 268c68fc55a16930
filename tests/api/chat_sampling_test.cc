// The sampling fields of a chat request: ranges, null, precedence, what the vocabulary decides; and log-probabilities
// in replies.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "api/chat_exchange.h"
#include "api/json_input.h"
#include "fake_engine.h"

namespace llmd::test {
namespace {

const std::string kMessages = R"("messages":[{"role":"user","content":"Hi"}])";

Result<ChatRequest> parse(const std::string& members, const SamplingParams& defaults = {}) {
  auto json = parse_json("{" + kMessages + (members.empty() ? "" : "," + members) + "}");
  EXPECT_TRUE(json.ok()) << members;
  return parse_chat_request(*json, true, defaults);
}

TEST(SamplingFields, RefuseWithParam_WhatIsOutOfRangeOrOfAnotherType) {
  const std::pair<const char*, const char*> rows[] = {
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":"1")", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":1.01)", "top_p"},
      {R"("top_p":1e-300)", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1.5)", "top_k"},
      {R"("top_k":2147483648)", "top_k"},
      {R"("min_p":1.1)", "min_p"},
      {R"("min_p":-0.1)", "min_p"},
      {R"("typical_p":0)", "typical_p"},
      {R"("typical_p":1.5)", "typical_p"},
      {R"("repeat_penalty":0)", "repeat_penalty"},
      {R"("repeat_penalty":11)", "repeat_penalty"},
      {R"("repetition_penalty":-1)", "repetition_penalty"},
      {R"("repeat_last_n":-2)", "repeat_last_n"},
      {R"("presence_penalty":2.5)", "presence_penalty"},
      {R"("presence_penalty":"0")", "presence_penalty"},
      {R"("frequency_penalty":-2.5)", "frequency_penalty"},
      {R"("seed":"7")", "seed"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":18446744073709551615)", "seed"},
      {R"("seed":1e300)", "seed"},
      {R"("logit_bias":7)", "logit_bias"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"1 ":1})", "logit_bias"},
      {R"("logit_bias":{"5":101})", "logit_bias.5"},
      {R"("logit_bias":{"5":true})", "logit_bias.5"},
      {R"("logit_bias":{"5":"1"})", "logit_bias.5"},
      {R"("logit_bias":[5])", "logit_bias[0]"},
      {R"("logit_bias":[[5,1],[5]])", "logit_bias[1]"},
      {R"("logit_bias":[[5,-101]])", "logit_bias[0][1]"},
      {R"("logit_bias":[[-5,1]])", "logit_bias[0][0]"},
      {R"("logit_bias":[["",1]])", "logit_bias[0][0]"},
      {R"("stop_token_ids":5)", "stop_token_ids"},
      {R"("stop_token_ids":[1,"2"])", "stop_token_ids[1]"},
      {R"("stop_token_ids":[-1])", "stop_token_ids[0]"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("min_tokens":6,"max_tokens":5)", "min_tokens"},
      {R"("ignore_eos":1)", "ignore_eos"},
      {R"("logprobs":1)", "logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":-1)", "top_logprobs"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("n_probs":21)", "n_probs"},
  };
  for (const auto& [members, param] : rows) {
    const auto result = parse(members);
    ASSERT_FALSE(result.ok()) << members;
    EXPECT_EQ(result.error().code, "invalid_value") << members;
    EXPECT_EQ(result.error().param, param) << members;
  }
}

TEST(SamplingFields, AreRefusedByName_WhenTheyWouldChangeTheAnswerAndAreNotSupported) {
  for (const char* name : {"dry_multiplier", "xtc_probability", "mirostat", "dynatemp_range", "top_n_sigma",
                           "adaptive_target", "post_sampling_probs", "min_keep"}) {
    const auto result =
        parse("\"" + std::string(name) + "\":" + (std::string(name).starts_with("post") ? "true" : "2"));
    ASSERT_FALSE(result.ok()) << name;
    EXPECT_EQ(result.error().code, "unsupported_parameter");
    EXPECT_EQ(result.error().param, name);
    EXPECT_TRUE(parse("\"" + std::string(name) + "\":0").ok()) << name;
  }
  EXPECT_EQ(parse(R"("samplers":["top_k"])").error().param, "samplers");
  EXPECT_TRUE(parse(R"("top_n_sigma":-1,"dry_base":1.75,"xtc_threshold":0.1,"mirostat_tau":5)").ok());
}

TEST(SamplingFields, TakeTheDefaults_WhenAbsentOrNull) {
  SamplingParams defaults;
  defaults.temperature = 0.25f;
  defaults.top_k = 7;
  defaults.repeat_penalty = 1.5f;
  std::string nulls;
  for (const char* name : {"temperature",
                           "top_p",
                           "top_k",
                           "min_p",
                           "typical_p",
                           "repeat_penalty",
                           "repetition_penalty",
                           "repeat_last_n",
                           "presence_penalty",
                           "frequency_penalty",
                           "seed",
                           "logit_bias",
                           "stop_token_ids",
                           "min_tokens",
                           "ignore_eos",
                           "logprobs",
                           "top_logprobs",
                           "n_probs",
                           "stop",
                           "dry_multiplier",
                           "mirostat",
                           "samplers",
                           "top_n_sigma"})
    nulls += (nulls.empty() ? "\"" : ",\"") + std::string(name) + "\":null";
  for (const std::string& members : {std::string(), nulls}) {
    const auto result = parse(members, defaults);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->sampling.temperature, 0.25f);
    EXPECT_EQ(result->sampling.top_k, 7);
    EXPECT_EQ(result->sampling.repeat_penalty, 1.5f);
    EXPECT_EQ(result->sampling.min_p, 0.05f);
    EXPECT_TRUE(result->sampling.logit_bias.empty() && result->sampling.stop_token_ids.empty());
    EXPECT_FALSE(result->has_seed || result->logprobs || result->sampling.ignore_eos);
  }
  const auto asked = parse(R"("temperature":1,"top_k":0,"repetition_penalty":1)", defaults);
  EXPECT_EQ(asked->sampling.temperature, 1.0f);
  EXPECT_EQ(asked->sampling.top_k, 0);
  EXPECT_EQ(asked->sampling.repeat_penalty, 1.0f);
}

TEST(SamplingFields, AreRead) {
  const auto result = parse(
      R"("typical_p":0.5,"min_p":1,"repeat_penalty":1.1,"repeat_last_n":-1,"presence_penalty":-2,"frequency_penalty":2,
         "seed":-7,"stop_token_ids":[3,4.0],"min_tokens":5,"max_tokens":5,"ignore_eos":true,"logprobs":true,
         "top_logprobs":20,"logit_bias":{"5":-100,"6":1.5,"7":false})");
  ASSERT_TRUE(result.ok()) << result.error().message;
  const SamplingParams& sampling = result->sampling;
  EXPECT_EQ(sampling.typical_p, 0.5f);
  EXPECT_EQ(sampling.repeat_penalty, 1.1f);
  EXPECT_EQ(sampling.repeat_last_n, -1);
  EXPECT_EQ(sampling.presence_penalty, -2.0f);
  EXPECT_EQ(sampling.frequency_penalty, 2.0f);
  EXPECT_EQ(sampling.seed, static_cast<uint64_t>(-7));
  EXPECT_EQ(sampling.stop_token_ids, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(sampling.min_tokens, 5);
  EXPECT_TRUE(sampling.ignore_eos && result->logprobs && result->has_seed);
  EXPECT_EQ(result->top_logprobs, 20);
  ASSERT_EQ(sampling.logit_bias.size(), 3u);
  EXPECT_EQ(sampling.logit_bias[1].id, 6);
  EXPECT_EQ(sampling.logit_bias[1].bias, 1.5f);
  EXPECT_TRUE(std::isinf(sampling.logit_bias[2].bias));
  const auto pairs = parse(R"("logit_bias":[[9,2],["ab",false]],"n_probs":4)");
  ASSERT_TRUE(pairs.ok());
  EXPECT_EQ(pairs->sampling.logit_bias[0].id, 9);
  EXPECT_EQ(pairs->text_bias[0].first, "ab");
  EXPECT_TRUE(pairs->logprobs);
  EXPECT_EQ(pairs->top_logprobs, 4);
  EXPECT_FALSE(parse(R"("seed":-1)")->has_seed);  // any seed
}

// ---- what the vocabulary decides (bytes are tokens, 257 ends) ----

class SamplingServiceTest : public testing::Test {
 protected:
  PrepareOutcome prepare(const std::string& members) {
    ChatService service(engine_, options_);
    return service.prepare(Work::kChat, "{" + kMessages + "," + members + "}");
  }
  std::string refused_param(const std::string& members) {
    const PrepareOutcome outcome = prepare(members);
    if (outcome.chat) return "accepted";
    const auto body = nlohmann::json::parse(outcome.reply.body, nullptr, false);
    return body["error"]["param"].is_string() ? body["error"]["param"].get<std::string>() : outcome.reply.body;
  }
  FakeEngine engine_;
  HttpOptions options_;
};

TEST_F(SamplingServiceTest, RefusesIdsOutsideTheVocabulary) {
  EXPECT_EQ(refused_param(R"("logit_bias":{"258":1})"), "logit_bias");
  EXPECT_EQ(refused_param(R"("logit_bias":[[2147483647,1]])"), "logit_bias");
  EXPECT_EQ(refused_param(R"("stop_token_ids":[258])"), "stop_token_ids");
  EXPECT_EQ(refused_param(R"("stop_token_ids":[257],"logit_bias":{"257":-100})"), "accepted");
}

TEST_F(SamplingServiceTest, RefusesABiasThatLeavesNoToken) {
  std::string all;
  for (int id = 0; id < 257; id++) all += (id == 0 ? "[" : ",[") + std::to_string(id) + ",false]";
  EXPECT_EQ(refused_param("\"logit_bias\":[" + all + "]"), "logit_bias");
  all.resize(all.rfind('['));
  EXPECT_EQ(refused_param("\"logit_bias\":[" + all + "[0,1]]"), "accepted");
}

TEST_F(SamplingServiceTest, BiasesEveryTokenOfAText_AndTakesTheEnginesDefaults) {
  engine_.mutable_info().sampling.top_k = 3;
  const PrepareOutcome outcome = prepare(R"("logit_bias":[["ab",-5]],"logprobs":true)");
  ASSERT_TRUE(outcome.chat);
  const GenerationRequest& generation = outcome.chat->generation;
  ASSERT_EQ(generation.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(generation.sampling.logit_bias[1].id, 'b');
  EXPECT_EQ(generation.sampling.logit_bias[1].bias, -5.0f);
  EXPECT_EQ(generation.sampling.top_k, 3);
  EXPECT_EQ(generation.top_logprobs, 0);
  EXPECT_FALSE(prepare(R"("n":1)").chat->generation.top_logprobs.has_value());
  EXPECT_NE(prepare(R"("n":1)").chat->generation.sampling.seed, prepare(R"("n":1)").chat->generation.sampling.seed);
}

// ---- log-probabilities in replies ----

class LogprobReplyTest : public testing::Test {
 protected:
  PreparedChat chat(bool stream) {
    GenerationRequest generation;
    generation.prompt_tokens = {1, 2, 3};
    generation.tokens_max = 50;
    generation.top_logprobs = 1;
    return PreparedChat{std::move(generation), ChatReply("chatcmpl-1", 7, "m"), stream, false, false};
  }
  /// A token whose text `completes` so many bytes; its likeliest is the end token.
  static GeneratedToken token(int32_t id, size_t completes) {
    TokenLogprobs logprobs;
    logprobs.chosen = {id, -0.5};
    logprobs.top[0] = {FakeTokenizer::kEnd, -0.25};
    logprobs.top_count = 1;
    return {id, completes, logprobs};
  }
  /// "text|ids of the entries" of the one event that polling gives; "" for none.
  std::string poll(ChatExchange& exchange) {
    exchange.poll(now_);
    const std::string body = exchange.take(now_).body;
    if (!body.starts_with("data: {")) return "";
    return summary(nlohmann::json::parse(body.substr(6, body.find("\n\n") - 6))["choices"][0], "delta");
  }
  static std::string summary(const nlohmann::json& choice, const char* holder) {
    std::string out = choice[holder].value("content", std::string("-")) + "|";
    if (choice["logprobs"].is_null()) return out + "null";
    for (const auto& entry : choice["logprobs"]["content"]) out += entry["bytes"].dump();
    return out;
  }
  FakeEngine engine_;
  HttpOptions options_;
  ChatExchange::Clock::time_point now_{std::chrono::seconds(1000)};
};

TEST_F(LogprobReplyTest, ComesWithTheTextOfItsToken_WhenStreamed) {
  ChatExchange exchange(engine_, chat(true), options_, [] {});
  exchange.start(now_);
  poll(exchange);
  engine_.say(1, "a", token('a', 1));
  EXPECT_EQ(poll(exchange), "a|[97]");
  engine_.say(1, "", token(0xC3, 0));  // half a character
  EXPECT_EQ(poll(exchange), "|[195]");
  engine_.say(1, "é", token(0xA9, 2));
  EXPECT_EQ(poll(exchange), "é|[169]");
  engine_.say(1, "", token('b', 1));  // held back: it may begin a stop string
  EXPECT_EQ(poll(exchange), "");
  engine_.say(1, "bc", token('c', 1));
  EXPECT_EQ(poll(exchange), "bc|[98][99]");
  engine_.say(1, "", token('d', 1));
  engine_.say(1, "d", GeneratedToken{});  // the end releases it
  EXPECT_EQ(poll(exchange), "d|[100]");
  engine_.finish(1);
  EXPECT_EQ(poll(exchange), "-|null");
}

TEST_F(LogprobReplyTest, LeavesOutTheTokensOfAStopString) {
  ChatExchange exchange(engine_, chat(false), options_, [] {});
  exchange.start(now_);
  engine_.say(1, "", token('x', 1));
  engine_.say(1, "x", token('y', 2));  // the stop string begins within the second token's text: x y|S
  engine_.say(1, "y", token('z', 3));
  engine_.finish(1);
  exchange.poll(now_);
  const auto output = exchange.take(now_);
  ASSERT_TRUE(output.whole);
  const auto body = nlohmann::json::parse(output.whole->body);
  EXPECT_EQ(summary(body["choices"][0], "message"), "xy|[120][121]");
}

TEST_F(LogprobReplyTest, HasOpenAisShape_WhenNotStreamed) {
  ChatExchange exchange(engine_, chat(false), options_, [] {});
  exchange.start(now_);
  engine_.say(1, R"("logprobs":null)", token('q', 15));  // text cannot pass for the member
  engine_.say(1, "", token(0xF0, 0));
  engine_.finish(1, FinishReason::kLength);
  exchange.poll(now_);
  const auto output = exchange.take(now_);
  ASSERT_TRUE(output.whole);
  const auto choice = nlohmann::json::parse(output.whole->body)["choices"][0];
  EXPECT_EQ(choice["message"]["content"], R"("logprobs":null)");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["logprobs"]["refusal"].is_null());
  const auto& content = choice["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[0].dump(), R"({"bytes":[113],"logprob":-0.5,"token":"q","top_logprobs":[{"bytes":[60,124,101,110,)"
                               R"(100,124,62],"logprob":-0.25,"token":"<|end|>"}]})");
  EXPECT_EQ(content[1]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(content[1]["bytes"][0], 0xF0);
}

TEST_F(LogprobReplyTest, IsNull_WhenNotAskedFor_AndEmpty_WhenNoTokenCame) {
  for (const bool asked : {false, true}) {
    PreparedChat prepared = chat(false);
    if (!asked) prepared.generation.top_logprobs.reset();
    ChatExchange exchange(engine_, std::move(prepared), options_, [] {});
    exchange.start(now_);
    engine_.finish(asked ? 2 : 1);
    exchange.poll(now_);
    const auto choice = nlohmann::json::parse(exchange.take(now_).whole->body)["choices"][0];
    EXPECT_EQ(choice["logprobs"].is_null(), !asked);
    if (!asked) continue;
    EXPECT_TRUE(choice["logprobs"]["content"].empty());
  }
}

TEST_F(LogprobReplyTest, EndsWithAnError_WhenItGrowsBeyondItsBound) {
  options_.logprobs_bytes_max = 1000;
  ChatExchange exchange(engine_, chat(false), options_, [] {});
  exchange.start(now_);
  for (int i = 0; i < 20; i++) engine_.say(1, "a", token('a', 1));
  exchange.poll(now_);
  const auto output = exchange.take(now_);
  ASSERT_TRUE(output.whole);
  EXPECT_EQ(output.whole->status, 400);
  EXPECT_NE(output.whole->body.find("reply_too_large"), std::string::npos);
  EXPECT_TRUE(engine_.cancelled(1));
}

}  // namespace
}  // namespace llmd::test
