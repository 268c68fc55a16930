// Known answers with real vocabularies. The vectors and some vocabularies lie beside the repository (../shared); other
// vocabularies are made from npm packages by tests/peer/tokenizer, which runs these tests with LLMD_VOCABULARY_DIR set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/tokenizer/tokenizer.h"
#include "tests/tokenizer/vocabulary_file.h"

namespace llmd {
namespace {

const std::string kShared = LLMD_SOURCE_DIR "/../shared/data";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::unique_ptr<Tokenizer> load(const std::string& path) {
  Result<GgufModel> model = GgufModel::open(path);
  if (!model.ok()) {
    ADD_FAILURE() << model.error().to_string();
    return nullptr;
  }
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(*model);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << path << ": " << tokenizer.error().to_string();
    return nullptr;
  }
  return std::move(tokenizer).value();
}

class VocabularyVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(VocabularyVectors, GiveTheKnownIds) {
  std::string path = kShared + "/vocab/ggml-vocab-" + GetParam() + ".gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "SKIPPED: no " << path;
  auto tokenizer = load(path);
  ASSERT_TRUE(tokenizer);
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::string inputs = read_file(path + ".inp");
  std::istringstream answers(read_file(path + ".out"));
  size_t count = 0;
  for (size_t at = 0, next; (next = inputs.find(separator, at)) != std::string::npos; at = next + separator.size()) {
    std::string line;
    ASSERT_TRUE(std::getline(answers, line));
    std::istringstream numbers(line);
    std::vector<int32_t> expected{std::istream_iterator<int32_t>(numbers), {}};
    std::string text = inputs.substr(at, next - at);
    EXPECT_EQ(tokenizer->encode(text, false, false), expected) << text;
    count++;
  }
  EXPECT_GE(count, 40u);
}

INSTANTIATE_TEST_SUITE_P(All, VocabularyVectors,
                         ::testing::Values("deepseek-llm", "deepseek-coder", "gpt-2", "mpt", "starcoder", "refact",
                                           "falcon"));

class TokenVectors : public ::testing::TestWithParam<const char*> {
 protected:
  /// The GGUF of the family, or "" when it is not on this machine.
  static std::string vocabulary(const std::string& family) {
    if (family == "deepseek-llm") return kShared + "/vocab/ggml-vocab-deepseek-llm.gguf";
    const char* folder = std::getenv("LLMD_VOCABULARY_DIR");
    return folder ? std::string(folder) + "/" + family + ".gguf" : "";
  }
};

TEST_P(TokenVectors, GiveTheKnownIdsAndTheTextBack) {
  std::string vectors = kShared + "/token-vectors/" + GetParam() + ".json", path = vocabulary(GetParam());
  if (!std::filesystem::exists(vectors)) GTEST_SKIP() << "SKIPPED: no " << vectors;
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "SKIPPED: no vocabulary for " << GetParam() << "; ctest -R tokenizer_peer makes it and runs this";
  }
  auto tokenizer = load(path);
  ASSERT_TRUE(tokenizer);
  nlohmann::json file = nlohmann::json::parse(read_file(vectors));
  EXPECT_EQ(tokenizer->pre(), file["pre"]);
  EXPECT_EQ(tokenizer->bos(), file["bos"].is_null() ? -1 : file["bos"].get<int32_t>());
  EXPECT_EQ(tokenizer->eos(), file["eos"].is_null() ? -1 : file["eos"].get<int32_t>());
  for (const auto& test : file["tests"]) {
    std::string text = test["text"];
    auto plain = test["ids"].get<std::vector<int32_t>>();
    auto special = test.value("ids_special", plain);
    EXPECT_EQ(tokenizer->encode(text, false, false), plain) << "text: " << test["text"];
    EXPECT_EQ(tokenizer->encode(text, true, false), special) << "text: " << test["text"];
    EXPECT_EQ(testing::join(*tokenizer, special), text);
    if (file["add_bos"] == true && !(special.size() > 0 && special[0] == tokenizer->bos())) {
      special.insert(special.begin(), tokenizer->bos());
      EXPECT_EQ(tokenizer->encode(text, true, true), special);
    }
  }
  EXPECT_EQ(file["tests"].size(), 400u);
}

INSTANTIATE_TEST_SUITE_P(All, TokenVectors,
                         ::testing::Values("deepseek-v3", "deepseek-llm", "gpt-4o", "kimi-k2", "llama-bpe"));

}  // namespace
}  // namespace llmd
