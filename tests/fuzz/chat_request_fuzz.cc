// Fuzzes what becomes of a request's body: JSON, fields, template, tokens. The first byte picks the endpoint.
// Whatever it says, there is a generation that the engine can take, an answer, or a 4xx with an error object.
#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "api/chat_service.h"
#include "tests/api/fake_engine.h"

namespace {

struct Setup {
  llmd::test::FakeEngine engine;
  llmd::HttpOptions options;
  llmd::ChatService service{engine, options};
  Setup() {
    spdlog::set_level(spdlog::level::off);
    engine.mutable_info().chat_template =
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
        "{{ raise_exception('system first') }}{% endif %}<|{{ m.role }}|>{{ m['content'] | trim }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}"
        "{% endfor %}{% if enable_thinking %}<think>{% endif %}{{ extra }}";
  }
};

void check(bool right) {
  if (!right) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Setup setup;
  if (size == 0) return 0;
  constexpr llmd::Work kWorks[] = {llmd::Work::kChat, llmd::Work::kCompletion, llmd::Work::kTokenize,
                                   llmd::Work::kDetokenize, llmd::Work::kApplyTemplate};
  const llmd::Work work = kWorks[data[0] % std::size(kWorks)];
  const llmd::PrepareOutcome outcome =
      setup.service.prepare(work, std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  if (outcome.chat) {
    const llmd::GenerationRequest& generation = outcome.chat->generation;
    check(!generation.prompt_tokens.empty() && generation.tokens_max >= 1);
    check(static_cast<int32_t>(generation.prompt_tokens.size()) + generation.tokens_max <= 4096);
    check(outcome.chat->choices >= 1 && outcome.chat->choices <= llmd::kChoicesMax);
    for (const int32_t id : generation.prompt_tokens) check(id >= 0 && id < setup.engine.tokenizer().vocab_size());
    for (const std::string& stop : generation.stops) check(!stop.empty());
    return 0;
  }
  const auto body = nlohmann::json::parse(outcome.reply.body, nullptr, false);
  check(body.is_object());
  if (outcome.reply.status == 200) return 0;
  check(outcome.reply.status >= 400 && outcome.reply.status < 500);
  check(body["error"]["message"].is_string() && body["error"]["code"].is_string());
  return 0;
}
