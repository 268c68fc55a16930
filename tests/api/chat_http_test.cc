#include <set>
#include <string>
#include <vector>

#include "server_fixture.h"

namespace llmd::test {
namespace {

class ChatHttpTest : public ServerTest {
 protected:
  static std::vector<nlohmann::json> events(const std::string& body) {
    std::vector<nlohmann::json> out;
    size_t at = 0;
    while (at < body.size()) {
      const size_t end = body.find("\n\n", at);
      const std::string event = body.substr(at, end - at);
      if (event.starts_with("data: {")) out.push_back(parse(event.substr(6)));
      if (end == std::string::npos) break;
      at = end + 2;
    }
    return out;
  }
};

TEST_F(ChatHttpTest, AnswersWhole_WhenNotStreamed) {
  engine_.answer({"Hel", "", "lo \xF0\x9F\x98\x80"});
  start();
  const Response response = exchange(post(chat()));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  EXPECT_TRUE(response.headers.at("x-request-id").starts_with("req_"));
  const nlohmann::json body = parse(response.body);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "fake-model");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello \xF0\x9F\x98\x80");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["prompt_tokens"], engine_.request(1).prompt_tokens.size());
  EXPECT_EQ(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
}

TEST_F(ChatHttpTest, TellsTheEngine_WhatMayBeSharedAndWhatIsUrgent) {
  engine_.answer({"Hello"});
  start();
  const std::vector<std::string> fields = {R"("temperature":0)", R"("cache_salt":"a")", R"("prompt_cache_key":"a")",
                                           R"("cache_salt":"a","prompt_cache_key":"b")", R"("cache_salt":"a")"};
  std::vector<uint64_t> spaces;
  for (const std::string& more : fields) {
    EXPECT_EQ(exchange(post(chat(more))).status, 200);
    spaces.push_back(engine_.request(engine_.submitted()).cache_space);
  }
  EXPECT_EQ(spaces[0], 0u);
  EXPECT_EQ(spaces[4], spaces[1]);
  EXPECT_EQ(std::set<uint64_t>(spaces.begin(), spaces.end()).size(), 4u);

  EXPECT_EQ(exchange(post(chat(R"("priority":-3,"deadline_seconds":2.5,"cache_prompt":false)"))).status, 200);
  const GenerationRequest request = engine_.request(engine_.submitted());
  EXPECT_EQ(request.priority, -3);
  EXPECT_EQ(request.deadline_seconds, 2.5);
  EXPECT_FALSE(request.cache_prompt);
}

TEST_F(ChatHttpTest, StreamsInOrder_WhenStreamed) {
  start();
  RawClient client(port());
  client.send(post(chat(R"("stream":true,"stream_options":{"include_usage":true},"return_progress":true)")));
  ASSERT_TRUE(engine_.wait_submitted(1));
  ASSERT_TRUE(client.read_until("\"role\":\"assistant\""));  // before the engine said a word
  engine_.progress(1, 5, 10);
  ASSERT_TRUE(client.read_until("prompt_progress"));
  engine_.say(1, "Hel");
  ASSERT_TRUE(client.read_until("Hel"));
  engine_.say(1, "lo");
  engine_.finish(1, FinishReason::kLength);
  const Response response = client.read_response();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(response.headers.at("cache-control"), "no-cache");
  EXPECT_EQ(response.headers.at("x-accel-buffering"), "no");
  const std::vector<nlohmann::json> list = events(response.body);
  ASSERT_EQ(list.size(), 6u) << response.body;
  EXPECT_EQ(list[0]["choices"][0]["delta"], (nlohmann::json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(list[1]["prompt_progress"]["processed"], 5);
  EXPECT_EQ(list[1]["choices"].size(), 1u);
  EXPECT_EQ(list[2]["choices"][0]["delta"]["content"], "Hel");
  EXPECT_TRUE(list[2]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(list[3]["choices"][0]["delta"]["content"], "lo");
  EXPECT_EQ(list[4]["choices"][0]["delta"], nlohmann::json::object());
  EXPECT_EQ(list[4]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(list[5]["choices"], nlohmann::json::array());
  EXPECT_EQ(list[5]["usage"]["completion_tokens"], 3);
  for (const nlohmann::json& event : list) {
    EXPECT_EQ(event["id"], list[0]["id"]);
    EXPECT_EQ(event["created"], list[0]["created"]);
    EXPECT_EQ(event["object"], "chat.completion.chunk");
  }
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(ChatHttpTest, SendsNoUsageChunk_WhenNotAskedFor) {
  engine_.answer({"Hello"});
  start();
  for (const nlohmann::json& event : events(exchange(post(chat(R"("stream":true)"))).body)) {
    EXPECT_EQ(event["choices"].size(), 1u);
    EXPECT_FALSE(event.contains("usage"));
  }
}

TEST_F(ChatHttpTest, MapsRefusalsOfTheEngine_ToStatusAndRetryHeaders) {
  start();
  struct Row {
    Error error;
    int status;
    const char* header;
  };
  for (const Row& row : {Row{client_error("queue_full", "The queue is full."), 429, "retry-after"},
                         Row{operating_error("model_loading", "x"), 503, "retry-after"},
                         Row{operating_error("shutting_down", "x"), 503, "retry-after"},
                         Row{operating_error("model_read_error", "x", "/secret/path", 7), 500, "x-should-retry"},
                         Row{operating_error("model_checksum_mismatch", "x", "/secret/path", 7), 500, "x-should-retry"},
                         Row{operating_error("anything_else", "x", "/secret/path"), 500, "content-length"}}) {
    engine_.refuse(row.error);
    for (const char* more : {"", R"("stream":true)"}) {
      const Response response = exchange(post(chat(more)));
      EXPECT_EQ(response.status, row.status) << row.error.code;
      EXPECT_EQ(error_code(response), row.error.code);
      EXPECT_EQ(response.headers.count(row.header), 1u) << row.error.code;
      EXPECT_EQ(response.body.find("/secret"), std::string::npos);
    }
  }
}

TEST_F(ChatHttpTest, EndsStreamWithErrorAndNoDone_WhenEngineFails) {
  start();
  RawClient client(port());
  client.send(post(chat(R"("stream":true)")));
  ASSERT_TRUE(engine_.wait_submitted(1));
  engine_.say(1, "Hel");
  engine_.fail(1, operating_error("model_read_error", "EIO", "/secret/path", 4096));
  const Response response = client.read_response();
  EXPECT_TRUE(response.complete);
  const std::vector<nlohmann::json> list = events(response.body);
  EXPECT_EQ(list.back()["error"]["code"], "model_read_error");
  EXPECT_EQ(response.body.find("[DONE]"), std::string::npos);
  EXPECT_EQ(response.body.find("/secret"), std::string::npos);
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(client.closed());
}

TEST_F(ChatHttpTest, Answers500_WhenEngineFailsBeforeAWholeReply) {
  start();
  RawClient client(port());
  client.send(post(chat()));
  ASSERT_TRUE(engine_.wait_submitted(1));
  engine_.fail(1, operating_error("model_read_error", "EIO"));
  const Response response = client.read_response();
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.headers.at("x-should-retry"), "false");
}

TEST_F(ChatHttpTest, Answers400WithCounts_WhenPromptDoesNotFit) {
  engine_.answer({"x"});
  start();
  // Fallback form: BOS, "User: ", the text, two newlines, "Assistant:".
  const size_t frame = 1 + 6 + 2 + 10;
  for (const auto& [tokens, status] : {std::pair<size_t, int>{4095, 200}, {4096, 400}, {4097, 400}}) {
    const std::string text(tokens - frame, 'a');
    for (const char* stream : {"false", "true"}) {
      const Response response = exchange(
          post(R"({"messages":[{"role":"user","content":")" + text + R"("}],"stream":)" + std::string(stream) + "}"));
      EXPECT_EQ(response.status, status) << tokens;
      if (status == 200) continue;
      const nlohmann::json error = parse(response.body)["error"];
      EXPECT_EQ(error["code"], "context_length_exceeded");
      EXPECT_EQ(error["n_prompt_tokens"], tokens);
      EXPECT_EQ(error["n_ctx"], 4096);
    }
  }
  EXPECT_EQ(engine_.request(1).tokens_max, 1);
  // So long that no count is needed: the fake's longest token has 7 bytes.
  const Response response =
      exchange(post(R"({"messages":[{"role":"user","content":")" + std::string(7 * 4096, 'a') + R"("}]})"));
  EXPECT_EQ(error_code(response), "context_length_exceeded");
  EXPECT_NE(response.body.find("at least"), std::string::npos) << response.body;
}

TEST_F(ChatHttpTest, UsesTemplateAndReportsItsRefusal) {
  engine_.answer({"x"});
  engine_.mutable_info().chat_template =
      "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
      "{{ m.content }}<|end|>{% endfor %}{% if enable_thinking %}T{% endif %}";
  start();
  EXPECT_EQ(exchange(post(R"({"messages":[{"role":"user","content":"a<|end|>"}]})")).status, 200);
  const std::vector<int32_t> ids = engine_.request(1).prompt_tokens;
  // The client's own "<|end|>" is plain text; the template's is the control token.
  EXPECT_EQ(std::count(ids.begin(), ids.end(), FakeTokenizer::kEnd), 1);
  EXPECT_EQ(ids.back(), 'T');
  EXPECT_EQ(exchange(post(R"({"messages":[{"role":"user","content":"a"}],"enable_thinking":false})")).status, 200);
  EXPECT_EQ(engine_.request(2).prompt_tokens.back(), FakeTokenizer::kEnd);
  const Response refused = exchange(post(R"({"messages":[{"role":"tool","content":"a"}]})"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("no tools here"), std::string::npos);
}

// A template that opens the thinking itself, one that closes it, and a client whose text looks like either.
TEST_F(ChatHttpTest, TakesTheBeginningForThinking_WhenThePromptHasOpenedIt) {
  engine_.mutable_info().chat_template =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
      "{% if enable_thinking %}<think>\n{% elif reasoning_effort is defined %}<think></think>{% endif %}";
  start();
  engine_.answer({"a", "</think>", "b"});
  const struct {
    const char *content, *members, *reasoning, *answer;
  } rows[] = {
      {"Hi", "", "a", "b"},
      {"Hi", R"(,"reasoning_format":"auto")", "a", "b"},
      {"Hi", R"(,"reasoning_format":"none")", "", "a</think>b"},
      {"Hi", R"(,"enable_thinking":false)", "", "a</think>b"},
      {"Hi", R"(,"reasoning_effort":"none")", "", "a</think>b"},
      {"<think>", R"(,"enable_thinking":false)", "", "a</think>b"},
  };
  for (const auto& row : rows) {
    const std::string body =
        std::string(R"({"messages":[{"role":"user","content":")") + row.content + "\"}]" + row.members + "}";
    const auto message = parse(exchange(post(body)).body)["choices"][0]["message"];
    EXPECT_EQ(message.value("reasoning_content", ""), row.reasoning) << body;
    EXPECT_EQ(message["content"], row.answer) << body;
  }
  EXPECT_EQ(exchange(post(chat(R"("reasoning_format":"x")"))).status, 400);
}

TEST_F(ChatHttpTest, CancelsAtOnce_WhenClientGoes) {
  start();
  uint64_t id = 0;
  for (const char* more : {"", R"("stream":true)"}) {
    for (const bool decoding : {false, true}) {
      for (const bool reset : {false, true}) {
        ++id;
        RawClient client(port());
        client.send(post(chat(more)));
        ASSERT_TRUE(engine_.wait_submitted(id));
        if (decoding) engine_.say(id, "Hello");
        if (*more != '\0') {
          ASSERT_TRUE(client.read_until("assistant"));
        }
        if (reset) {
          client.reset();
        } else {
          client.close();
        }
        EXPECT_TRUE(engine_.wait_cancelled(id)) << more << " decoding " << decoding << " reset " << reset;
      }
    }
  }
  EXPECT_TRUE(wait_connections(0));
  EXPECT_EQ(server_->stats().cancelled_total, id);
}

TEST_F(ChatHttpTest, CancelsOnlyItsOwn_WhenOneOfTwoGoes) {
  start();
  RawClient stays(port()), goes(port());
  stays.send(post(chat(R"("stream":true)")));
  ASSERT_TRUE(engine_.wait_submitted(1));
  goes.send(post(chat(R"("stream":true)")));
  ASSERT_TRUE(engine_.wait_submitted(2));
  goes.reset();
  ASSERT_TRUE(engine_.wait_cancelled(2));
  EXPECT_FALSE(engine_.cancelled(1));
  engine_.say(1, "Hello");
  engine_.finish(1);
  EXPECT_TRUE(stays.read_response().body.ends_with("data: [DONE]\n\n"));
}

TEST_F(ChatHttpTest, AnswersHalfClosedClient_WhenStreamedOrAskedTo) {
  options_.half_close_answer = true;
  start();
  uint64_t id = 0;
  for (const char* more : {R"("stream":true)", ""}) {
    ++id;
    RawClient client(port());
    client.send(post(chat(more)));
    client.shutdown_send();
    ASSERT_TRUE(engine_.wait_submitted(id));
    engine_.say(id, "Hello");
    engine_.finish(id);
    EXPECT_NE(client.read_response().body.find("Hello"), std::string::npos) << more;
    EXPECT_FALSE(engine_.cancelled(id));
  }
}

TEST_F(ChatHttpTest, ProbesHalfClosedStream_WithAComment) {
  start();
  RawClient client(port());
  client.send(post(chat(R"("stream":true)")));
  ASSERT_TRUE(client.read_until("assistant"));
  client.shutdown_send();
  EXPECT_TRUE(client.read_until(": ping\n\n"));
  engine_.finish(1);
  EXPECT_TRUE(client.read_until("[DONE]"));
}

TEST_F(ChatHttpTest, CancelsSlowReader_AtTheBound) {
  options_.send_bytes_max = 64 << 10;
  start();
  RawClient client(port(), 4096);
  client.send(post(chat(R"("stream":true)")));
  ASSERT_TRUE(engine_.wait_submitted(1));
  const std::string piece(8192, 'x');
  // 256 MiB at most: far more than what the kernel holds between the two.
  for (int i = 0; i < 32'768 && !engine_.cancelled(1); ++i) engine_.say(1, piece);
  EXPECT_TRUE(engine_.wait_cancelled(1));
  EXPECT_TRUE(wait_connections(0));
}

TEST_F(ChatHttpTest, DropsClientThatReadsNothing_WhenSendStalls) {
  options_.send_stall = std::chrono::milliseconds(200);
  options_.send_bytes_max = 64ull << 20;
  start();
  RawClient client(port(), 4096);
  client.send(post(chat(R"("stream":true)")));
  ASSERT_TRUE(engine_.wait_submitted(1));
  for (int i = 0; i < 4; ++i) engine_.say(1, std::string(8 << 20, 'x'));
  EXPECT_TRUE(engine_.wait_cancelled(1));
  EXPECT_TRUE(wait_connections(0));
}

TEST_F(ChatHttpTest, PingsWhileSilent_AndNewlinesBeforeAWholeReply) {
  options_.ping_interval = options_.json_keepalive_after = options_.json_keepalive_interval =
      std::chrono::milliseconds(20);
  start();
  RawClient stream(port()), whole(port());
  stream.send(post(chat(R"("stream":true)")));
  ASSERT_TRUE(engine_.wait_submitted(1));
  EXPECT_TRUE(stream.read_until(": ping\n\n"));
  engine_.finish(1);
  EXPECT_TRUE(stream.read_until("[DONE]"));

  whole.send(post(chat()));
  ASSERT_TRUE(engine_.wait_submitted(2));
  EXPECT_TRUE(whole.read_until("1\r\n\n\r\n"));
  engine_.say(2, "Hello");
  engine_.finish(2);
  const Response response = whole.read_response();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body[0], '\n');
  EXPECT_EQ(parse(response.body)["choices"][0]["message"]["content"], "Hello");
}

TEST_F(ChatHttpTest, TurnsNewRequestsAwayAndFinishesOld_WhenDraining) {
  start();
  RawClient running(port()), idle(port());
  idle.send(get("/health"));
  EXPECT_EQ(idle.read_response().status, 200);
  running.send(post(chat(R"("stream":true)")));
  ASSERT_TRUE(engine_.wait_submitted(1));
  server_->begin_drain();
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(idle.closed());
  const Response refused = exchange(post(chat()));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_code(refused), "shutting_down");
  EXPECT_EQ(exchange(get("/health")).status, 503);
  engine_.say(1, "Hello");
  engine_.finish(1);
  EXPECT_TRUE(running.read_response().body.ends_with("data: [DONE]\n\n"));
}

TEST_F(ChatHttpTest, SendsErrorsAndCancels_WhenStopped) {
  start();
  RawClient stream(port()), whole(port());
  stream.send(post(chat(R"("stream":true)")));
  ASSERT_TRUE(engine_.wait_submitted(1));
  whole.send(post(chat()));
  ASSERT_TRUE(engine_.wait_submitted(2));
  server_->stop();
  EXPECT_TRUE(engine_.cancelled(1));
  EXPECT_TRUE(engine_.cancelled(2));
  const Response cut = stream.read_response();
  EXPECT_EQ(events(cut.body).back()["error"]["code"], "shutting_down");
  EXPECT_EQ(cut.body.find("[DONE]"), std::string::npos);
  EXPECT_EQ(error_code(whole.read_response()), "shutting_down");
  server_->stop();
}

TEST_F(ChatHttpTest, ServesManyAtOnce_AndEndsWithNothingOpen) {
  engine_.answer({"Hello"});
  start();
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      for (int j = 0; j < 20; ++j) {
        RawClient client(port());
        client.send(post(chat(i % 2 == 0 ? R"("stream":true)" : "")));
        if (j % 5 == 4) continue;  // gone before the answer
        const Response response = client.read_response();
        if (response.complete && response.body.find("Hello") != std::string::npos) ++good;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 8 * 16);
  EXPECT_TRUE(wait_connections(0));
}

}  // namespace
}  // namespace llmd::test
