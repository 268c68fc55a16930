// The answers of POST /tokenize, /detokenize and /apply-template, in llama-server's shapes.
//
// Each takes the request's body as JSON and gives a whole reply. They run on the http-prepare thread, as all work on
// bodies does. Errors: client errors with `param`; "reply_too_large" where pieces would take more than 16 MiB.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "api/http_message.h"
#include "io/result.h"
#include "model/tokenizer/tokenizer.h"

namespace llmd {

/// {"content": text, "add_special": false, "parse_special": true, "with_pieces": false} to {"tokens": [id, ...]}, or
/// with pieces to {"tokens": [{"id", "piece"}, ...]}; a piece that is not UTF-8 is an array of its bytes.
Result<HttpReply> tokenize_reply(const nlohmann::ordered_json& body, const Tokenizer& tokenizer);
/// {"tokens": [id, ...]} to {"content": text}; bytes that are not UTF-8 become U+FFFD.
Result<HttpReply> detokenize_reply(const nlohmann::ordered_json& body, const Tokenizer& tokenizer);
/// {"prompt": text}
HttpReply prompt_reply(const std::vector<TextRun>& runs);

}  // namespace llmd
