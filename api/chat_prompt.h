// ChatPrompt: a checked chat request to prompt text with provenance, through the model's chat template.
//
// With a template in the model: its variables are messages, add_generation_prompt, enable_thinking (true unless the
// client says otherwise), thinking and reasoning_effort when the client gives them, date_string, datetime, the keys of
// chat_template_kwargs, and bos_token and eos_token. Without one, a plain fallback: each message is "System: ",
// "User: ", "Assistant: " or "Tool: " with its text and an empty line, and the prompt ends with "Assistant:"; a
// generation then also stops at "\n\nUser:". Tool calls of earlier turns are given in the form that the template takes
// (tool_call_form.h). Immutable after load(): any thread may render.
// Errors: load: operating "template_invalid". render: client "template_rejected", "template_failed", param messages.
#pragma once

#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/chat_request.h"
#include "api/reasoning.h"
#include "api/template/chat_template.h"
#include "api/tool_call_form.h"
#include "io/result.h"
#include "model/tokenizer/tokenizer.h"

namespace llmd {

class ChatPrompt {
 public:
  /// `source`: the Jinja text; empty: the plain fallback.
  static Result<ChatPrompt> load(const std::string& source, std::string bos_token, std::string eos_token,
                                 const TemplateLimits& limits = {});

  /// Takes the messages and the kwargs out of `request`: they can be megabytes and are not needed afterwards.
  Result<std::vector<TextRun>> render(ChatRequest& request, const std::tm& now) const;
  /// How the model marks its thinking.
  const ReasoningTags& reasoning() const { return reasoning_; }
  /// A splitter for answers to this prompt, which render() has made: it may have opened the thinking.
  ReasoningSplitter splitter(std::span<const TextRun> prompt) const;
  /// Stop strings the prompt's form needs besides the client's.
  std::vector<std::string> stops() const;

 private:
  ChatPrompt() = default;
  std::unique_ptr<ChatTemplate> template_;  // null: the fallback
  ToolCallForm call_form_;
  std::string bos_token_, eos_token_;
  ReasoningTags reasoning_;
};

}  // namespace llmd
