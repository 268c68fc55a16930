// The exchange on a clock of the test's own: a prefill of minutes takes no time here.
#include "api/chat_exchange.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fake_engine.h"

namespace llmd::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ChatExchangeTest : public testing::Test {
 protected:
  PreparedChat chat(bool stream, size_t choices = 1) {
    GenerationRequest generation;
    generation.prompt_tokens = {1, 2, 3};
    generation.tokens_max = 5;
    return PreparedChat{std::move(generation), ChatReply("chatcmpl-1", 7, "m"), stream, choices > 1, false, choices};
  }
  std::string step(ChatExchange& exchange) {
    exchange.poll(now_);
    return exchange.take(now_).body;
  }

  FakeEngine engine_;
  HttpOptions options_;
  ChatExchange::Clock::time_point now_{seconds(1000)};
};

TEST_F(ChatExchangeTest, PingsEveryInterval_DuringAPrefillOf400Seconds) {
  ChatExchange exchange(engine_, chat(true), options_, [] {});
  exchange.start(now_);
  const auto first = exchange.take(now_);
  ASSERT_TRUE(first.head.has_value());
  EXPECT_NE(first.body.find("assistant"), std::string::npos);
  int pings = 0;
  for (int i = 0; i < 400; ++i) {
    now_ += seconds(1);
    const std::string body = step(exchange);
    if (body == kSsePing) ++pings;
    EXPECT_TRUE(body.empty() || body == kSsePing);
  }
  EXPECT_EQ(pings, 40);
  engine_.finish(1);
  EXPECT_TRUE(step(exchange).ends_with(kSseDone));
  EXPECT_TRUE(exchange.finished());
}

TEST_F(ChatExchangeTest, SendsNewlinesAfter30Seconds_WhenNotStreamed) {
  ChatExchange exchange(engine_, chat(false), options_, [] {});
  exchange.start(now_);
  now_ += milliseconds(29'999);
  EXPECT_EQ(step(exchange), "");
  now_ += milliseconds(1);
  exchange.poll(now_);
  auto output = exchange.take(now_);
  ASSERT_TRUE(output.head.has_value());
  EXPECT_EQ(output.head->status, 200);
  EXPECT_EQ(output.body, "\n");
  now_ += seconds(15);
  EXPECT_EQ(step(exchange), "\n");
  engine_.fail(1, operating_error("model_read_error", "EIO"));
  EXPECT_NE(step(exchange).find("model_read_error"), std::string::npos);
  EXPECT_TRUE(exchange.finished() && exchange.close_after());
}

TEST_F(ChatExchangeTest, StaysSilent_WhenJsonKeepaliveIsOff) {
  options_.json_keepalive = false;
  ChatExchange exchange(engine_, chat(false), options_, [] {});
  exchange.start(now_);
  now_ += seconds(4000);
  EXPECT_EQ(step(exchange), "");
  EXPECT_EQ(exchange.next_deadline(), ChatExchange::Clock::time_point::max());
  engine_.say(1, "Hello");
  engine_.finish(1);
  exchange.poll(now_);
  const auto output = exchange.take(now_);
  ASSERT_TRUE(output.whole.has_value());
  EXPECT_NE(output.whole->body.find("Hello"), std::string::npos);
}

TEST_F(ChatExchangeTest, CancelsWhenDestroyed_AndHearsNothingMore) {
  std::shared_ptr<GenerationSink> sink;
  int wakes = 0;
  {
    ChatExchange exchange(engine_, chat(true), options_, [&wakes] { ++wakes; });
    exchange.start(now_);
    engine_.say(1, "a");
    engine_.say(1, "b");
    EXPECT_EQ(wakes, 1);  // one wake for all that waits
    EXPECT_FALSE(engine_.cancelled(1));
  }
  EXPECT_TRUE(engine_.cancelled(1));
  auto mailbox = std::make_shared<Mailbox>(100, [&wakes] { ++wakes; });
  mailbox->detach();
  mailbox->on_text("late", {1, 4, {}});
  EXPECT_EQ(wakes, 1);
}

TEST_F(ChatExchangeTest, ReplacesInvalidUtf8_InsteadOfFailing) {
  ChatExchange exchange(engine_, chat(true), options_, [] {});
  exchange.start(now_);
  exchange.take(now_);
  engine_.say(1, "\xC0\x80");
  EXPECT_NE(step(exchange).find("\xEF\xBF\xBD"), std::string::npos);
}

// The JSON of each "data:" line but the last, [DONE].
std::vector<nlohmann::json> events_of(std::string_view body) {
  std::vector<nlohmann::json> events;
  for (size_t at = 0; (at = body.find("data: {", at)) != std::string_view::npos; at++)
    events.push_back(nlohmann::json::parse(body.substr(at + 6, body.find('\n', at) - at - 6)));
  return events;
}

TEST_F(ChatExchangeTest, StreamsEveryChoiceUnderItsIndex_WithOneUsage) {
  ChatExchange exchange(engine_, chat(true, 3), options_, [] {});
  exchange.start(now_);
  std::string body = exchange.take(now_).body;
  engine_.say_choice(1, 2, "two");
  engine_.say_choice(1, 0, "ze");
  body += step(exchange);
  engine_.finish(1, FinishReason::kLength, 2);
  engine_.say_choice(1, 0, "ro");
  engine_.finish(1, FinishReason::kStop, 0);
  body += step(exchange);
  EXPECT_FALSE(exchange.finished());
  engine_.finish(1, FinishReason::kStop, 1);
  body += step(exchange);
  EXPECT_TRUE(exchange.finished());
  EXPECT_TRUE(body.ends_with(kSseDone));
  std::vector<std::string> texts(3), ends(3);
  std::vector<int> roles(3);
  nlohmann::json usage;
  for (const nlohmann::json& event : events_of(body)) {
    if (event.contains("usage")) usage = event["usage"];
    for (const nlohmann::json& choice : event["choices"]) {
      const size_t index = choice["index"];
      ASSERT_LT(index, 3u);
      roles[index] += choice["delta"].contains("role");
      if (!choice["delta"].contains("role")) texts[index] += choice["delta"].value("content", "");
      if (!choice["finish_reason"].is_null()) ends[index] += choice["finish_reason"];
    }
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"zero", "", "two"}));
  EXPECT_EQ(ends, (std::vector<std::string>{"stop", "stop", "length"}));
  EXPECT_EQ(roles, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(usage["prompt_tokens"], 3);
  EXPECT_EQ(usage["completion_tokens"], 9);
}

