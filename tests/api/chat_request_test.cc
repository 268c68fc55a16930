#include "api/chat_request.h"

#include <gtest/gtest.h>

#include <string>

#include "api/chat_prompt.h"
#include "api/json_input.h"

namespace llmd {
namespace {

const std::string kMessages = R"("messages":[{"role":"user","content":"Hi"}])";

Result<ChatRequest> parse(const std::string& members, bool strict = false) {
  auto json = parse_json("{" + members + "}");
  EXPECT_TRUE(json.ok()) << members;
  return parse_chat_request(*json, strict);
}
Result<ChatRequest> parse_with(const std::string& members) {
  return parse(kMessages + "," + members);
}

TEST(ChatRequest, RefusesWithParam_WhatIsWrongOrCannotBeHonoured) {
  struct Row {
    const char* members;
    const char* code;
    const char* param;
  };
  constexpr const char *kWrong = "invalid_value", *kNo = "unsupported_parameter";
  const Row rows[] = {
      {R"("max_tokens":0)", kWrong, "max_tokens"},
      {R"("max_tokens":-1)", kWrong, "max_tokens"},
      {R"("max_tokens":"5")", kWrong, "max_tokens"},
      {R"("max_tokens":5.5)", kWrong, "max_tokens"},
      {R"("max_tokens":true)", kWrong, "max_tokens"},
      {R"("max_completion_tokens":0)", kWrong, "max_completion_tokens"},
      {R"("stop":"")", kWrong, "stop"},
      {R"("stop":["a",""])", kWrong, "stop[1]"},
      {R"("stop":["a",1])", kWrong, "stop[1]"},
      {R"("stop":7)", kWrong, "stop"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","0","1","2","3","4","5","6","7"])", kWrong, "stop"},
      {R"("stream":"true")", kWrong, "stream"},
      {R"("stream_options":{"include_usage":true})", kWrong, "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", kWrong, "stream_options.include_usage"},
      {R"("stream":true,"stream_options":[])", kWrong, "stream_options"},
      {R"("model":7)", kWrong, "model"},
      {R"("n":0)", kWrong, "n"},
      {R"("n":17)", kWrong, "n"},
      {R"("tools":[{"type":"function"}])", kNo, "tools"},
      {R"("tool_choice":"required")", kNo, "tool_choice"},
      {R"("functions":[])", kNo, "functions"},
      {R"("function_call":"auto")", kNo, "function_call"},
      {R"("response_format":{"type":"json_object"})", kNo, "response_format"},
      {R"("response_format":"text")", kWrong, "response_format"},
      {R"("grammar":"root ::= x")", kNo, "grammar"},
      {R"("audio":{})", kNo, "audio"},
      {R"("modalities":["text","audio"])", kNo, "modalities"},
      {R"("web_search_options":{})", kNo, "web_search_options"},
      {R"("prediction":{})", kNo, "prediction"},
      {R"("store":true)", kNo, "store"},
      {R"("reasoning_effort":"extreme")", kWrong, "reasoning_effort"},
      {R"("thinking":{"type":"maybe"})", kWrong, "thinking"},
      {R"("enable_thinking":1)", kWrong, "enable_thinking"},
      {R"("cache_salt":7)", kWrong, "cache_salt"},
      {R"("prompt_cache_key":["a"])", kWrong, "prompt_cache_key"},
      {R"("priority":1001)", kWrong, "priority"},
      {R"("priority":"high")", kWrong, "priority"},
      {R"("deadline_seconds":0)", kWrong, "deadline_seconds"},
      {R"("chat_template_kwargs":[])", kWrong, "chat_template_kwargs"},
      {R"("chat_template_kwargs":{"messages":[]})", kWrong, "chat_template_kwargs.messages"},
  };
  for (const Row& row : rows) {
    const auto result = parse_with(row.members);
    ASSERT_FALSE(result.ok()) << row.members;
    EXPECT_EQ(result.error().code, row.code) << row.members;
    EXPECT_EQ(result.error().param, row.param) << row.members;
    EXPECT_EQ(result.error().kind, ErrorKind::kClient);
  }
}

TEST(ChatRequest, RefusesWithParam_WhatIsWrongInMessages) {
  struct Row {
    const char* members;
    const char* code;
    const char* param;
  };
  constexpr const char *kWrong = "invalid_value", *kMissing = "missing_field";
  for (const Row& row : {
           Row{R"("model":"m")", kMissing, "messages"},
           Row{R"("messages":null)", kMissing, "messages"},
           Row{R"("messages":[])", kWrong, "messages"},
           Row{R"("messages":"Hi")", kWrong, "messages"},
           Row{R"("messages":{})", kWrong, "messages"},
           Row{R"("messages":[7])", kWrong, "messages[0]"},
           Row{R"("messages":[null])", kWrong, "messages[0]"},
           Row{R"("messages":[{"content":"a"}])", kMissing, "messages[0].role"},
           Row{R"("messages":[{"role":"robot","content":"a"}])", kWrong, "messages[0].role"},
           Row{R"("messages":[{"role":"function","content":"a"}])", kWrong, "messages[0].role"},
           Row{R"("messages":[{"role":7,"content":"a"}])", kWrong, "messages[0].role"},
           Row{R"("messages":[{"role":"user"}])", kMissing, "messages[0].content"},
           Row{R"("messages":[{"role":"user","content":7}])", kWrong, "messages[0].content"},
           Row{R"("messages":[{"role":"user","content":"a"},{"role":"assistant"}])", kMissing, "messages[1].content"},
           Row{R"("messages":[{"role":"assistant","content":null}])", kMissing, "messages[0].content"},
           Row{R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}])", kWrong,
               "messages[0].content[0].type"},
           Row{R"("messages":[{"role":"user","content":[{"type":"text"}]}])", kMissing, "messages[0].content[0].text"},
           Row{R"("messages":[{"role":"user","content":["a"]}])", kWrong, "messages[0].content[0]"},
           Row{R"("messages":[{"role":"user","content":"a","name":7}])", kWrong, "messages[0].name"},
           Row{R"("messages":[{"role":"user","content":"a","tool_calls":[]}])", kWrong, "messages[0].tool_calls"},
           Row{R"("messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[1]}}]}])", kWrong,
               "messages[0].tool_calls[0].function.arguments"},
           Row{R"("messages":[{"role":"assistant","tool_calls":[{}]}])", kMissing,
               "messages[0].tool_calls[0].function"},
           Row{R"("messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}])", kWrong,
               "messages"},
       }) {
    const auto result = parse(row.members);
    ASSERT_FALSE(result.ok()) << row.members;
    EXPECT_EQ(result.error().code, row.code) << row.members;
    EXPECT_EQ(result.error().param, row.param) << row.members;
  }
}

