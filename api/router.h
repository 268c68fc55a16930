// route: which of the server's resources a request names, and the whole reply where no body has to be read for it.
//
// Decided from the request line and header alone, so that a refusal needs no body: who may ask (api/access.h), what
// paths and methods there are, whether the model is there. http thread; reads the engine's status, never fails.
#pragma once

#include "api/engine.h"
#include "api/http_message.h"
#include "api/http_options.h"

namespace llmd {

/// What is to be done with the body of a request.
enum class Work { kNone, kChat, kCompletion, kTokenize, kDetokenize, kApplyTemplate };

struct Route {
  Work work = Work::kNone;
  HttpReply reply;      // when there is no work
  bool refuse = false;  // the body is not to be read: answer and close
};

Route route(const HttpRequest& request, const Engine& engine, const HttpOptions& options, bool draining);

}  // namespace llmd
