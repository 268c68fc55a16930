// The exchange on a clock of the test's own: a prefill of minutes takes no time here.
#include "api/chat_exchange.h"

#include <gtest/gtest.h>

#include <string>

#include "fake_engine.h"

namespace llmd::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ChatExchangeTest : public testing::Test {
 protected:
  PreparedChat chat(bool stream) {
    GenerationRequest generation;
    generation.prompt_tokens = {1, 2, 3};
    generation.tokens_max = 5;
    return PreparedChat{std::move(generation), ChatReply("chatcmpl-1", 7, "m"), stream, false, false};
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

}  // namespace
}  // namespace llmd::test
