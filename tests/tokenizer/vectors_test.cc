// Known answers with real vocabularies. The vectors and some vocabularies lie beside the repository (../shared); other
// vocabularies are made from npm packages by tests/peer/tokenizer, which runs these tests with LLMD_VOCABULARY_DIR set.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/tokenizer/nfc.h"
#include "model/tokenizer/pre_tokenizer.h"
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

bool uses_nfc(const std::string& pre) {
  return find_pre_tokenizer(pre)->nfc;
}

/// The GGUF of a family, or "" when it is not on this machine: some lie beside the vectors, the others are made from
/// npm packages by tests/peer/tokenizer.
std::string vocabulary_of(const std::string& family) {
  std::string beside = kShared + "/vocab/ggml-vocab-" + family + ".gguf";
  if (std::filesystem::exists(beside)) return beside;
  const char* folder = std::getenv("LLMD_VOCABULARY_DIR");
  std::string made = std::string(folder ? folder : "") + "/" + family + ".gguf";
  return folder && std::filesystem::exists(made) ? made : "";
}

struct KnownIds {
  const char* file;        // in vocab/, without ggml-vocab- and .gguf
  const char* vocabulary;  // whose GGUF they are run with
};

class VocabularyVectors : public ::testing::TestWithParam<KnownIds> {};

TEST_P(VocabularyVectors, GiveTheKnownIds) {
  const auto [file, family] = GetParam();
  std::string vectors = kShared + "/vocab/" + file, path = vocabulary_of(family);
  if (!std::filesystem::exists(vectors + ".inp")) GTEST_SKIP() << "SKIPPED, NOT CHECKED: no " << vectors << ".inp";
  if (path.empty()) {
    GTEST_SKIP() << "SKIPPED, NOT CHECKED: no vocabulary of " << family << "; ctest -R tokenizer_peer makes it";
  }
  auto tokenizer = load(path);
  ASSERT_TRUE(tokenizer);
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::string inputs = read_file(vectors + ".inp");
  std::istringstream answers(read_file(vectors + ".out"));
  size_t count = 0;
  for (size_t at = 0, next; (next = inputs.find(separator, at)) != std::string::npos; at = next + separator.size()) {
    std::string line;
    ASSERT_TRUE(std::getline(answers, line));
    std::istringstream numbers(line);
    std::vector<int32_t> expected{std::istream_iterator<int32_t>(numbers), {}};
    std::string text = inputs.substr(at, next - at), storage;
    // These ids come from a program that does not normalise; the models that do are compared on text in NFC.
    if (uses_nfc(tokenizer->pre()) && to_nfc(text, storage) != text) continue;
    EXPECT_EQ(tokenizer->encode(text, false, false), expected) << text;
    count++;
  }
  EXPECT_GE(count, 40u);
}

INSTANTIATE_TEST_SUITE_P(
    All, VocabularyVectors,
    ::testing::Values(KnownIds{"ggml-vocab-deepseek-llm.gguf", "deepseek-llm"},
                      KnownIds{"ggml-vocab-deepseek-coder.gguf", "deepseek-coder"},
                      KnownIds{"ggml-vocab-gpt-2.gguf", "gpt-2"}, KnownIds{"ggml-vocab-mpt.gguf", "mpt"},
                      KnownIds{"ggml-vocab-starcoder.gguf", "starcoder"}, KnownIds{"ggml-vocab-refact.gguf", "refact"},
                      KnownIds{"ggml-vocab-falcon.gguf", "falcon"}, KnownIds{"ggml-vocab-qwen2.gguf", "qwen2"},
                      KnownIds{"ggml-vocab-qwen35.gguf", "qwen35"}, KnownIds{"ggml-vocab-llama-bpe.gguf", "llama-bpe"},
                      KnownIds{"older/ggml-vocab-deepseek-r1-qwen.gguf", "qwen2"},
                      KnownIds{"older/ggml-vocab-gpt-4o.gguf", "gpt-4o"}),
    [](const auto& tested) {
      std::string name;
      for (char c : std::string(tested.param.file)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

class TokenVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenVectors, GiveTheKnownIdsAndTheTextBack) {
  std::string vectors = kShared + "/token-vectors/" + GetParam() + ".json", path = vocabulary_of(GetParam());
  if (!std::filesystem::exists(vectors)) GTEST_SKIP() << "SKIPPED, NOT CHECKED: no " << vectors;
  if (path.empty()) {
    GTEST_SKIP() << "SKIPPED, NOT CHECKED: no vocabulary of " << GetParam() << "; ctest -R tokenizer_peer makes it";
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
    std::string storage;
    EXPECT_EQ(testing::join(*tokenizer, special), uses_nfc(tokenizer->pre()) ? to_nfc(text, storage) : text);
    if (file["add_bos"] == true && !(special.size() > 0 && special[0] == tokenizer->bos())) {
      special.insert(special.begin(), tokenizer->bos());
      EXPECT_EQ(tokenizer->encode(text, true, true), special);
    }
  }
  EXPECT_EQ(file["tests"].size(), 400u);
}

INSTANTIATE_TEST_SUITE_P(All, TokenVectors,
                         ::testing::Values("deepseek-v3", "deepseek-llm", "gpt-4o", "kimi-k2", "llama-bpe", "qwen2",
                                           "qwen35"));

}  // namespace
}  // namespace llmd
