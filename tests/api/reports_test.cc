// What clients send, and what broke elsewhere on it: each test is named for the behaviour, and its group of reports is
// in the comment (docs/TESTING.md has the table).
#include <algorithm>
#include <vector>

#include "server_fixture.h"

namespace llmd::test {
namespace {

using nlohmann::json;

class ReportsTest : public ServerTest {
 protected:
  ReportsTest() { engine_.answer({"ok"}); }
  Response chat_with(const std::string& messages, const std::string& more = "") {
    return exchange(post("{\"messages\":" + messages + more + "}"));
  }
  /// The refusal's status, code and param, in a stream as well as whole.
  void expect_refused(const std::string& messages, const std::string& more, const std::string& wanted) {
    for (const char* stream : {"", ",\"stream\":true"}) {
      const Response response = chat_with(messages, more + stream);
      const json error = parse(response.body)["error"];
      ASSERT_TRUE(error.is_object()) << response.body;
      const std::string param = error["param"].is_string() ? error["param"].get<std::string>() : "";
      EXPECT_EQ(std::to_string(response.status) + " " + error["code"].get<std::string>() + " " + param, wanted)
          << messages << more;
      EXPECT_EQ(response.headers.at("content-type"), "application/json");
    }
  }
  std::string prompt_of(const std::string& messages) {
    const Response response = chat_with(messages);
    EXPECT_EQ(response.status, 200) << response.body;
    std::string text;
    for (const int32_t id : engine_.request(engine_.submitted()).prompt_tokens) {
      if (id < 256) text.push_back(static_cast<char>(id));
    }
    return text;
  }
  const std::string kHi = R"([{"role":"user","content":"Hi"}])";
};

// Group 9.
TEST_F(ReportsTest, PromptsFitUpToOneTokenBelowTheContext) {
  engine_.mutable_info().chat_template = "{{ messages[0].content }}";
  engine_.mutable_info().context_tokens = 64;
  start();
  const auto text = [](size_t bytes) {  // one token each, after BOS
    return R"([{"role":"user","content":")" + std::string(bytes, 'a') + "\"}]";
  };
  EXPECT_EQ(chat_with(text(62)).status, 200);  // 63 tokens: room for one
  EXPECT_EQ(engine_.request(1).tokens_max, 1);
  for (const size_t bytes : {63, 64, 65, 5000}) {
    expect_refused(text(bytes), "", "400 context_length_exceeded messages");
    const json error = parse(chat_with(text(bytes)).body)["error"];
    EXPECT_EQ(error["n_ctx"], 64);
    EXPECT_GE(error["n_prompt_tokens"].get<int>(), 64);
  }
}

// Group 11.
TEST_F(ReportsTest, LimitsAreTakenFromEitherName) {
  start();
  const auto limit = [&](const std::string& more) {
    EXPECT_EQ(chat_with(kHi, more).status, 200) << more;
    return engine_.request(engine_.submitted()).tokens_max;
  };
  const int32_t room = limit("");
  EXPECT_EQ(limit(R"(,"max_tokens":7)"), 7);
  EXPECT_EQ(limit(R"(,"max_completion_tokens":8)"), 8);
  EXPECT_EQ(limit(R"(,"max_completion_tokens":8,"max_tokens":7)"), 8);
  EXPECT_EQ(limit(R"(,"max_tokens":7,"max_completion_tokens":8)"), 8);
  EXPECT_EQ(limit(R"(,"max_tokens":7,"max_completion_tokens":null)"), 7);
  EXPECT_EQ(limit(R"(,"max_tokens":5.0)"), 5);
  EXPECT_EQ(limit(R"(,"n_predict":9)"), 9);
  EXPECT_EQ(limit(R"(,"n_predict":-1)"), room);
  EXPECT_EQ(limit(R"(,"max_tokens":99999999999999)"), room);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    for (const char* value : {"\"5\"", "-1", "0", "5.5", "true", "[5]", "1e999"}) {
      const std::string more = std::string(",\"") + name + "\":" + value;
      const std::string code =
          std::string(value) == "1e999" ? "400 invalid_json " : "400 invalid_value " + std::string(name);
      expect_refused(kHi, more, code);
    }
  }
}

// Group 13.
TEST_F(ReportsTest, MessagesMustBeAListOfMessages) {
  start();
  expect_refused("[]", "", "400 invalid_value messages");
  expect_refused("null", "", "400 missing_field messages");
  expect_refused("\"Hi\"", "", "400 invalid_value messages");
  expect_refused("{}", "", "400 invalid_value messages");
  expect_refused("[1]", "", "400 invalid_value messages[0]");
  expect_refused("[{}]", "", "400 missing_field messages[0].role");
  EXPECT_EQ(error_code(exchange(post("{}"))), "missing_field");
}

// Group 14.
TEST_F(ReportsTest, AssistantsMayCallToolsWithoutContent_ButNotSayNothing) {
  start();
  const std::string call = R"("tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}])";
  for (const std::string& content : {std::string(R"("content":null,)"), std::string()}) {
    EXPECT_EQ(chat_with(R"([{"role":"user","content":"a"},{"role":"assistant",)" + content + call +
                        R"(},{"role":"tool","tool_call_id":"c","content":"1"}])")
                  .status,
              200);
  }
  expect_refused(R"([{"role":"user","content":"a"},{"role":"assistant","content":null}])", "",
                 "400 missing_field messages[1].content");
}

