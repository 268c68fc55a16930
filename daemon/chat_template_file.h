// read_chat_template: the file of --chat-template, checked before anything slow starts.
//
// Any thread. Errors: operating "chat_template_invalid" naming the file and what is wrong with it: missing, not a plain
// file, empty, too long, or no Jinja that llmd can run (with the line).
#pragma once

#include <string>

#include "io/result.h"

namespace llmd {

Result<std::string> read_chat_template(const std::string& path);

}  // namespace llmd
