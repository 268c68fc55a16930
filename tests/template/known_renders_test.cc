// The chat templates of 68 published models against Python's Jinja2, 14 conversations each.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>

#include "tests/template/template_fixture.h"

namespace llmd {
namespace {

using Json = nlohmann::ordered_json;

const std::string kData = LLMD_SOURCE_DIR "/../shared/data";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct KnownRender {
  std::string model, scenario, source;
  Json variables, expected;
};

/// Empty when the data is not there.
std::vector<KnownRender> load_renders() {
  std::vector<KnownRender> renders;
  if (!std::filesystem::exists(kData + "/chat-renders/scenarios.json")) return renders;
  const Json scenarios = Json::parse(read_file(kData + "/chat-renders/scenarios.json"));
  std::map<std::string, std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "/chat-templates")) {
    if (entry.path().extension() == ".jinja") files[entry.path().stem().string()] = entry.path();
  }
  for (const auto& [model, path] : files) {
    const Json expected = Json::parse(read_file(kData + "/chat-renders/" + model + ".json"));
    for (const auto& [scenario, result] : expected.items()) {
      renders.push_back({model, scenario, read_file(path), scenarios.at(scenario), result});
    }
  }
  return renders;
}

Result<std::vector<TextRun>> render_known(const KnownRender& known) {
  return try_render(known.source, known.variables.dump());
}

/// The families that llmd is for.
bool is_required(const std::string& model) {
  for (const char* family :
       {"deepseek", "DeepSeek", "Kimi", "GLM", "GigaChat", "Qwen", "gpt-oss", "MiniMax", "istral", "Devstral"}) {
    if (model.find(family) != std::string::npos) return true;
  }
  return false;
}

// All are right today, so each one that no longer is fails.
TEST(KnownRenders, EqualPython_WhereItSucceeds) {
  const auto renders = load_renders();
  if (renders.empty()) GTEST_SKIP() << "SKIPPED, NOT CHECKED: no known renders at " << kData;
  std::map<bool, int> checked, right;  // by is_required()
  for (const KnownRender& known : renders) {
    if (!known.expected.contains("ok")) continue;
    SCOPED_TRACE(known.model + " / " + known.scenario);
    ++checked[is_required(known.model)];
    const auto runs = render_known(known);
    if (!runs.ok()) {
      ADD_FAILURE() << runs.error().message;
      continue;
    }
    const std::string text = join_runs(*runs), expected = known.expected["ok"].get<std::string>();
    EXPECT_EQ(text, expected);
    right[is_required(known.model)] += text == expected;
  }
  std::cout << "known renders: " << right[true] << " of " << checked[true] << " of the families llmd is for, "
            << right[false] << " of " << checked[false] << " of the others\n";
  EXPECT_EQ(checked[true], 370);
  EXPECT_EQ(checked[true] + checked[false], 876);
}

TEST(KnownRenders, GiveTheTemplatesOwnMessage_WhereItRejects) {
  const auto renders = load_renders();
  if (renders.empty()) GTEST_SKIP() << "SKIPPED, NOT CHECKED: no known renders at " << kData;
  int checked = 0;
  for (const KnownRender& known : renders) {
    if (known.expected.value("error", "") != "TemplateError") continue;
    SCOPED_TRACE(known.model + " / " + known.scenario);
    ++checked;
    const auto runs = render_known(known);
    ASSERT_FALSE(runs.ok());
    EXPECT_EQ(runs.error().code, "template_rejected");
    EXPECT_EQ(runs.error().kind, ErrorKind::kClient);
    EXPECT_EQ(runs.error().message, known.expected["message"].get<std::string>());
  }
  EXPECT_EQ(checked, 13);
}

TEST(KnownRenders, NeverCrashOrHang_WherePythonFails) {
  const auto renders = load_renders();
  if (renders.empty()) GTEST_SKIP() << "SKIPPED, NOT CHECKED: no known renders at " << kData;
  for (const KnownRender& known : renders) {
    const std::string error = known.expected.value("error", "");
    if (error != "UndefinedError") continue;  // some TypeErrors are laziness that our lists do not have
    SCOPED_TRACE(known.model + " / " + known.scenario);
    const auto runs = render_known(known);
    ASSERT_FALSE(runs.ok());
    EXPECT_EQ(runs.error().code, "template_failed");
  }
}

}  // namespace
}  // namespace llmd
