// Byte-level BPE on small vocabularies: the order of merges, long pieces, bytes that are not UTF-8.
#include <algorithm>
#include <random>

#include "tests/tokenizer/vocabulary_file.h"

namespace llmd {
namespace {

using testing::join;
using testing::kControl;
using testing::kUserDefined;
using testing::VocabularyFile;
using Ids = std::vector<int32_t>;

/// The definition, literally: of all neighbours join those with the lowest rank, of equals the leftmost.
std::vector<std::string> merge_by_definition(std::vector<std::string> symbols, const std::vector<std::string>& merges) {
  std::map<std::string, size_t> ranks;
  for (size_t i = 0; i < merges.size(); i++) ranks.emplace(merges[i], i);
  for (;;) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); i++) {
      auto found = ranks.find(symbols[i] + " " + symbols[i + 1]);
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == merges.size()) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, MergesWords) {
  VocabularyFile file;
  int32_t hello = file.add_word("hello"), world = file.add_word(" world");
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("hello world", false, false), (Ids{hello, world}));
  EXPECT_EQ(tokenizer->encode("", false, false), Ids{});
  EXPECT_EQ(tokenizer->token_bytes(world), " world");
}

TEST(Bpe, TakesTheLowestRankFirst_NotTheLeftmost) {
  VocabularyFile file;
  int32_t bc = file.add_merge("b", "c");
  file.add_merge("a", "b");
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("abc", false, false), (Ids{'a', bc}));
}

TEST(Bpe, TakesTheLeftmostOfEqualRanks) {
  VocabularyFile file;
  int32_t aa = file.add_merge("a", "a");
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("aaa", false, false), (Ids{aa, 'a'}));
}

TEST(Bpe, TakesTheFirstOfDuplicateMerges) {
  VocabularyFile file;
  int32_t ab = file.add_merge("a", "b");
  file.add_merge("b", "c");
  file.add_merge("a", "b");
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("abc", false, false), (Ids{ab, 'c'}));
}

// Random vocabularies of few letters have many chained merges: short and long pieces must follow the definition.
TEST(Bpe, FollowsTheDefinition_ForRandomMergesAndPiecesOfAnyLength) {
  std::mt19937 random(20240807);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 20; round++) {
    VocabularyFile file;
    std::vector<std::string> parts = {"a", "b", "c"};
    for (int i = 0; i < 60; i++) {
      std::string left = parts[below(parts.size())], right = parts[below(parts.size())];
      if (left.size() + right.size() > 40) continue;
      file.add_merge(left, right);
      if (std::find(parts.begin(), parts.end(), left + right) == parts.end()) parts.push_back(left + right);
    }
    auto tokenizer = file.load_or_die();
    for (size_t length : {1, 2, 7, 63, 64, 65, 66, 300}) {
      std::vector<std::string> letters;
      std::string text;
      for (size_t i = 0; i < length; i++) {
        letters.push_back(std::string(1, static_cast<char>('a' + below(3))));
        text += letters.back();
      }
      std::vector<std::string> expected = merge_by_definition(letters, file.merges), got;
      for (int32_t id : tokenizer->encode(text, false, false)) got.emplace_back(tokenizer->token_bytes(id));
      ASSERT_EQ(got, expected) << "round " << round << ", text " << text;
    }
  }
}

TEST(Bpe, MergesAMegabyteOfOneLetter) {
  VocabularyFile file;
  std::string run = "a";
  while (run.size() < 16) {
    file.add_merge(run, run);
    run += run;
  }
  auto tokenizer = file.load_or_die();
  Ids ids = tokenizer->encode(std::string((1 << 20) + 3, 'a'), false, false);
  ASSERT_EQ(ids.size(), (1u << 16) + 2);  // ... and aa, a
  EXPECT_EQ(join(*tokenizer, ids), std::string((1 << 20) + 3, 'a'));
}

