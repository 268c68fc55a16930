#include "api/chat_prompt.h"

#include <array>

namespace llmd {
namespace {

using nlohmann::ordered_json;

std::string format_time(const std::tm& now, const char* format) {
  std::array<char, 64> text{};
  const size_t size = std::strftime(text.data(), text.size(), format, &now);
  return std::string(text.data(), size);
}

std::vector<TextRun> render_plain(const ordered_json& messages) {
  std::vector<TextRun> runs;
  for (const ordered_json& message : messages) {
    std::string role = message["role"].get<std::string>();
    role[0] = static_cast<char>(role[0] - 'a' + 'A');
    runs.push_back({role + ": ", true});
    runs.push_back({message["content"].get<std::string>(), false});
    runs.push_back({"\n\n", true});
  }
  runs.push_back({"Assistant:", true});
  return runs;
}

ordered_json template_variables(ChatRequest& request, const std::tm& now) {
  ordered_json variables;
  variables["messages"] = std::move(request.messages);
  variables["add_generation_prompt"] = true;
  variables["enable_thinking"] = request.thinking.value_or(true);
  // Models differ in the name of the switch. `thinking` stays undefined unless asked for: a template's own default for
  // it is its publisher's choice.
  if (request.thinking) variables["thinking"] = *request.thinking;
  if (!request.reasoning_effort.empty()) variables["reasoning_effort"] = request.reasoning_effort;
  variables["date_string"] = format_time(now, "%d %b %Y");
  variables["datetime"] = format_time(now, "%b %d %Y");
  for (const auto& [name, value] : request.template_kwargs.items()) variables[name] = std::move(value);
  return variables;
}

}  // namespace

Result<ChatPrompt> ChatPrompt::load(const std::string& source, std::string bos_token, std::string eos_token,
                                    const TemplateLimits& limits) {
  ChatPrompt prompt;
  if (!source.empty()) {
    LLMD_ASSIGN_OR_RETURN(prompt.template_, ChatTemplate::parse(source, limits));
    TemplateInput tokens;
    tokens.bos_token = bos_token;
    tokens.eos_token = eos_token;
    prompt.call_form_ = find_tool_call_form(*prompt.template_, tokens);
  }
  prompt.reasoning_ = reasoning_tags(source);
  prompt.bos_token_ = std::move(bos_token);
  prompt.eos_token_ = std::move(eos_token);
  return prompt;
}

Result<std::vector<TextRun>> ChatPrompt::render(ChatRequest& request, const std::tm& now) const {
  if (template_ == nullptr) return render_plain(request.messages);
  LLMD_RETURN_IF_ERROR(apply_tool_call_form(call_form_, request.messages));
  TemplateInput input;
  input.variables = template_variables(request, now);
  input.bos_token = bos_token_;
  input.eos_token = eos_token_;
  input.now = now;
  Result<std::vector<TextRun>> runs = template_->render(input);
  if (runs.ok()) return runs;
  Error error = std::move(runs).error();
  error.param = "messages";
  if (error.code == "template_rejected") error.message = "The model's chat template says: " + error.message;
  return error;
}

ReasoningSplitter ChatPrompt::splitter(std::span<const TextRun> prompt) const {
  // The end of the prompt that is the template's own; a client's text opens nothing.
  std::string end;
  for (size_t i = prompt.size(); i > 0 && prompt[i - 1].trusted && end.size() < reasoning_.open.size() + 16; i--)
    end.insert(0, prompt[i - 1].text);
  const size_t last = end.find_last_not_of(" \t\r\n");
  end.resize(last == std::string::npos ? 0 : last + 1);
  return ReasoningSplitter(reasoning_, !reasoning_.open.empty() && end.ends_with(reasoning_.open));
}

std::vector<std::string> ChatPrompt::stops() const {
  return template_ == nullptr ? std::vector<std::string>{"\n\nUser:"} : std::vector<std::string>{};
}

}  // namespace llmd
