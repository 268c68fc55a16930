// The form of tool calls that a template takes: small templates of each kind, and the published ones.
#include "api/tool_call_form.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "api/chat_prompt.h"

namespace llmd {
namespace {

using nlohmann::ordered_json;

ToolCallForm form_of(const std::string& source) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  TemplateInput tokens;
  tokens.bos_token = "<s>";
  tokens.eos_token = "</s>";
  return parsed.ok() ? find_tool_call_form(*parsed.value(), tokens) : ToolCallForm();
}

std::string calls(const std::string& use, const std::string& when = "m.tool_calls") {
  return "{% for m in messages %}{% if " + when + " %}{% for c in m.tool_calls %}{% set a = c.function.arguments %}" +
         use + "{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
}

TEST(ToolCallForm, IsText_WhereTheTemplatePrintsIt) {
  for (const char* use : {"{{ a }}", "{{ '```' + a }}", "{{ a if a is string else a | tojson }}"}) {
    const ToolCallForm form = form_of(calls(use));
    EXPECT_FALSE(form.object_arguments) << use;
    EXPECT_FALSE(form.null_content) << use;
  }
}

TEST(ToolCallForm, IsAnObject_WhereTheTemplateWalksOrWritesIt) {
  for (const char* use :
       {"{% for k, v in a.items() %}<{{ k }}>{{ v }}{% endfor %}", "{{ a | tojson }}",
        "{% if a is mapping %}{% for k in a %}{{ k }}={{ a[k] }}{% endfor %}{% else %}{{ a }}{% endif %}",
        "{% if a is mapping %}{{ a | tojson(indent=2) }}{% endif %}"}) {
    EXPECT_TRUE(form_of(calls(use)).object_arguments) << use;
  }
}

TEST(ToolCallForm, HasNoContent_WhereTheTemplateAsksForThat) {
  const ToolCallForm form = form_of(calls("{{ a }}", "m.content is none"));
  EXPECT_TRUE(form.null_content);
  EXPECT_FALSE(form.object_arguments);
}

TEST(ToolCallForm, IsTheApis_WhereCallsAreNotPrintedOrRefused) {
  for (const char* source : {"{% for m in messages %}{{ m.content }}{% endfor %}", "{{ raise_exception('never') }}"}) {
    EXPECT_FALSE(form_of(source).object_arguments);
    EXPECT_FALSE(form_of(source).null_content);
  }
}

TEST(ToolCallForm, IsApplied_AndKeepsWhatIsNoObject) {
  ordered_json messages = ordered_json::array();
  for (const char* arguments : {R"({"b": 1, "a": [true]})", "[1]", "{broken", "", "\"text\""}) {
    const ordered_json call = {{"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
    messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", ordered_json::array({call})}});
  }
  messages.push_back({{"role", "assistant"}, {"content", ""}});
  ASSERT_TRUE(apply_tool_call_form({true, true}, messages).ok());
  auto arguments = [&](size_t i) { return messages[i]["tool_calls"][0]["function"]["arguments"].dump(); };
  EXPECT_EQ(arguments(0), R"({"b":1,"a":[true]})");
  EXPECT_EQ(arguments(1), R"("[1]")");
  EXPECT_EQ(arguments(2), R"("{broken")");
  EXPECT_TRUE(messages[0]["content"].is_null());
  EXPECT_EQ(messages[5]["content"], "");  // no calls: empty content is what was said
}

TEST(ToolCallForm, RefusesArgumentsOfTooManyValues) {
  ordered_json messages = ordered_json::array();
  std::string list = R"({"a":[0)";
  for (int i = 0; i < 40000; i++) list += ",0";
  const ordered_json call = {{"function", {{"name", "f"}, {"arguments", list + "]}"}}}};
  messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", ordered_json::array({call, call})}});
  const Status status = apply_tool_call_form({true, false}, messages);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kClient);
  EXPECT_EQ(status.error().param, "messages");
}

/// A conversation with a call, through the template as the API does it; empty when it is refused.
std::string render_conversation(const std::string& source) {
  const Result<ChatPrompt> prompt = ChatPrompt::load(source, "<s>", "</s>");
  if (!prompt.ok()) return "";
  const ordered_json call = {
      {"id", "abcdef123"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", R"({"city": "Ulm"})"}}}};
  ChatRequest request;
  request.messages =
      ordered_json::array({{{"role", "user"}, {"content", "x"}},
                           {{"role", "assistant"}, {"content", ""}, {"tool_calls", ordered_json::array({call})}},
                           {{"role", "tool"}, {"content", "y"}, {"tool_call_id", "abcdef123"}}});
  const auto runs = prompt->render(request, std::tm());
  std::string text;
  if (runs.ok()) {
    for (const TextRun& run : *runs) text += run.text;
  }
  return text;
}

TEST(ToolCallForm, ShowsTheCalls_InThePublishedTemplates) {
  const std::filesystem::path folder = LLMD_SOURCE_DIR "/../shared/data/chat-templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIPPED, NOT CHECKED: no templates at " << folder;
  std::map<std::string, std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    sources[entry.path().stem().string()].assign(std::istreambuf_iterator<char>(file), {});
  }
  const std::set<std::string> know_no_calls = {
      "HuggingFaceTB-SmolLM3-3B",
      "LFM2-8B-A1B",
      "LFM2.5-Instruct",
      "google-gemma-2-2b-it",
      "llama-cpp-rwkv-world",
      "ibm-granite-granite-3.3-2B-Instruct",
      "microsoft-Phi-3.5-mini-instruct",
      "fireworks-ai-llama-3-firefunction-v2",  // needs a variable of its own
  };
  for (const auto& [name, source] : sources) {
    const std::string text = render_conversation(source);
    const bool shown = text.find("city") != std::string::npos && text.find("Ulm") != std::string::npos;
    EXPECT_EQ(shown, know_no_calls.count(name) == 0) << name << ": " << text;
    EXPECT_EQ(text.find("'city'"), std::string::npos) << name;
    EXPECT_EQ(text.find("\\\"city"), std::string::npos) << name;
  }
  const std::string old_deepseek = "deepseek-ai-DeepSeek-R1-Distill-Llama-8B";
  EXPECT_TRUE(form_of(sources[old_deepseek]).null_content);
  for (const char* name :
       {"deepseek-ai-DeepSeek-V3.2", "GLM-4.6", "Qwen3-Coder", "MiniMax-M2", "openai-gpt-oss-120b"}) {
    EXPECT_TRUE(form_of(sources[name]).object_arguments) << name;
  }
  for (const char* name : {"Kimi-K2-Instruct", "GigaChat3-10B-A1.8B", "Qwen-Qwen3-0.6B"}) {
    EXPECT_FALSE(form_of(sources[name]).object_arguments) << name;
  }
}

}  // namespace
}  // namespace llmd
