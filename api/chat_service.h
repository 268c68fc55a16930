// ChatService: from the bytes of a chat completion request to a generation the engine can take.
//
// prepare() reads, checks, renders and tokenizes: it may take seconds for a huge prompt, so it runs on the one
// http-prepare thread and nowhere else. It must be called only once the engine has been ready. What goes wrong is a
// complete HTTP reply: a client's mistake is always 4xx.
#pragma once

#include <optional>
#include <string>

#include "api/chat_prompt.h"
#include "api/chat_reply.h"
#include "api/engine.h"
#include "api/http_message.h"
#include "api/http_options.h"

namespace llmd {

struct PreparedChat {
  GenerationRequest generation;
  ChatReply reply;
  bool stream = false, include_usage = false, return_progress = false;
  size_t choices = 1;
};

struct PrepareOutcome {
  std::optional<PreparedChat> chat;
  HttpReply error;  // when there is no chat
};

class ChatService {
 public:
  ChatService(Engine& engine, const HttpOptions& options) : engine_(engine), options_(options) {}

  /// Takes the body: it is gone before the prompt is made.
  PrepareOutcome prepare(std::string body);

 private:
  Result<ChatRequest> parse(std::string& body) const;
  Result<PreparedChat> build(std::string& body, std::optional<HttpReply>& special);
  Status take_sampling(ChatRequest& request, GenerationRequest& generation) const;
  Status check_model(const std::string& name) const;
  Status load_prompt();

  Engine& engine_;
  const HttpOptions& options_;
  std::optional<ChatPrompt> prompt_;
};

/// `prefix` and 24 random letters and digits.
std::string random_id(const char* prefix);

}  // namespace llmd
