// The endpoints besides chat: plain completions, tokens and templates as text, and the pages about the server.
#include "server_fixture.h"

namespace llmd::test {
namespace {

using nlohmann::json;

class EndpointsTest : public ServerTest {
 protected:
  Response post_to(const std::string& path, const std::string& body) { return exchange(post(body, path)); }
  json answer_of(const std::string& path, const std::string& body) {
    const Response response = post_to(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return parse(response.body);
  }
  /// status, code and param of a refusal: "400 invalid_value prompt"
  std::string refusal(const std::string& path, const std::string& body) {
    const Response response = post_to(path, body);
    const json error = parse(response.body)["error"];
    return std::to_string(response.status) + " " + error["code"].get<std::string>() + " " +
           (error["param"].is_string() ? error["param"].get<std::string>() : "");
  }
  static std::vector<json> events(const std::string& body) {
    std::vector<json> out;
    for (size_t at = 0; (at = body.find("data: {", at)) != std::string::npos; ++at)
      out.push_back(json::parse(body.substr(at + 6, body.find("\n\n", at) - at - 6)));
    return out;
  }
};

TEST_F(EndpointsTest, CompletesATextAsItIs_WithoutTemplate) {
  engine_.mutable_info().chat_template = "{{ raise_exception('not for this') }}";
  start();
  engine_.answer({"one", " two"});
  const json answer = answer_of("/v1/completions", R"({"model":"fake-model","prompt":"ab<|end|>","max_tokens":5})");
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(answer["choices"][0]["text"], "one two");
  EXPECT_EQ(answer["choices"][0]["index"], 0);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(answer["choices"][0]["logprobs"].is_null());
  EXPECT_FALSE(answer["choices"][0].contains("message"));
  // A special token in a text is text: BOS and nine bytes.
  EXPECT_EQ(engine_.request(1).prompt_tokens.size(), 10u);
  EXPECT_EQ(engine_.request(1).tokens_max, 5);
  answer_of("/completions", R"({"prompt":"ab<|end|>","parse_special":true})");
  EXPECT_EQ(engine_.request(2).prompt_tokens, (std::vector<int32_t>{256, 'a', 'b', 257}));
  EXPECT_EQ(engine_.request(2).tokens_max, 16);
}

TEST_F(EndpointsTest, CompletesTokensAsTheyAre) {
  start();
  engine_.answer({"x"});
  answer_of("/v1/completions", R"({"prompt":[97,98.0,257]})");
  EXPECT_EQ(engine_.request(1).prompt_tokens, (std::vector<int32_t>{97, 98, 257}));
  answer_of("/v1/completions", R"({"prompt":[[99]]})");
  EXPECT_EQ(engine_.request(2).prompt_tokens, (std::vector<int32_t>{99}));
  answer_of("/v1/completions", R"({"prompt":["d"],"best_of":1,"suffix":"","echo":false,"logprobs":null})");
  EXPECT_EQ(engine_.request(3).prompt_tokens, (std::vector<int32_t>{256, 'd'}));
}

TEST_F(EndpointsTest, RefusesCompletionsByParam) {
  start();
  const auto says = [&](const std::string& members) { return refusal("/v1/completions", "{" + members + "}"); };
  EXPECT_EQ(says(R"("max_tokens":1)"), "400 missing_field prompt");
  EXPECT_EQ(says(R"("prompt":null)"), "400 missing_field prompt");
  EXPECT_EQ(says(R"("prompt":"")"), "400 invalid_value prompt");
  EXPECT_EQ(says(R"("prompt":7)"), "400 invalid_value prompt");
  EXPECT_EQ(says(R"("prompt":[])"), "400 invalid_value prompt");
  EXPECT_EQ(says(R"("prompt":["a","b"])"), "400 unsupported_parameter prompt");
  EXPECT_EQ(says(R"("prompt":[1,"a"])"), "400 invalid_value prompt[1]");
  EXPECT_EQ(says(R"("prompt":[1,-1])"), "400 invalid_value prompt[1]");
  EXPECT_EQ(says(R"("prompt":[1,258])"), "400 invalid_value prompt[1]");
  EXPECT_EQ(says(R"("prompt":"a","echo":true)"), "400 unsupported_parameter echo");
  EXPECT_EQ(says(R"("prompt":"a","suffix":"b")"), "400 unsupported_parameter suffix");
  EXPECT_EQ(says(R"("prompt":"a","best_of":3)"), "400 unsupported_parameter best_of");
  EXPECT_EQ(says(R"("prompt":"a","messages":[])"), "400 unsupported_parameter messages");
  EXPECT_EQ(says(R"("prompt":"a","logprobs":true)"), "400 invalid_value logprobs");
  EXPECT_EQ(says(R"("prompt":"a","logprobs":21)"), "400 invalid_value logprobs");
  EXPECT_EQ(says(R"("prompt":"a","temperature":3)"), "400 invalid_value temperature");
  EXPECT_EQ(says(R"("prompt":"a","model":"other")"), "404 model_not_found model");
  std::string many = "[1";
  for (int i = 1; i < 4096; ++i) many += ",1";
  EXPECT_EQ(says("\"prompt\":" + many + "]"), "400 context_length_exceeded prompt");
  EXPECT_EQ(says("\"prompt\":\"" + std::string(40'000, 'a') + "\",\"stream\":true"),
            "400 context_length_exceeded prompt");
  EXPECT_EQ(engine_.submitted(), 0u);
}

TEST_F(EndpointsTest, StreamsACompletion) {
  start();
  engine_.answer({"one", " two"});
  const Response response =
      post_to("/v1/completions", R"({"prompt":"a","stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
  std::string text;
  json finish, usage;
  for (const json& event : events(response.body)) {
    EXPECT_EQ(event["object"], "text_completion");
    if (event.contains("usage")) usage = event["usage"];
    for (const json& choice : event["choices"]) {
      EXPECT_FALSE(choice.contains("delta"));
      text += choice["text"].get<std::string>();
      if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
    }
  }
  EXPECT_EQ(text, "one two");
  EXPECT_EQ(finish, "stop");
  EXPECT_EQ(usage["prompt_tokens"], 2);
}

TEST_F(EndpointsTest, GivesLogprobsOfCompletions_InTheOldShape) {
  start();
  const auto say = [&](uint64_t id) {
    TokenLogprobs first, second;
    first.chosen = {'a', -0.5f};
    first.top_count = 2;
    first.top[0] = {'a', -0.5f};
    first.top[1] = {0xC3, -1.5f};  // half a character
    second.chosen = {'b', -0.25f};
    engine_.say(id, "a", {'a', 1, first});
    engine_.say(id, "b", {'b', 1, second});
    engine_.finish(id);
  };
  RawClient client(port());
  client.send(post(R"({"prompt":"x","logprobs":2})", "/v1/completions"));
  ASSERT_TRUE(engine_.wait_submitted(1));
  EXPECT_EQ(engine_.request(1).top_logprobs, 2);
  say(1);
  const json choice = parse(client.read_response().body)["choices"][0];
  EXPECT_EQ(choice["text"], "ab");
  EXPECT_EQ(choice["logprobs"]["tokens"], json({"a", "b"}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], json({-0.5, -0.25}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], json({0, 1}));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][0], json({{"a", -0.5}, {"bytes:\\xc3", -1.5}}));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1], json::object());