TEST(ChatRequest, TakesNullAsAbsent_ForEveryOptionalField) {
  std::string members = kMessages;
  for (const char* field : {"model",
                            "max_tokens",
                            "max_completion_tokens",
                            "temperature",
                            "top_p",
                            "top_k",
                            "min_p",
                            "seed",
                            "stop",
                            "stream",
                            "stream_options",
                            "n",
                            "tools",
                            "tool_choice",
                            "functions",
                            "function_call",
                            "response_format",
                            "logprobs",
                            "top_logprobs",
                            "logit_bias",
                            "presence_penalty",
                            "frequency_penalty",
                            "audio",
                            "modalities",
                            "store",
                            "reasoning_effort",
                            "thinking",
                            "enable_thinking",
                            "chat_template_kwargs",
                            "user",
                            "metadata",
                            "prediction"}) {
    members += ",\"" + std::string(field) + "\":null";
  }
  const auto result = parse(members);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_FALSE(result->tokens_max.has_value());
  EXPECT_FALSE(result->has_seed);
  EXPECT_EQ(result->sampling.temperature, SamplingParams().temperature);
  EXPECT_EQ(result->sampling.top_p, SamplingParams().top_p);
}

TEST(ChatRequest, TakesWhatChangesNothing) {
  const auto result = parse_with(
      R"("tools":[],"tool_choice":"auto","logprobs":false,"top_logprobs":0,"logit_bias":{},"presence_penalty":0,
         "frequency_penalty":0.0,"n":1,"store":false,"response_format":{"type":"text"},"user":"u","metadata":{"a":"b"},
         "service_tier":"auto","verbosity":"low","no_such_field":{"x":1},"repeat_penalty":1.0,"modalities":["text"])");
  EXPECT_TRUE(result.ok()) << result.error().message;
  EXPECT_FALSE(parse(kMessages + R"(,"no_such_field":1)", true).ok());
}

