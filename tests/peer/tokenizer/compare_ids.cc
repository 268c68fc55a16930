// compare_ids VOCABULARY.gguf EXPECTED.json: the ids that llmd gives a list of texts against those of another engine.
//
// EXPECTED.json is a list of {"text", "trusted", "untrusted"}: the ids of the text with and without its control tokens.
// The tokens must also give the text back (its NFC where the family has it), and an untrusted text no control token.
// The last line says how many are the same; exit status 1 when anything differs.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "model/tokenizer/nfc.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/tokenizer.h"

namespace {

using llmd::Tokenizer;

/// What is wrong with the ids of one text; empty when nothing is.
std::string problem(const Tokenizer& tokenizer, const nlohmann::json& test) {
  const std::string text = test["text"];
  std::vector<int32_t> trusted = tokenizer.encode(text, true, false), untrusted = tokenizer.encode(text, false, false);
  if (trusted != test["trusted"].get<std::vector<int32_t>>()) return "other ids: " + nlohmann::json(trusted).dump();
  if (untrusted != test["untrusted"].get<std::vector<int32_t>>()) {
    return "other ids when untrusted: " + nlohmann::json(untrusted).dump();
  }
  auto is_control = [&](int32_t id) { return tokenizer.is_control(id); };
  if (std::any_of(untrusted.begin(), untrusted.end(), is_control)) return "a control token out of untrusted text";
  std::string storage;
  const bool normalizes = llmd::find_pre_tokenizer(tokenizer.pre())->nfc;
  for (const std::vector<int32_t>& ids : {trusted, untrusted}) {
    std::string bytes;
    for (int32_t id : ids) bytes += tokenizer.token_bytes(id, true);
    if (bytes != (normalizes ? llmd::to_nfc(text, storage) : text)) return "the tokens do not give the text back";
  }
  return "";
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
    std::string found = problem(**tokenizer, test);
    if (!found.empty() && wrong++ < 10)
      std::cout << test.dump(-1, ' ', true).substr(0, 1000) << '\n' << "  " << found.substr(0, 500) << '\n';
  }
  std::cout << tests.size() - wrong << " of " << tests.size() << " texts have the same ids\n";
  return wrong == 0 ? 0 : 1;
}