  client.send(post(R"({"prompt":"x","logprobs":2,"stream":true})", "/v1/completions"));
  ASSERT_TRUE(engine_.wait_submitted(2));
  say(2);
  json offsets = json::array();
  for (const json& event : events(client.read_response().body))
    for (const json& streamed : event["choices"])
      if (streamed["logprobs"].is_object())
        for (const json& offset : streamed["logprobs"]["text_offset"]) offsets.push_back(offset);
  EXPECT_EQ(offsets, json({0, 1}));
}

TEST_F(EndpointsTest, TokenizesAndBack) {
  start();
  EXPECT_EQ(answer_of("/tokenize", R"({"content":"ab"})"), json({{"tokens", {'a', 'b'}}}));
  EXPECT_EQ(answer_of("/v1/tokenize", R"({"content":"a<|end|>","add_special":true})"),
            json({{"tokens", {256, 'a', 257}}}));
  EXPECT_EQ(answer_of("/tokenize", R"({"content":"<|end|>","parse_special":false})")["tokens"].size(), 7u);
  EXPECT_EQ(answer_of("/tokenize", R"({"content":""})"), json({{"tokens", json::array()}}));
  const json pieces = answer_of("/tokenize", R"({"content":"a\u00e9","with_pieces":true})");
  EXPECT_EQ(pieces["tokens"][0], json({{"id", 'a'}, {"piece", "a"}}));
  EXPECT_EQ(pieces["tokens"][1], json({{"id", 0xC3}, {"piece", {0xC3}}}));
  EXPECT_EQ(answer_of("/detokenize", R"({"tokens":[97,98.0,257]})"), json({{"content", "ab<|end|>"}}));
  EXPECT_EQ(answer_of("/detokenize", R"({"tokens":[195]})"), json({{"content", "\xEF\xBF\xBD"}}));
  EXPECT_EQ(refusal("/tokenize", "{}"), "400 missing_field content");
  EXPECT_EQ(refusal("/tokenize", R"({"content":5})"), "400 invalid_value content");
  EXPECT_EQ(refusal("/tokenize", R"({"content":"a","with_pieces":1})"), "400 invalid_value with_pieces");
  EXPECT_EQ(refusal("/tokenize", "[]"), "400 invalid_json ");
  EXPECT_EQ(refusal("/detokenize", R"({"tokens":"a"})"), "400 invalid_value tokens");
  EXPECT_EQ(refusal("/detokenize", R"({"tokens":[1,999]})"), "400 invalid_value tokens[1]");
}

// Report group 10: what is counted is what the template makes of the messages.
TEST_F(EndpointsTest, AppliesTheTemplate_WithAsManyTokensAsAChatIsChargedFor) {
  engine_.mutable_info().chat_template =
      "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  start();
  engine_.answer({"x"});
  const json applied = answer_of("/apply-template", chat());
  EXPECT_EQ(applied, json({{"prompt", "<s>[user]Hi"}}));
  const json tokens = answer_of("/tokenize", json({{"content", "[user]Hi"}, {"add_special", true}}).dump());
  const json answer = answer_of("/v1/chat/completions", chat());
  EXPECT_EQ(engine_.request(1).prompt_tokens.size(), answer["usage"]["prompt_tokens"].get<size_t>());
  EXPECT_EQ(refusal("/apply-template", R"({"messages":[]})"), "400 invalid_value messages");
}

TEST_F(EndpointsTest, TellsOfModelsByEveryName) {
  options_.model_aliases = {"second/name"};
  start();
  const json list = parse(exchange(get("/v1/models")).body);
  EXPECT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][1]["id"], "second/name");
  for (const char* path : {"/v1/models/fake-model", "/models/second/name", "/v1/models/second%2Fname"}) {
    const Response response = exchange(get(path));
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_EQ(parse(response.body)["object"], "model");
  }
  const Response unknown = exchange(get("/v1/models/other"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(error_code(unknown), "model_not_found");
}

TEST_F(EndpointsTest, TakesAnyModel_WhenToldTo) {
  options_.ignore_model_name = true;
  start();
  engine_.answer({"x"});
  EXPECT_EQ(answer_of("/v1/chat/completions", chat(R"("model":"whatever")"))["model"], "fake-model");
}

TEST_F(EndpointsTest, ShowsPropsAndVersion_AndSlotsOnlyWhenOn) {
  options_.version = "9.8.7";
  engine_.mutable_info().chat_template = "T";
  start();
  EXPECT_EQ(parse(exchange(get("/version")).body)["version"], "9.8.7");
  const json props = parse(exchange(get("/props")).body);
  EXPECT_EQ(props["chat_template"], "T");
  EXPECT_EQ(props["bos_token"], "<s>");
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 4096);
  EXPECT_EQ(exchange(get("/slots")).status, 404);
  options_.slots_page = true;
  start();
  EngineStatus status;
  status.phase = EngineStatus::Phase::kReady;
  status.requests_running = 2;
  engine_.set_status(status);
  EXPECT_EQ(parse(exchange(get("/slots")).body).size(), 2u);
  const Response embeddings = exchange(post("{}", "/v1/embeddings"));
  EXPECT_EQ(embeddings.status, 404);
  EXPECT_EQ(error_code(embeddings), "not_found");
}

TEST_F(EndpointsTest, RefusesUnknownFields_WhenStrict) {
  options_.strict_params = true;
  start();
  EXPECT_EQ(refusal("/v1/chat/completions", chat(R"("no_such_field":1)")), "400 unsupported_parameter no_such_field");
  EXPECT_EQ(refusal("/v1/completions", R"({"prompt":"a","no_such_field":1})"),
            "400 unsupported_parameter no_such_field");
}

}  // namespace
}  // namespace llmd::test
