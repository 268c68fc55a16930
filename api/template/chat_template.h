// ChatTemplate: a model's chat template (Jinja), parsed once and rendered per request.
//
// The project's own bounded interpreter of the Jinja that chat templates really use, with Python's semantics and the
// rendering environment of the model publishers (trim_blocks, lstrip_blocks, tojson without HTML escapes). It loads no
// files, calls nothing outside, and every render is bounded in steps, depth, memory and output.
//
// The result carries provenance: bytes of template literals and of the bos and eos tokens are trusted, every byte that
// came from a variable is not, through any operation; see template_string.h. Text the interpreter itself makes is
// trusted for a number or truth value that the template computed without the client's numbers, and untrusted for the
// punctuation of JSON and of printed lists.
//
// Immutable after parse(): any thread may render, at the same time; it needs 1 MiB of stack. Errors: parse: operating
// "template_invalid" with the line. render: client "template_rejected" with exactly the message of the template's own
// raise_exception; client "template_failed" with the line for all else, limits included. Nothing is thrown.
#pragma once

#include <ctime>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/result.h"
#include "model/tokenizer/tokenizer.h"

namespace llmd {

struct TemplateLimits {
  size_t source_bytes_max = size_t{4} << 20;
  uint64_t steps_max = 10'000'000;              // nodes evaluated, items looped over, bytes handled / 64
  int depth_max = 200;                          // nesting in the source; also of values, calls and evaluation
  size_t output_bytes_max = size_t{64} << 20;   // also the longest string
  size_t memory_bytes_max = size_t{256} << 20;  // strings and containers alive at one time
  int64_t range_items_max = 1'000'000;          // of one range()
};

struct TemplateInput {
  /// An object: messages, tools, add_generation_prompt, enable_thinking, ... A name that is absent is undefined.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  std::string bos_token, eos_token;  // trusted; they win over variables of the same name
  std::tm now = {};                  // local time, for strftime_now
};

namespace jinja {
struct Program;
}

class ChatTemplate {
 public:
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string source, const TemplateLimits& limits = {});
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /// The prompt as runs of one trust each, coalesced.
  Result<std::vector<TextRun>> render(const TemplateInput& input) const;

 private:
  ChatTemplate(std::unique_ptr<jinja::Program> program, const TemplateLimits& limits);

  std::unique_ptr<jinja::Program> program_;
  TemplateLimits limits_;
};

}  // namespace llmd
