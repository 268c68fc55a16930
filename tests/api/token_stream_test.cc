// Streams of an engine whose tokens are bytes of our choice, through the detokenizer and the stop matcher as in the
// daemon: characters over several tokens, bytes that are none, stop strings over several tokens, tails held back.
#include <vector>

#include "server_fixture.h"

namespace llmd::test {
namespace {

using nlohmann::json;

struct Answer {
  std::string text, finish;
  size_t chunks = 0;
  bool complete = false;
};

class TokenStream : public ServerTest {
 protected:
  /// What the daemon's batcher does with the tokens of an answer.
  void generate(uint64_t id, const std::vector<std::string>& tokens, FinishReason reason) {
    Detokenizer detokenizer;
    StopMatcher stops(engine_.request(id).stops);
    for (const std::string& token : tokens) {
      const std::string text = detokenizer.add(token);
      engine_.say(id, stops.add(text), {1, text.size(), {}});
      if (stops.stopped()) return engine_.finish(id, FinishReason::kStop);
    }
    detokenizer.finish();
    engine_.say(id, stops.finish(), {});
    engine_.finish(id, reason);
  }
  /// Sends a request with `members` and answers it with these tokens, one by one.
  Answer ask(const std::vector<std::string>& tokens, const std::string& members, bool stream, bool completion = false,
             FinishReason reason = FinishReason::kStop) {
    RawClient client(port());
    const std::string start = completion ? R"({"prompt":"a")" : R"({"messages":[{"role":"user","content":"Hi"}])";
    client.send(post(start + members + (stream ? R"(,"stream":true})" : "}"),
                     completion ? "/v1/completions" : "/v1/chat/completions"));
    const uint64_t id = ++asked_;
    EXPECT_TRUE(engine_.wait_submitted(id));
    generate(id, tokens, reason);
    const Response response = client.read_response();
    EXPECT_EQ(response.status, 200);
    return stream ? read_stream(response.body, completion) : read_whole(response.body, completion);
  }
  static Answer read_whole(const std::string& body, bool completion) {
    const json choice = parse(body)["choices"][0];
    return {completion ? choice["text"] : choice["message"]["content"], choice["finish_reason"], 1, true};
  }
  static Answer read_stream(const std::string& body, bool completion) {
    Answer answer;
    answer.complete = body.ends_with("data: [DONE]\n\n");
    for (size_t at = 0; (at = body.find("data: {", at)) != std::string::npos; ++at) {
      const std::string line = body.substr(at + 6, body.find('\n', at) - at - 6);
      const json event = json::parse(line, nullptr, false);  // fails for a line that is not UTF-8
      EXPECT_FALSE(event.is_discarded()) << line;
      if (event.is_discarded()) continue;
      const json& choice = event["choices"][0];
      answer.text += completion ? choice.value("text", "") : choice["delta"].value("content", "");
      if (!choice["finish_reason"].is_null()) answer.finish = choice["finish_reason"];
      ++answer.chunks;
    }
    return answer;
  }

  uint64_t asked_ = 0;
};

// Report group 1.
TEST_F(TokenStream, SendsACharacterAsOne_WhenItIsSeveralTokens) {
  start();
  const std::string emoji = "\xF0\x9F\x98\x80", family = "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9";
  const std::vector<std::vector<std::string>> cuts = {
      {"a", emoji.substr(0, 1), emoji.substr(1), "b"},
      {"a", emoji.substr(0, 2), emoji.substr(2, 1), emoji.substr(3), "b"},
      {"a\xF0", "\x9F", "\x98",
       "\x80"
       "b"}};
  for (const auto& tokens : cuts) {
    const Answer streamed = ask(tokens, "", true), whole = ask(tokens, "", false);
    EXPECT_EQ(streamed.text, "a" + emoji + "b");
    EXPECT_EQ(whole.text, streamed.text);
    EXPECT_TRUE(streamed.complete);
  }
  std::vector<std::string> bytes;
  for (const char c : family) bytes.emplace_back(1, c);
  EXPECT_EQ(ask(bytes, "", true).text, family);
}

TEST_F(TokenStream, DropsOnlyTheTail_WhenTheLimitCutsACharacter) {
  start();
  for (const bool stream : {true, false}) {
    const Answer answer = ask({"ab", "\xF0\x9F"}, "", stream, false, FinishReason::kLength);
    EXPECT_EQ(answer.text, "ab");
    EXPECT_EQ(answer.finish, "length");
  }
}

// Report group 2.
TEST_F(TokenStream, GoesOn_WhenTheModelWritesWhatIsNotUtf8) {
  start();
  const std::string bad = "\xEF\xBF\xBD";
  for (const bool stream : {true, false}) {
    EXPECT_EQ(ask({"a", "\xC0\x80", "b"}, "", stream).text, "a" + bad + bad + "b");
    EXPECT_EQ(ask({"a", "\xED\xA0\x80", "b"}, "", stream).text, "a" + bad + bad + bad + "b");
    EXPECT_EQ(ask({"a", "\xF5", "\x80\x80\x80", "b"}, "", stream).text, "a" + bad + bad + bad + bad + "b");
  }
}

// Report group 3.
TEST_F(TokenStream, SendsNothingOfAStop_AndAllBeforeIt) {
  start();
  for (const bool stream : {true, false}) {
    for (const bool completion : {true, false}) {
      const Answer answer =
          ask({"al", "pha be", "ta", " gam", "ma delta"}, R"(,"stop":"beta gamma")", stream, completion);
      EXPECT_EQ(answer.text, "alpha ");
      EXPECT_EQ(answer.finish, "stop");
      EXPECT_EQ(ask({"Yes.", "\n", "Us", "er", ":", " more"}, R"(,"stop":["\nUser:"])", stream, completion).text,
                "Yes.");
    }
  }
}

TEST_F(TokenStream, ReleasesWhatWasHeldBack_WhenTheAnswerEnds) {
  start();
  for (const bool stream : {true, false}) {
    EXPECT_EQ(ask({"alpha be", "ta ga"}, R"(,"stop":"beta gamma")", stream).text, "alpha beta ga");
    EXPECT_EQ(ask({"alpha be", "ta delta"}, R"(,"stop":"beta gamma")", stream).text, "alpha beta delta");
    EXPECT_EQ(ask({"\n", "\n", "Us"}, R"(,"stop":["\n\nUser:"])", stream, false, FinishReason::kLength).text, "\n\nUs");
  }
}

}  // namespace
}  // namespace llmd::test
