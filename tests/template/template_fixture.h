// Template tests: short ways to render a source with variables and to look at the runs.
//
// For tests only, from one thread. A parse or render that should succeed and does not fails the test with the message.
#pragma once

#include <gtest/gtest.h>

#include <ctime>

#include <string>
#include <vector>

#include "api/template/chat_template.h"

namespace llmd {

/// 2026-12-01 09:05:07, a Tuesday.
inline std::tm fixed_time() {
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

inline TemplateInput make_input(const std::string& variables) {
  TemplateInput input;
  input.variables = nlohmann::ordered_json::parse(variables);
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = fixed_time();
  return input;
}

inline std::string join_runs(const std::vector<TextRun>& runs) {
  std::string text;
  for (const TextRun& run : runs) text += run.text;
  return text;
}

/// Trusted bytes as they are, untrusted runs in ⟦ ⟧.
inline std::string mark_runs(const std::vector<TextRun>& runs) {
  std::string text;
  for (const TextRun& run : runs) text += run.trusted ? run.text : "⟦" + run.text + "⟧";
  return text;
}

inline Result<std::vector<TextRun>> try_render(const std::string& source, const std::string& variables = "{}",
                                               const TemplateLimits& limits = {}) {
  auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed.ok()) return parsed.error();
  return parsed.value()->render(make_input(variables));
}

inline std::vector<TextRun> render_runs(const std::string& source, const std::string& variables = "{}") {
  auto runs = try_render(source, variables);
  EXPECT_TRUE(runs.ok()) << (runs.ok() ? "" : runs.error().message) << "\nin: " << source;
  return runs.ok() ? std::move(runs).value() : std::vector<TextRun>();
}

inline std::string render(const std::string& source, const std::string& variables = "{}") {
  return join_runs(render_runs(source, variables));
}

inline std::string render_marked(const std::string& source, const std::string& variables = "{}") {
  return mark_runs(render_runs(source, variables));
}

}  // namespace llmd
