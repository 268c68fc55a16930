// render_lines: renders chat templates for a script. Each line of standard input is a JSON object {"source",
// "variables"}; each line of output {"ok": text} or {"error": code, "message": text}. The clock stands still.
#include <iostream>
#include <string>

#include "api/template/chat_template.h"

namespace {

using nlohmann::ordered_json;

std::tm fixed_time() {  // 2026-12-01 09:05:07, a Tuesday
  std::tm time = {};
  time.tm_year = 126;
  time.tm_mon = 11;
  time.tm_mday = 1;
  time.tm_hour = 9;
  time.tm_min = 5;
  time.tm_sec = 7;
  time.tm_wday = 2;
  time.tm_yday = 334;
  return time;
}

ordered_json failure(const llmd::Error& error) {
  return {{"error", error.code}, {"message", error.message}};
}

ordered_json render(ordered_json& test) {
  auto parsed = llmd::ChatTemplate::parse(test["source"].get<std::string>());
  if (!parsed.ok()) return failure(parsed.error());
  llmd::TemplateInput input;
  input.variables = std::move(test["variables"]);
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = fixed_time();
  const auto runs = parsed.value()->render(input);
  if (!runs.ok()) return failure(runs.error());
  std::string text;
  for (const llmd::TextRun& run : *runs) text += run.text;
  return {{"ok", text}};
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    ordered_json test = ordered_json::parse(line);
    std::cout << render(test).dump(-1, ' ', true, ordered_json::error_handler_t::replace) << '\n';
  }
  return 0;
}