TEST(ChatRequest, ReadsValues) {
  const auto result = parse_with(
      R"("model":"m","max_tokens":9,"max_completion_tokens":5.0,"temperature":0,"top_p":0.5,"top_k":40.0,"min_p":0.1,
         "seed":-7,"stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"return_progress":true,
         "cache_prompt":false,"reasoning_effort":"none","chat_template_kwargs":{"k":1})");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->model, "m");
  EXPECT_EQ(result->tokens_max, 5);
  EXPECT_EQ(result->sampling.temperature, 0.0f);
  EXPECT_EQ(result->sampling.top_p, 0.5f);
  EXPECT_EQ(result->sampling.top_k, 40);
  EXPECT_EQ(result->sampling.min_p, 0.1f);
  EXPECT_EQ(result->sampling.seed, static_cast<uint64_t>(-7));
  EXPECT_EQ(result->stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(result->stream && result->include_usage && result->return_progress && !result->cache_prompt);
  EXPECT_EQ(result->thinking, false);
  EXPECT_EQ(result->template_kwargs["k"], 1);
  EXPECT_EQ(parse_with(R"("max_completion_tokens":5,"max_tokens":9)")->tokens_max, 5);
  EXPECT_EQ(parse_with(R"("max_tokens":99999999999999)")->tokens_max, 2147483647);
  EXPECT_EQ(parse_with(R"("stop":"x")")->stops.size(), 1u);
  EXPECT_EQ(parse_with(R"("seed":9223372036854775807)")->sampling.seed, 9223372036854775807u);
  EXPECT_EQ(parse_with(R"("top_k":-1)")->sampling.top_k, 0);
}

TEST(ChatRequest, NormalisesMessages) {
  const auto result = parse(
      R"("messages":[{"role":"developer","content":"S"},{"role":"system","content":null},
         {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"n","audio":1},
         {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
           "function":{"name":"f","arguments":"{not json"}},{"function":{"name":"g","arguments":{"b":1,"a":["é"]}}}]},
         {"role":"tool","tool_call_id":"c1","content":"r"}])");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->messages.dump(), R"([{"role":"system","content":"S"},{"role":"system","content":""},)"
                                     R"({"role":"user","content":"ab","name":"n"},)"
                                     R"({"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function",)"
                                     R"("function":{"name":"f","arguments":"{not json"}},)"
                                     R"({"type":"function","function":{"name":"g",)"
                                     R"("arguments":"{\"b\":1,\"a\":[\"é\"]}"}}]},)"
                                     R"({"role":"tool","content":"r","tool_call_id":"c1"}])");
}

// Each of these once held the prepare thread for minutes or kept 130 MB.
TEST(ChatRequest, RefusesWithParam_WhatIsTooMany) {
  std::string members, calls;
  for (int i = 0; i < 65; ++i) members += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":0";
  const auto kwargs = parse_with("\"chat_template_kwargs\":{" + members + "}");
  ASSERT_FALSE(kwargs.ok());
  EXPECT_EQ(kwargs.error().param, "chat_template_kwargs");
  for (int i = 0; i < 257; ++i) calls += std::string(i == 0 ? "" : ",") + R"({"function":{"name":"f"}})";
  const auto many = parse(R"("messages":[{"role":"assistant","tool_calls":[)" + calls + "]}]");
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().param, "messages[0].tool_calls");
}

TEST(ChatPrompt, FallsBackToPlainTurns_WhenModelHasNoTemplate) {
  const auto prompt = ChatPrompt::load("", "<s>", "</s>");
  ASSERT_TRUE(prompt.ok());
  auto request = parse(R"("messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  const auto runs = prompt->render(*request, {});
  ASSERT_TRUE(runs.ok());
  std::string text;
  for (const TextRun& run : *runs) {
    EXPECT_EQ(run.trusted, run.text != "Be brief." && run.text != "Hi");
    text += run.text;
  }
  EXPECT_EQ(text, "System: Be brief.\n\nUser: Hi\n\nAssistant:");
  EXPECT_EQ(prompt->stops(), std::vector<std::string>{"\n\nUser:"});
}

TEST(ChatPrompt, SaysTemplateInvalid_WhenItCannotBeParsed) {
  const auto prompt = ChatPrompt::load("{% if %}", "", "");
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().code, "template_invalid");
}

}  // namespace
}  // namespace llmd
