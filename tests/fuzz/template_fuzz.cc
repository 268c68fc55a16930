// Fuzzes the chat template interpreter: the input is a template, up to a zero byte, and then the variables as JSON.
// Whatever it says, a render ends within its limits, with runs or a typed error, and its runs are coalesced.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "api/template/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  llmd::TemplateLimits limits;
  limits.steps_max = 200'000;
  limits.output_bytes_max = size_t{1} << 20;
  limits.memory_bytes_max = size_t{16} << 20;
  auto parsed = llmd::ChatTemplate::parse(input.substr(0, zero), limits);
  if (!parsed.ok()) return 0;
  llmd::TemplateInput variables;
  variables.bos_token = "<s>";
  variables.eos_token = "</s>";
  variables.now.tm_year = 126;
  variables.now.tm_mday = 1;
  if (zero != std::string::npos) {
    auto json = nlohmann::ordered_json::parse(input.substr(zero + 1), nullptr, false);
    if (json.is_object()) variables.variables = std::move(json);
  }
  const auto runs = parsed.value()->render(variables);
  if (!runs.ok()) return 0;
  for (size_t i = 0; i < runs->size(); ++i) {
    const bool coalesced = i == 0 || (*runs)[i].trusted != (*runs)[i - 1].trusted;
    if ((*runs)[i].text.empty() || !coalesced) std::abort();
  }
  return 0;
}
