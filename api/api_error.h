// ApiError: an Error as an OpenAI client sees it: a status, the error object, and what to do next (Retry-After).
//
// What the client can mend is 4xx and keeps its message and `param`. An operating error is told apart by its code
// alone; its message, file and offset go to the log, never to the client. Pure functions, any thread.
#pragma once

#include <string>

#include "api/http_message.h"
#include "io/result.h"

namespace llmd {

/// The HTTP status of an error: 400 to 431, 500 or 503, by its kind and code.
int status_of(const Error& error);

/// {"error":{"message","type","param","code"}}: the object that every failure carries, in a body or in a stream.
std::string error_json(const Error& error);

/// A whole reply with Retry-After and x-should-retry where they help.
HttpReply error_reply(const Error& error);

/// The prompt does not fit: code context_length_exceeded, with n_prompt_tokens and n_ctx in the error object.
HttpReply context_length_reply(int64_t prompt_tokens, int64_t context_tokens, bool at_least, const char* param);

}  // namespace llmd
