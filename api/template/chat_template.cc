#include "api/template/chat_template.h"

#include "api/template/interpreter.h"
#include "api/template/parser.h"
#include "api/template/printing.h"

namespace llmd {

ChatTemplate::ChatTemplate(std::unique_ptr<jinja::Program> program, const TemplateLimits& limits)
    : program_(std::move(program)), limits_(limits) {}

ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string source, const TemplateLimits& limits) {
  if (source.size() > limits.source_bytes_max) {
    return operating_error("template_invalid",
                           "the chat template is longer than " + std::to_string(limits.source_bytes_max) + " bytes");
  }
  try {
    auto program = jinja::parse_program(source, limits.depth_max);
    return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(program), limits));
  } catch (const jinja::Failure& failure) {
    return operating_error("template_invalid",
                           "chat template, line " + std::to_string(failure.line) + ": " + failure.message);
  }
}

Result<std::vector<TextRun>> ChatTemplate::render(const TemplateInput& input) const {
  jinja::Runtime runtime(limits_, input.now);
  std::unique_ptr<jinja::Interpreter> interpreter;
  try {
    interpreter = std::make_unique<jinja::Interpreter>(runtime);
    for (const auto& [name, value] : input.variables.items()) {
      interpreter->define(name, jinja::from_json(runtime, value, false));
    }
    interpreter->define("bos_token", runtime.string(input.bos_token, true));
    interpreter->define("eos_token", runtime.string(input.eos_token, true));
    return interpreter->run(*program_).runs();
  } catch (const jinja::Failure& failure) {
    if (failure.rejected) return client_error("template_rejected", failure.message);
    const int line = interpreter == nullptr ? 0 : interpreter->line();
    return client_error("template_failed", "chat template, line " + std::to_string(line) + ": " + failure.message);
  }
}

}  // namespace llmd
