// compare_ids VOCABULARY.gguf EXPECTED.json: the ids that llmd gives a list of texts against those of another engine.
//
// EXPECTED.json is a list of {"text", "ids"}; the ids are those of trusted text. Untrusted, a text must give the same
// ids when it has no control token, and never a control id. Exit status 1 when anything differs.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "model/tokenizer/tokenizer.h"

namespace {

using llmd::Tokenizer;

/// What is wrong with the ids of one text; empty when nothing is.
std::string problem(const Tokenizer& tokenizer, const std::string& text, const std::vector<int32_t>& expected) {
  std::vector<int32_t> trusted = tokenizer.encode(text, true, false), untrusted = tokenizer.encode(text, false, false);
  auto is_control = [&](int32_t id) { return tokenizer.is_control(id); };
  std::string bytes;
  for (int32_t id : trusted) bytes += tokenizer.token_bytes(id, true);
  if (trusted != expected) return "other ids: " + nlohmann::json(trusted).dump();
  if (bytes != text) return "the tokens do not give the text back";
  if (std::any_of(untrusted.begin(), untrusted.end(), is_control)) return "a control token out of untrusted text";
  bool plain = std::none_of(expected.begin(), expected.end(), is_control);
  return plain && untrusted != expected ? "other ids when untrusted: " + nlohmann::json(untrusted).dump() : "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: compare_ids VOCABULARY.gguf EXPECTED.json\n";
    return 2;
  }
  auto model = llmd::GgufModel::open(argv[1]);
  if (!model.ok()) {
    std::cerr << model.error().to_string() << '\n';
    return 2;
  }
  auto tokenizer = Tokenizer::load(*model);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.error().to_string() << '\n';
    return 2;
  }
  std::ifstream in(argv[2]);
  nlohmann::json tests = nlohmann::json::parse(in, nullptr, false);
  if (!tests.is_array() || tests.empty()) {
    std::cerr << argv[2] << " is not a list of tests\n";
    return 2;
  }
  size_t wrong = 0;
  for (const auto& test : tests) {
    std::string found = problem(**tokenizer, test["text"], test["ids"].get<std::vector<int32_t>>());
    if (!found.empty() && wrong++ < 10) std::cout << test.dump(-1, ' ', true) << '\n' << "  " << found << '\n';
  }
  std::cout << tests.size() - wrong << " of " << tests.size() << " texts have the same ids\n";
  return wrong == 0 ? 0 : 1;
}
