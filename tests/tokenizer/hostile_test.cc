// Broken and hostile vocabularies: a typed error that says what is wrong, never a crash.
#include <gmock/gmock.h>

#include <random>

#include "tests/tokenizer/vocabulary_file.h"

namespace llmd {
namespace {

using ::testing::HasSubstr;
using testing::kControl;
using testing::kNormal;
using testing::VocabularyFile;

void expect_error(const VocabularyFile& file, const std::string& code, const std::string& part) {
  Result<std::unique_ptr<Tokenizer>> loaded = file.load();
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, code);
  EXPECT_EQ(loaded.error().kind, ErrorKind::kOperating);
  EXPECT_THAT(loaded.error().message, HasSubstr(part));
}

TEST(BrokenVocabulary, NamesTheModelOrRuleItDoesNotKnow) {
  VocabularyFile file;
  file.model = "llama";
  expect_error(file, "tokenizer_unsupported", "\"llama\"");
  file.model = "gpt2";
  file.pre = "qwen99";
  expect_error(file, "tokenizer_unsupported", "\"qwen99\"");
  file.has_pre = false;
  expect_error(file, "tokenizer_unsupported", "tokenizer.ggml.pre");
}

TEST(BrokenVocabulary, MissesAnArray) {
  VocabularyFile file;
  file.has_tokens = false;
  expect_error(file, "gguf_invalid", "tokenizer.ggml.tokens");
  file.has_tokens = true;
  file.has_types = false;
  expect_error(file, "gguf_invalid", "tokenizer.ggml.token_type");
  file.has_types = true;
  file.has_merges = false;
  expect_error(file, "gguf_invalid", "tokenizer.ggml.merges");
}

TEST(BrokenVocabulary, HasArraysOfWrongLength) {
  VocabularyFile file;
  file.types.pop_back();
  expect_error(file, "gguf_invalid", "255 entries for 256 tokens");
  file.tokens.clear();
  file.types.clear();
  expect_error(file, "gguf_invalid", "tokenizer.ggml.tokens");
}

TEST(BrokenVocabulary, HasUnknownTypes) {
  for (int32_t type : {-1, 7, INT32_MAX}) {
    VocabularyFile file;
    file.types[9] = type;
    expect_error(file, "gguf_invalid", "token 9");
  }
}

TEST(BrokenVocabulary, HasDuplicateTokens) {
  VocabularyFile file;
  file.add("a", kNormal);
  expect_error(file, "gguf_invalid", "tokens 97 and 256");
}

TEST(BrokenVocabulary, MayHaveEmptyTokens) {
  VocabularyFile file;
  file.add("", kNormal);
  file.add("", kControl);
  EXPECT_TRUE(file.load().ok());
}

TEST(BrokenVocabulary, HasMergesOfTokensThatDoNotExist) {
  for (const char* merge : {"a b", "xx yy", "ab c"}) {
    VocabularyFile file;
    file.merges = {merge};
    expect_error(file, "gguf_invalid", "merge 0");
  }
  for (const char* merge : {"", "a", "a ", " ", "ab"}) {
    VocabularyFile file;
    file.merges = {merge};
    expect_error(file, "gguf_invalid", "merge 0");
  }
}

TEST(BrokenVocabulary, HasIdsOutsideIt) {
  for (const char* key : {"bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "fim_pad_token_id"}) {
    VocabularyFile file;
    file.ids[key] = 256;
    expect_error(file, "gguf_invalid", key);
    file.ids[key] = UINT32_MAX;  // some writers mean "none"
    EXPECT_TRUE(file.load().ok());
  }
  VocabularyFile file;
  file.eos_token_ids = {5, -1};
  expect_error(file, "gguf_invalid", "eos_token_ids");
}

TEST(BrokenVocabulary, HasAnAbsurdlyLongSpecialToken) {
  VocabularyFile file;
  file.add(std::string(5000, 'x'), kControl);
  expect_error(file, "gguf_invalid", "256");
}

// Random damage: whatever loads must also encode and decode.
TEST(BrokenVocabulary, NeverCrashes_ForRandomDamage) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; round++) {
    VocabularyFile file;
    file.add_word("hello");
    file.add("<eos>", kControl);
    for (int i = 0; i < 3; i++) {
      size_t at = random() % file.tokens.size();
      if (random() % 2) file.tokens[at] = std::string(random() % 3, static_cast<char>(random() % 256));
      if (random() % 2) file.types[random() % file.types.size()] = static_cast<int32_t>(random() % 9) - 1;
      if (random() % 4 == 0) file.merges[random() % file.merges.size()] = "h e";
      if (random() % 4 == 0) file.ids["eos_token_id"] = static_cast<uint32_t>(random() % 300);
    }
    Result<std::unique_ptr<Tokenizer>> loaded = file.load();
    if (!loaded.ok()) continue;
    for (int32_t id : (*loaded)->encode("hello <eos> \xFF\xC3\xA9 12", true, true)) (*loaded)->token_bytes(id, true);
  }
}

}  // namespace
}  // namespace llmd
