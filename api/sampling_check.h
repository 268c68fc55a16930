// take_sampling: what only the vocabulary can tell of a request's sampling fields.
//
// Which ids exist, what the tokens of a biased text are, and that some token stays possible. A seed is drawn where none
// was given. Moves the result into `generation`. Runs on the http-prepare thread. Errors: client "invalid_value".
#pragma once

#include "api/chat_request.h"
#include "api/engine.h"
#include "io/result.h"
#include "model/tokenizer/tokenizer.h"

namespace llmd {

Status take_sampling(ChatRequest& request, const Tokenizer& tokenizer, GenerationRequest& generation);

}  // namespace llmd