TEST_F(ChatExchangeTest, RepliesWithAllChoices_WhenTheLastHasEnded) {
  ChatExchange exchange(engine_, chat(false, 2), options_, [] {});
  exchange.start(now_);
  engine_.say_choice(1, 1, "\"choices\":null");  // no text can be mistaken for a member
  engine_.finish(1, FinishReason::kStop, 1);
  exchange.poll(now_);
  EXPECT_FALSE(exchange.finished());
  engine_.say_choice(1, 0, "a");
  engine_.finish(1, FinishReason::kLength, 0);
  exchange.poll(now_);
  const auto output = exchange.take(now_);
  ASSERT_TRUE(output.whole.has_value());
  const auto reply = nlohmann::json::parse(output.whole->body);
  ASSERT_EQ(reply["choices"].size(), 2u);
  EXPECT_EQ(reply["choices"][0]["index"], 0);
  EXPECT_EQ(reply["choices"][0]["message"]["content"], "a");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(reply["choices"][1]["index"], 1);
  EXPECT_EQ(reply["choices"][1]["message"]["content"], "\"choices\":null");
  EXPECT_EQ(reply["usage"]["total_tokens"], 9);
}

TEST_F(ChatExchangeTest, StreamsThinkingApart_AndCountsItsTokens) {
  PreparedChat prepared = chat(true);
  prepared.include_usage = true;
  prepared.splitter = ReasoningSplitter({"<think>", "</think>"}, true);
  ChatExchange exchange(engine_, std::move(prepared), options_, [] {});
  exchange.start(now_);
  std::string body = exchange.take(now_).body;
  for (const char* text : {"Hm", "m.", "\n</th", "ink>", "\n\n", "Yes", "."}) {
    engine_.say(1, text);
    body += step(exchange);
  }
  engine_.finish(1);
  body += step(exchange);
  std::string reasoning, content;
  nlohmann::json usage;
  for (const nlohmann::json& event : events_of(body)) {
    if (event.contains("usage")) usage = event["usage"];
    for (const nlohmann::json& choice : event["choices"]) {
      reasoning += choice["delta"].value("reasoning_content", "");
      content += choice["delta"].value("content", "");
      EXPECT_FALSE(choice["delta"].contains("reasoning_content") && choice["delta"].contains("content"));
    }
  }
  EXPECT_EQ(reasoning, "Hmm.");
  EXPECT_EQ(content, "Yes.");
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], 4);
}

TEST_F(ChatExchangeTest, RepliesWithThinkingAlone_WhenItWasCutOff) {
  PreparedChat prepared = chat(false);
  prepared.splitter = ReasoningSplitter({"<think>", "</think>"}, false);
  ChatExchange exchange(engine_, std::move(prepared), options_, [] {});
  exchange.start(now_);
  engine_.say(1, "<think>\nLet me see");
  engine_.finish(1, FinishReason::kLength);
  exchange.poll(now_);
  const auto reply = nlohmann::json::parse(exchange.take(now_).whole->body);
  const auto& message = reply["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "Let me see");
  EXPECT_EQ(message["content"], "");
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
}

TEST_F(ChatExchangeTest, CancelsTheOtherChoices_WhenOneFails) {
  ChatExchange exchange(engine_, chat(false, 2), options_, [] {});
  exchange.start(now_);
  engine_.finish(1, FinishReason::kStop, 0);
  engine_.fail(1, operating_error("model_read_error", "EIO"));
  exchange.poll(now_);
  EXPECT_TRUE(exchange.finished());
  EXPECT_TRUE(engine_.cancelled(1));
  EXPECT_EQ(exchange.take(now_).whole->status, 500);
}

}  // namespace
}  // namespace llmd::test
