#include "api/tool_call_form.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "api/json_input.h"

namespace llmd {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kArguments = R"({"llmd_key": "llmd_value"})";

/// The prompt of a conversation with one tool call; empty when the template does not take it.
std::string render_call(const ChatTemplate& chat_template, const TemplateInput& tokens, const ToolCallForm& form) {
  const ordered_json arguments =
      form.object_arguments ? ordered_json::parse(kArguments) : ordered_json(std::string(kArguments));
  const ordered_json call = {
      {"id", "abcdef123"}, {"type", "function"}, {"function", {{"name", "llmd_tool"}, {"arguments", arguments}}}};
  TemplateInput input = tokens;
  input.variables["messages"] =
      ordered_json::array({{{"role", "user"}, {"content", "x"}},
                           {{"role", "assistant"},
                            {"content", form.null_content ? ordered_json() : ordered_json("")},
                            {"tool_calls", ordered_json::array({call})}},
                           {{"role", "tool"}, {"content", "y"}, {"tool_call_id", "abcdef123"}, {"name", "llmd_tool"}}});
  input.variables["add_generation_prompt"] = true;
  const Result<std::vector<TextRun>> runs = chat_template.render(input);
  std::string text;
  if (!runs.ok()) return text;
  for (const TextRun& run : *runs) text += run.text;
  return text;
}

/// At most so many JSON values does the text hold.
size_t values_bound(std::string_view text) {
  return 1 + static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                               [](char c) { return c == ',' || c == ':' || c == '[' || c == '{'; }));
}

}  // namespace

ToolCallForm find_tool_call_form(const ChatTemplate& chat_template, const TemplateInput& tokens) {
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  for (const bool null_content : {false, true}) {
    const std::string text = render_call(chat_template, tokens, {false, null_content});
    const std::string object = render_call(chat_template, tokens, {true, null_content});
    const bool text_good = has(text, kArguments);
    // An object that is printed as Python prints it ('key') is no form that a model was taught.
    const bool object_good = has(object, "llmd_key") && has(object, "llmd_value") && !has(object, "'llmd_key'");
    if (text_good && (!object_good || text == object)) return {false, null_content};
    if (object_good) return {true, null_content};
  }
  return {};
}

Status apply_tool_call_form(const ToolCallForm& form, ordered_json& messages) {
  size_t values = 0;
  for (ordered_json& message : messages) {
    const auto calls = message.find("tool_calls");
    if (calls == message.end()) continue;
    if (form.null_content && message["content"] == "") message["content"] = nullptr;
    if (!form.object_arguments) continue;
    for (ordered_json& call : *calls) {
      ordered_json& arguments = call["function"]["arguments"];
      const std::string& text = arguments.get_ref<const std::string&>();
      values += values_bound(text);
      if (values > JsonLimits().values_max) {
        return client_error("invalid_value", "messages: the arguments of all tool calls together hold too many values.",
                            "messages");
      }
      Result<ordered_json> parsed = parse_json(text);
      if (parsed.ok() && parsed->is_object()) arguments = std::move(parsed).value();
    }
  }
  return {};
}

}  // namespace llmd