TEST(Bpe, KeepsEveryByte_OfTextThatIsNotUtf8) {
  VocabularyFile file;
  file.add_word("hello");
  file.add_merge("\xC3", "\xA9");
  file.add_merge("\xFF", "\xFF");
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("\xFF\xFF", false, false), (Ids{0xFF, 0xFF}));
  EXPECT_EQ(tokenizer->encode("\xC3", false, false), Ids{0xC3});
  std::mt19937 random(7);
  const std::string bits[] = {"hello",        " ",
                              "\xC3",         "\xA9",
                              "\xE4\xBD",     "\xF0\x9F\x98\x80",
                              "\xFF",         "1234",
                              "\n\n",         std::string(1, '\0'),
                              "\xED\xA0\x80", "\xC0\x80",
                              "<x>",          "e\xCC\x81"};
  for (int round = 0; round < 2000; round++) {
    std::string text;
    for (size_t i = random() % 12; i > 0; i--) {
      if (random() % 4 == 0) {
        text += static_cast<char>(random() % 256);
      } else {
        text += bits[random() % std::size(bits)];
      }
    }
    ASSERT_EQ(join(*tokenizer, tokenizer->encode(text, false, false)), text) << "round " << round;
  }
}

TEST(Bpe, LeavesOutBytesThatHaveNoToken) {
  VocabularyFile file;
  file.tokens['x'] = "unreachable";
  int32_t ab = file.add_merge("a", "b");
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("axb", false, false), Ids{ab});
}

TEST(Bpe, TakesWholePiecesFirst_WhereTheRuleSaysSo) {
  VocabularyFile file;
  int32_t cat = file.add("cat", testing::kNormal);  // no merges build it
  file.pre = "llama-bpe";
  EXPECT_EQ(file.load_or_die()->encode("cat", false, false), Ids{cat});
  file.pre = "deepseek-v3";
  EXPECT_EQ(file.load_or_die()->encode("cat", false, false), (Ids{'c', 'a', 't'}));
}

TEST(Bpe, BringsTextIntoNfcFirst_WhereTheRuleSaysSo) {
  VocabularyFile file;
  const int32_t composed = file.add_merge("\xC3", "\xA9");  // é
  const int32_t own = file.add("e\u0301", kUserDefined);    // cut out before
  file.pre = "qwen2";
  auto qwen = file.load_or_die();
  EXPECT_EQ(qwen->encode("\u00E9", false, false), Ids{composed});
  EXPECT_EQ(qwen->encode("e\u0301", false, false), Ids{own});
  file.tokens.back() = "x";
  file.tokens['x'] = "y\u0301";  // keeps the texts different
  qwen = file.load_or_die();
  EXPECT_EQ(qwen->encode("e\u0301", false, false), Ids{composed});
  EXPECT_EQ(qwen->encode("e\u0301\xFF", false, false), (Ids{composed, 0xFF}));
  file.pre = "deepseek-v3";
  EXPECT_EQ(file.load_or_die()->encode("e\u0301", false, false), (Ids{'e', 0xCC, 0x81}));
}

TEST(Bpe, CountsWithWhatNfcMayShorten_InItsLongestToken) {
  VocabularyFile file;
  file.add_word("hello");
  EXPECT_EQ(file.load_or_die()->longest_token_bytes(), 5);
  file.pre = "qwen2";
  EXPECT_EQ(file.load_or_die()->longest_token_bytes(), 15);
}

TEST(Bpe, ReportsItsMemory) {
  VocabularyFile file;
  uint64_t small = file.load_or_die()->memory_bytes();
  for (int i = 0; i < 5000; i++) file.add("token" + std::to_string(i), testing::kNormal);
  uint64_t large = file.load_or_die()->memory_bytes();
  EXPECT_GT(small, 256u * 4);
  EXPECT_GT(large, small + 5000u * 10);
}

}  // namespace
}  // namespace llmd
