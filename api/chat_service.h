// ChatService: from the bytes of a request to a generation that the engine can take, or to the whole answer.
//
// prepare() reads, checks, renders and tokenizes: it may take seconds for a huge prompt, so it runs on the one
// http-prepare thread and nowhere else. It must be called only once the engine has been ready. What goes wrong is a
// complete HTTP reply: a client's mistake is always 4xx.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat_prompt.h"
#include "api/chat_reply.h"
#include "api/engine.h"
#include "api/http_message.h"
#include "api/http_options.h"
#include "api/reasoning.h"
#include "api/router.h"

namespace llmd {

struct PreparedChat {
  GenerationRequest generation;
  ChatReply reply;
  bool stream = false, include_usage = false, return_progress = false;
  size_t choices = 1;
  ReasoningSplitter splitter = {};  // of each answer
};

struct PrepareOutcome {
  std::optional<PreparedChat> chat;
  HttpReply reply;  // when there is no chat: an error, or the whole answer
};

class ChatService {
 public:
  ChatService(Engine& engine, const HttpOptions& options) : engine_(engine), options_(options) {}

  /// Takes the body: it is gone before the prompt is made. Only requests of the same tenant share what was computed.
  PrepareOutcome prepare(Work work, std::string body, std::string_view tenant = {});

 private:
  using Json = nlohmann::ordered_json;
  using Prompt = std::vector<TextRun>;

  Status work(Work work, std::string& body, PrepareOutcome& outcome);
  Result<PreparedChat> build_chat(const Json& body);
  Result<PreparedChat> build_completion(const Json& body);
  Result<PreparedChat> admit(ChatRequest request, GenerationRequest generation, ReplyStyle style) const;
  Result<HttpReply> answer_text(Work work, const Json& body);
  Result<Json> read(std::string& body) const;
  Result<Prompt> render(ChatRequest& request);
  Result<std::vector<int32_t>> encode(const Prompt& runs, const char* param) const;
  Error too_long(int64_t tokens, bool at_least, const char* param) const;
  Status check_model(const std::string& name) const;
  Status load_prompt();

  Engine& engine_;
  const HttpOptions& options_;
  std::optional<ChatPrompt> prompt_;
  std::string tenant_;                         // of the request at hand
  mutable std::optional<HttpReply> too_long_;  // a refusal that says more than an Error can
};

/// `prefix` and 24 random letters and digits.
std::string random_id(const char* prefix);

}  // namespace llmd
