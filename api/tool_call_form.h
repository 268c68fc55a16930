// ToolCallForm: how a chat template wants the tool calls of earlier turns to be given to it.
//
// The API gives a call's arguments as a string of JSON and a message of calls alone with empty content. Some templates
// print that string as it is; others walk through the arguments and need an object; some print calls only where the
// content is none. Which it is, two to four renders of a small conversation tell when the template is loaded. A string
// is preferred where both print the same: its bytes are those that the model wrote, so its tokens are found in the
// cache. Pure functions; any thread.
#pragma once

#include <nlohmann/json.hpp>

#include "api/template/chat_template.h"
#include "io/result.h"

namespace llmd {

struct ToolCallForm {
  bool object_arguments = false;
  bool null_content = false;
};

/// Tries the forms on the template. Where no form prints the call: the API's own.
ToolCallForm find_tool_call_form(const ChatTemplate& chat_template, const TemplateInput& tokens);

/// Brings the messages' tool calls into the form. Arguments that are no JSON object stay a string. Errors: client
/// "invalid_value" when the arguments together hold too many values.
Status apply_tool_call_form(const ToolCallForm& form, nlohmann::ordered_json& messages);

}  // namespace llmd
