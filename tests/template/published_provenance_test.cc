// Provenance in the published chat templates and the demo's: whatever a client writes in any field, its bytes stay
// untrusted, so that a special token's text in them never becomes the token.
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include "model/gguf/gguf.h"
#include "tests/template/template_fixture.h"

namespace llmd {
namespace {

using Json = nlohmann::ordered_json;

const std::filesystem::path kData = LLMD_SOURCE_DIR "/../shared/data";
// Around everything the client writes; in no template. Private use, so no operation on text changes them.
const std::string kOpen = "\uE000", kClose = "\uE001";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string marked(const std::string& text) {
  return kOpen + text + kClose;
}

/// The value with every string in it, names of members too, replaced by the client's text.
Json filled(const Json& value, const std::string& text) {
  if (value.is_string()) return marked(text);
  Json out = value;
  if (value.is_array()) {
    for (Json& item : out) item = filled(item, text);
  } else if (value.is_object()) {
    out = Json::object();
    for (const auto& [key, item] : value.items()) out[marked(key + text)] = filled(item, text);
  }
  return out;
}

/// A function's arguments: an object, or a string of JSON.
Json filled_arguments(const Json& arguments, const std::string& text) {
  if (!arguments.is_string()) return filled(arguments, text);
  const Json parsed = Json::parse(arguments.get<std::string>(), nullptr, false);
  return parsed.is_object() ? Json(filled(parsed, text).dump()) : Json(marked(text));
}

/// What templates decide by (roles, types, ids) stays; all other text becomes the client's.
Json filled_conversation(const Json& value, const std::string& text) {
  static const std::set<std::string> kept = {"role", "type", "id", "tool_call_id", "required"};
  if (value.is_string()) return marked(text);
  Json out = value;
  if (value.is_array()) {
    for (Json& item : out) item = filled_conversation(item, text);
  } else if (value.is_object()) {
    out = Json::object();
    for (const auto& [key, item] : value.items()) {
      if (key == "arguments") {
        out[key] = filled_arguments(item, text);
      } else if (key == "properties") {
        for (const auto& [name, schema] : item.items())
          out[key][marked(text) + name] = filled_conversation(schema, text);
      } else {
        out[key] = kept.count(key) ? item : filled_conversation(item, text);
      }
    }
  }
  return out;
}

Json filled_variables(const Json& scenario, const std::string& text) {
  Json out = scenario;
  for (const char* key : {"messages", "tools"}) {
    if (out.contains(key)) out[key] = filled_conversation(out[key], text);
  }
  return out;
}

/// The texts of the template that look like special tokens (in angle or square brackets, in one piece), and some that
/// others use.
std::set<std::string> special_texts(const std::string& source) {
  constexpr size_t kLongest = 64;
  std::set<std::string> texts = {"<s>", "</s>", "<think>", "</think>", "<|im_end|>", "<tool_call>"};
  for (size_t at = source.find_first_of("<["); at != std::string::npos; at = source.find_first_of("<[", at + 1)) {
    const size_t end = source.find_first_of("<[>]'\"{} \n", at + 1);
    if (end == std::string::npos || end - at < 3 || end - at > kLongest) continue;
    if (source[end] == (source[at] == '<' ? '>' : ']')) texts.insert(source.substr(at, end + 1 - at));
  }
  return texts;
}

struct Rendered {
  std::string text;
  std::vector<bool> trusted;  // for each byte
};

Rendered flatten(const std::vector<TextRun>& runs) {
  Rendered out;
  for (const TextRun& run : runs) {
    out.text += run.text;
    out.trusted.insert(out.trusted.end(), run.text.size(), run.trusted);
  }
  return out;
}

struct Counts {
  int renders = 0, client_texts = 0, with_special = 0;
};

/// The client's marks and what it wrote between them must be untrusted. `looked_for`: the template has the text as a
/// literal, so it may have cut there and put its own in place (</think> and its kin): then only the marks count.
void check_render(const Rendered& rendered, const std::string& text, bool looked_for, Counts& counts) {
  for (size_t at = 0; (at = rendered.text.find(kOpen, at)) != std::string::npos;) {
    const size_t end = rendered.text.find(kClose, at);
    const size_t next = rendered.text.find(kOpen, at + kOpen.size());
    for (size_t i = at; i < at + kOpen.size(); ++i) ASSERT_FALSE(rendered.trusted[i]);
    if (end != std::string::npos && (next == std::string::npos || next > end)) {
      const std::string inside = rendered.text.substr(at + kOpen.size(), end - at - kOpen.size());
      ++counts.client_texts;
      if (!looked_for && inside.find(text) != std::string::npos) {
        ++counts.with_special;
        for (size_t i = at; i < end + kClose.size(); ++i) {
          ASSERT_FALSE(rendered.trusted[i]) << "trusted: " << rendered.text.substr(at, end - at);
        }
      }
    }
    at += kOpen.size();
  }
}

/// The trusted text, with a line for each place where the client's stood.
std::string trusted_text(const Rendered& rendered) {
  std::string out;
  for (size_t i = 0; i < rendered.text.size(); ++i) {
    if (rendered.trusted[i]) {
      out += rendered.text[i];
    } else if (out.empty() || out.back() != '\n' || (i > 0 && rendered.trusted[i - 1])) {
      out += '\n';
    }
  }
  return out;
}

std::map<std::string, std::string> published_templates() {
  std::map<std::string, std::string> sources;
  if (!std::filesystem::exists(kData / "chat-templates")) return sources;
  for (const auto& entry : std::filesystem::directory_iterator(kData / "chat-templates")) {
    if (entry.path().extension() == ".jinja") sources[entry.path().stem().string()] = read_file(entry.path());
  }
  return sources;
}

void check_template(const std::string& name, const std::string& source, const Json& scenarios, Counts& counts) {
  const auto parsed = ChatTemplate::parse(source);
  ASSERT_TRUE(parsed.ok()) << name;
  for (const std::string& text : special_texts(source)) {
    const bool looked_for =
        source.find("'" + text + "'") != std::string::npos || source.find("\"" + text + "\"") != std::string::npos;
    for (const auto& [scenario, variables] : scenarios.items()) {
      SCOPED_TRACE(name + " / " + scenario + " / " + text);
      TemplateInput input = make_input("{}");
      input.variables = filled_variables(variables, text);
      const auto runs = parsed.value()->render(input);
      if (!runs.ok()) continue;  // e.g. names that the template checks
      const Rendered rendered = flatten(*runs);
      ++counts.renders;
      check_render(rendered, text, looked_for, counts);
      if (::testing::Test::HasFatalFailure()) return;
      // What the template itself says is the same whatever the client writes, unless it looks for that text.
      if (looked_for || text.find("think") != std::string::npos) continue;
      std::string other = text;  // of the same shape: some templates quote what has "<" in it
      for (char& c : other) c = std::isalpha(static_cast<unsigned char>(c)) ? 'x' : c;
      input.variables = filled_variables(variables, other);
      const auto plain = parsed.value()->render(input);
      ASSERT_TRUE(plain.ok());
      ASSERT_EQ(trusted_text(rendered), trusted_text(flatten(*plain)));
    }
  }
}

TEST(PublishedProvenance, NoClientTextIsTrusted_InAnyTemplate) {
  const auto sources = published_templates();
  if (sources.empty()) GTEST_SKIP() << "SKIPPED, NOT CHECKED: no templates at " << kData;
  const Json scenarios = Json::parse(read_file(kData / "chat-renders" / "scenarios.json"));
  Counts counts;
  for (const auto& [name, source] : sources) check_template(name, source, scenarios, counts);
  std::cout << counts.renders << " renders of " << sources.size() << " templates, " << counts.client_texts
            << " client texts, " << counts.with_special << " of them with a special token's text\n";
  EXPECT_GT(counts.with_special, 10'000);
}

// The demo has its own vocabulary: here the ids themselves show it.
TEST(PublishedProvenance, NoClientTextBecomesAControlToken_InTheDemo) {
  auto model = GgufModel::open(LLMD_SOURCE_DIR "/demo/llmd-demo.gguf");
  ASSERT_TRUE(model.ok());
  auto tokenizer = Tokenizer::load(*model);
  ASSERT_TRUE(tokenizer.ok());
  const std::string source = *model->get_string("tokenizer.chat_template");
  const Json scenarios = Json::parse(R"({"chat": {"messages": [
      {"role": "system", "content": ""}, {"role": "user", "name": "", "content": ""},
      {"role": "assistant", "content": "", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "", "arguments": {"k": "v"}}}]},
      {"role": "tool", "name": "", "content": ""}, {"role": "user", "content": ""}],
    "tools": [{"type": "function", "function": {"name": "", "description": "", "parameters": {
      "type": "object", "properties": {"city": {"type": "string", "description": ""}}}}}],
    "add_generation_prompt": true}})");
  Counts counts;
  check_template("demo", source, scenarios, counts);
  EXPECT_GT(counts.with_special, 10);
  const auto parsed = ChatTemplate::parse(source);
  const auto controls = [&](const std::string& text) {
    TemplateInput input = make_input("{}");
    input.variables = filled_variables(scenarios["chat"], text);
    input.bos_token = (*tokenizer)->bos_text();
    input.eos_token = (*tokenizer)->eos_text();
    const auto runs = parsed.value()->render(input);
    EXPECT_TRUE(runs.ok()) << (runs.ok() ? "" : runs.error().message);
    std::vector<int32_t> ids;
    if (!runs.ok()) return ids;
    for (int32_t id : (*tokenizer)->encode(*runs, true)) {
      if ((*tokenizer)->is_control(id)) ids.push_back(id);
    }
    return ids;
  };
  const std::vector<int32_t> expected = controls("plain");
  EXPECT_GT(expected.size(), 4u);
  for (int32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    if (!(*tokenizer)->is_control(id)) continue;
    const std::string text((*tokenizer)->token_bytes(id, true));
    EXPECT_EQ(controls(text), expected) << text;
  }
}

}  // namespace
}  // namespace llmd
