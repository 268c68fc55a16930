#include "api/chat_request.h"

namespace llmd {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMessagesMax = 8192, kCallsMax = 256;

Error wrong(std::string param, const std::string& what) {
  return client_error("invalid_value", param + what, param);
}

Error missing(std::string param) {
  return client_error("missing_field", param + " is missing.", param);
}

const ordered_json* find(const ordered_json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<std::string> join_parts(const ordered_json& parts, const std::string& path) {
  std::string text;
  for (size_t j = 0; j < parts.size(); ++j) {
    const std::string part_path = path + "[" + std::to_string(j) + "]";
    const ordered_json& part = parts[j];
    if (!part.is_object()) return wrong(part_path, " must be an object with type and text.");
    const ordered_json* type = find(part, "type");
    if (type == nullptr) return missing(part_path + ".type");
    if (!type->is_string() || *type != "text")
      return wrong(part_path + ".type", " must be \"text\": llmd reads text only.");
    const ordered_json* value = find(part, "text");
    if (value == nullptr) return missing(part_path + ".text");
    if (!value->is_string()) return wrong(part_path + ".text", " must be a string.");
    text += value->get_ref<const std::string&>();
  }
  return text;
}

Result<std::string> parse_role(const ordered_json& message, const std::string& path) {
  const ordered_json* role = find(message, "role");
  if (role == nullptr) return missing(path + ".role");
  if (role->is_string()) {
    const std::string& name = role->get_ref<const std::string&>();
    if (name == "developer") return std::string("system");
    if (name == "system" || name == "user" || name == "assistant" || name == "tool") return name;
    if (name == "function") return wrong(path + ".role", " \"function\" is not supported: use \"tool\".");
  }
  return wrong(path + ".role", " must be one of system, developer, user, assistant, tool.");
}

// Calls that the model made earlier in the conversation. Arguments are a string of JSON from here on; some clients send
// them as the object.
Result<ordered_json> parse_tool_calls(const ordered_json& calls, const std::string& path) {
  if (!calls.is_array()) return wrong(path, " must be an array.");
  if (calls.size() > kCallsMax) return wrong(path, " must hold at most " + std::to_string(kCallsMax) + " calls.");
  ordered_json out = ordered_json::array();
  for (size_t j = 0; j < calls.size(); ++j) {
    const std::string call_path = path + "[" + std::to_string(j) + "]";
    if (!calls[j].is_object()) return wrong(call_path, " must be an object.");
    const ordered_json* type = find(calls[j], "type");
    if (type != nullptr && *type != "function") return wrong(call_path + ".type", " must be \"function\".");
    const ordered_json* function = find(calls[j], "function");
    if (function == nullptr) return missing(call_path + ".function");
    if (!function->is_object()) return wrong(call_path + ".function", " must be an object.");
    const ordered_json* name = find(*function, "name");
    if (name == nullptr) return missing(call_path + ".function.name");
    if (!name->is_string()) return wrong(call_path + ".function.name", " must be a string.");
    const ordered_json* arguments = find(*function, "arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      return wrong(call_path + ".function.arguments", " must be a string of JSON, or an object.");
    }
    ordered_json call;
    if (const ordered_json* id = find(calls[j], "id")) {
      if (!id->is_string()) return wrong(call_path + ".id", " must be a string.");
      call["id"] = *id;
    }
    call["type"] = "function";
    std::string text = "{}";
    if (arguments != nullptr) text = arguments->is_object() ? arguments->dump() : arguments->get<std::string>();
    call["function"] = {{"name", *name}, {"arguments", std::move(text)}};
    out.push_back(std::move(call));
  }
  return out;
}

Result<std::string> parse_content(const ordered_json& message, const std::string& role, bool has_calls,
                                  const std::string& path) {
  const auto it = message.find("content");
  const bool optional = role == "assistant" && has_calls;
  if (it == message.end() && !optional) return missing(path + ".content");
  if (it == message.end() || it->is_null()) {
    if (role == "assistant" && !optional) {
      return client_error("missing_field", path + " has neither content nor tool_calls.", path + ".content");
    }
    return std::string();
  }
  if (it->is_string()) return it->get<std::string>();
  if (it->is_array()) return join_parts(*it, path + ".content");
  return wrong(path + ".content", " must be a string or an array of text parts.");
}

Result<ordered_json> parse_message(const ordered_json& message, const std::string& path) {
  if (!message.is_object()) return wrong(path, " must be an object.");
  LLMD_ASSIGN_OR_RETURN(const std::string role, parse_role(message, path));
  if (find(message, "function_call") != nullptr) {
    return client_error("unsupported_parameter", path + ".function_call is not supported: use tool_calls.",
                        path + ".function_call");
  }
  ordered_json calls;
  if (const ordered_json* given = find(message, "tool_calls")) {
    if (role != "assistant") return wrong(path + ".tool_calls", " belongs to assistant messages only.");
    LLMD_ASSIGN_OR_RETURN(calls, parse_tool_calls(*given, path + ".tool_calls"));
  }
  const bool has_calls = calls.is_array() && !calls.empty();
  LLMD_ASSIGN_OR_RETURN(std::string content, parse_content(message, role, has_calls, path));
  ordered_json out;
  out["role"] = role;
  out["content"] = std::move(content);
  for (const char* key : {"name", "reasoning_content", "tool_call_id"}) {
    const ordered_json* value = find(message, key);
    if (value == nullptr) continue;
    if (!value->is_string()) return wrong(path + "." + key, " must be a string.");
    out[key] = *value;
  }
  if (has_calls) out["tool_calls"] = std::move(calls);
  return out;
}

}  // namespace

Result<ordered_json> parse_messages(const ordered_json& messages) {
  if (!messages.is_array()) return wrong("messages", " must be an array.");
  if (messages.empty()) return wrong("messages", " must hold at least one message.");
  if (messages.size() > kMessagesMax) {
    return wrong("messages", " must hold at most " + std::to_string(kMessagesMax) + " messages.");
  }
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string path = "messages[" + std::to_string(i) + "]";
    LLMD_ASSIGN_OR_RETURN(ordered_json message, parse_message(messages[i], path));
    out.push_back(std::move(message));
  }
  const size_t count = out.size();
  if (count >= 2 && out[count - 1]["role"] == "assistant" && out[count - 2]["role"] == "assistant") {
    return wrong("messages", " must not end with two assistant messages.");
  }
  return out;
}

}  // namespace llmd