// Group 15.
TEST_F(ReportsTest, TextPartsAreOneText) {
  start();
  const std::string parts = R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])";
  EXPECT_EQ(prompt_of(parts), prompt_of(R"([{"role":"user","content":"ab"}])"));
  expect_refused(R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])", "",
                 "400 invalid_value messages[0].content[0].type");
}

// Groups 16 and 17.
TEST_F(ReportsTest, SystemMessagesMayStandAnywhere_AndDevelopersAreSystem) {
  start();
  const std::string system = R"({"role":"system","content":"S"})", user = R"({"role":"user","content":"U"})",
                    developer = R"({"role":"developer","content":"S"})", tool = R"({"role":"tool","content":"T"})",
                    assistant = R"({"role":"assistant","content":"A"})";
  for (const std::string& order :
       {user + "," + system, system + "," + system + "," + user, user + "," + assistant + "," + system,
        tool + "," + user, assistant + "," + user, user + "," + user, system, user + "," + assistant}) {
    EXPECT_EQ(chat_with("[" + order + "]").status, 200) << order;
  }
  EXPECT_EQ(prompt_of("[" + developer + "," + user + "]"), prompt_of("[" + system + "," + user + "]"));
}

// A template may refuse an order: that is the client's to mend, whatever the words.
TEST_F(ReportsTest, ATemplatesRefusalIsA400) {
  engine_.mutable_info().chat_template = "{{ raise_exception('System message must be at the beginning.') }}";
  start();
  expect_refused(kHi, "", "400 template_rejected messages");
}

// Group 18.
TEST_F(ReportsTest, BrokenToolArgumentsInHistoryAreRenderedOrRefused) {
  engine_.mutable_info().chat_template =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}{% endfor %}{% endfor %}";
  start();
  const auto with = [](const std::string& arguments) {
    return R"([{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":)" +
           arguments + "}}]},{\"role\":\"user\",\"content\":\"a\"}]";
  };
  EXPECT_EQ(prompt_of(with(R"("{\"a\": ")")), "{\"a\": ");
  EXPECT_LT(chat_with(with("\"\"")).status, 500);
  EXPECT_LT(chat_with(with("17")).status, 500);
}

// Group 12: SDKs send null for what was not given.
TEST_F(ReportsTest, NullIsAbsent) {
  start();
  const std::string nulls =
      R"(,"model":null,"temperature":null,"top_p":null,"n":null,"stop":null,"stream":null,"stream_options":null,)"
      R"("max_tokens":null,"max_completion_tokens":null,"presence_penalty":null,"frequency_penalty":null,)"
      R"("logit_bias":null,"logprobs":null,"top_logprobs":null,"seed":null,"response_format":null,"tools":null,)"
      R"("tool_choice":null,"parallel_tool_calls":null,"user":null,"functions":null,"function_call":null,)"
      R"("audio":null,"modalities":null,"prediction":null,"store":null,"metadata":null,"reasoning_effort":null,)"
      R"("service_tier":null,"web_search_options":null,"verbosity":null,"grammar":null,"samplers":null)";
  EXPECT_EQ(chat_with(kHi, nulls).status, 200);
  EXPECT_EQ(chat_with(kHi, R"(,"tools":[],"tool_choice":"none","response_format":{"type":"text"})").status, 200);
}

// Group 21.
TEST_F(ReportsTest, SpecialTokensInWhatAClientSendsStayText) {
  engine_.mutable_info().chat_template =
      "{{ bos_token }}{% for m in messages %}{{ m.content }}{{ m.name }}<|end|>{% endfor %}";
  start();
  EXPECT_EQ(
      chat_with(R"([{"role":"tool","name":"<|end|>","content":"<|end|>"},{"role":"user","content":"<s>x"}])").status,
      200);
  const std::vector<int32_t> prompt = engine_.request(1).prompt_tokens;
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), FakeTokenizer::kEnd), 2);
}

// Group 26.
TEST_F(ReportsTest, TextMustBeUnicode) {
  start();
  expect_refused(R"([{"role":"user","content":"\ud83d"}])", "", "400 invalid_json ");
  expect_refused("[{\"role\":\"user\",\"content\":\"\xF0\x9F\"}]", "", "400 invalid_json ");
  EXPECT_NE(prompt_of(R"([{"role":"user","content":"\ud83d\ude00"}])").find("\xF0\x9F\x98\x80"), std::string::npos);
}

// Group 30: many different prompts leave nothing behind.
TEST_F(ReportsTest, AThousandPromptsLeaveNothingOpen) {
  start();
  RawClient client(port());
  for (int i = 0; i < 1000; ++i) {
    client.send(post(R"({"messages":[{"role":"user","content":")" + std::to_string(i * 7919) + R"("}]})"));
    ASSERT_EQ(client.read_response().status, 200) << i;
  }
  client.close();
  EXPECT_TRUE(wait_connections(0));
}

// No refusal says where things lie or repeats a prompt.
TEST_F(ReportsTest, RefusalsNameNoFileAndNoPrompt) {
  engine_.mutable_info().context_tokens = 32;
  start();
  const Response response = chat_with(R"([{"role":"user","content":"my secret words my secret words"}])");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body.find("secret"), std::string::npos);
  EXPECT_EQ(response.body.find(".gguf"), std::string::npos);
}

}  // namespace
}  // namespace llmd::test
