#include "api/text_endpoints.h"

#include "api/chat_fields.h"
#include "model/tokenizer/utf8.h"

namespace llmd {
namespace {

using nlohmann::ordered_json;

constexpr size_t kReplyBytesMax = 16 << 20;

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<bool> flag(const ordered_json& body, const char* name, bool otherwise) {
  const auto it = body.find(name);
  if (it == body.end() || it->is_null()) return otherwise;
  return boolean(*it, name);
}

Result<const ordered_json*> member(const ordered_json& body, const char* name) {
  if (!body.is_object()) return client_error("invalid_json", "The body must be a JSON object.");
  const auto it = body.find(name);
  if (it == body.end() || it->is_null()) {
    return client_error("missing_field", std::string(name) + " is missing.", name);
  }
  return &*it;
}

std::string piece_json(std::string_view bytes) {
  if (is_utf8(bytes)) return dump(ordered_json(bytes));
  ordered_json list = ordered_json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return dump(list);
}

}  // namespace

Result<HttpReply> tokenize_reply(const ordered_json& body, const Tokenizer& tokenizer) {
  LLMD_ASSIGN_OR_RETURN(const ordered_json* content, member(body, "content"));
  if (!content->is_string()) return wrong_value("content", " must be a string.");
  LLMD_ASSIGN_OR_RETURN(const bool add_special, flag(body, "add_special", false));
  LLMD_ASSIGN_OR_RETURN(const bool parse_special, flag(body, "parse_special", true));
  LLMD_ASSIGN_OR_RETURN(const bool with_pieces, flag(body, "with_pieces", false));
  // As text from the start: as a document it would take many times as much.
  HttpReply reply;
  reply.body = "{\"tokens\":[";
  const char* separator = "";
  for (const int32_t id : tokenizer.encode(content->get_ref<const std::string&>(), parse_special, add_special)) {
    reply.body += separator;
    if (with_pieces) {
      reply.body += "{\"id\":" + std::to_string(id) + ",\"piece\":" + piece_json(tokenizer.token_bytes(id, true)) + "}";
    } else {
      reply.body += std::to_string(id);
    }
    separator = ",";
    if (reply.body.size() > kReplyBytesMax) {
      return client_error("reply_too_large", "The pieces take more than 16 MiB: send less content.", "content");
    }
  }
  reply.body += "]}\n";
  return reply;
}

Result<HttpReply> detokenize_reply(const ordered_json& body, const Tokenizer& tokenizer) {
  LLMD_ASSIGN_OR_RETURN(const ordered_json* tokens, member(body, "tokens"));
  if (!tokens->is_array()) return wrong_value("tokens", " must be an array of token ids.");
  std::string text;
  for (size_t i = 0; i < tokens->size(); ++i) {
    LLMD_ASSIGN_OR_RETURN(const int64_t id,
                          integer_in((*tokens)[i], "tokens[" + std::to_string(i) + "]", 0, tokenizer.vocab_size() - 1));
    text += tokenizer.token_bytes(static_cast<int32_t>(id), true);
    if (text.size() > kReplyBytesMax) {
      return client_error("reply_too_large", "The text takes more than 16 MiB: send fewer tokens.", "tokens");
    }
  }
  HttpReply reply;
  reply.body = dump(ordered_json{{"content", std::move(text)}}) + "\n";
  return reply;
}

HttpReply prompt_reply(const std::vector<TextRun>& runs) {
  std::string text;
  for (const TextRun& run : runs) text += run.text;
  HttpReply reply;
  reply.body = dump(ordered_json{{"prompt", std::move(text)}}) + "\n";
  return reply;
}

}  // namespace llmd
