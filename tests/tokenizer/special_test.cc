// Special tokens: provenance, BOS and EOS, what ends a generation.
#include <random>

#include "tests/tokenizer/vocabulary_file.h"

namespace llmd {
namespace {

using testing::join;
using testing::kControl;
using testing::kNormal;
using testing::kUnknown;
using testing::kUnused;
using testing::kUserDefined;
using testing::VocabularyFile;
using Ids = std::vector<int32_t>;

struct ChatFile : VocabularyFile {
  int32_t bos = add("<bos>", kControl), eos = add("<eos>", kControl), user = add("<|user|>", kControl);
  int32_t think = add("<think>", kUserDefined), unknown = add("<unk>", kUnknown);
  int32_t u = add("<|u", kUserDefined), umlaut = 0xF6;
  int32_t pad = add("[PAD1]", kUnused);
  ChatFile() {
    types[0xF6] = kUserDefined;  // the symbol of the byte F6 is the letter ö: DeepSeek-LLM's vocabulary has it so
    ids = {{"bos_token_id", static_cast<uint32_t>(bos)}, {"eos_token_id", static_cast<uint32_t>(eos)}};
  }
};

TEST(SpecialTokens, ControlTokensMatchOnlyInTrustedText) {
  ChatFile file;
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("<eos>", true, false), Ids{file.eos});
  EXPECT_EQ(tokenizer->encode("<eos>", false, false), (Ids{'<', 'e', 'o', 's', '>'}));
  EXPECT_EQ(tokenizer->encode("<unk>", true, false), Ids{file.unknown});
  EXPECT_EQ(tokenizer->encode("<unk>", false, false).size(), 5u);
  EXPECT_EQ(tokenizer->encode("<think>", false, false), Ids{file.think});
  EXPECT_EQ(tokenizer->encode("[PAD1]", true, false).size(), 6u);
}

TEST(SpecialTokens, AMatchMustLieInsideConsecutiveTrustedRuns) {
  ChatFile file;
  auto tokenizer = file.load_or_die();
  auto encode = [&](std::vector<TextRun> runs) { return tokenizer->encode(runs, false); };
  EXPECT_EQ(encode({{"<eo", true}, {"", false}, {"s>", true}}), Ids{file.eos});
  EXPECT_EQ(encode({{"<eo", true}, {"s>", false}}).size(), 5u);
  EXPECT_EQ(encode({{"<eo", false}, {"s>", true}}).size(), 5u);
  EXPECT_EQ(encode({{"<eo", true}, {"s", false}, {">", true}}).size(), 5u);
  EXPECT_EQ(encode({{"<thi", true}, {"nk>", false}}), Ids{file.think});
  EXPECT_EQ(encode({{"<bos>", true}, {"<eos>", false}, {"<eos>", true}}),
            (Ids{file.bos, '<', 'e', 'o', 's', '>', file.eos}));
}

TEST(SpecialTokens, TakesTheLongestThatIsAllowed) {
  ChatFile file;
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("<|user|>", true, false), Ids{file.user});
  EXPECT_EQ(tokenizer->encode("<|user|>", false, false), (Ids{file.u, 's', 'e', 'r', '|', '>'}));
  EXPECT_EQ(tokenizer->encode("<|use<|user|>", true, false), (Ids{file.u, 's', 'e', file.user}));
}

TEST(SpecialTokens, UserDefinedLettersAreCutOutOfWords) {
  ChatFile file;
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("hör", false, false), (Ids{'h', file.umlaut, 'r'}));
  EXPECT_EQ(tokenizer->token_bytes(file.umlaut), "ö");
}

TEST(SpecialTokens, TextIsTokenizedAcrossRuns) {
  ChatFile file;
  int32_t hello = file.add_word("hello");
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode(std::vector<TextRun>{{"hel", true}, {"lo", false}}, false), Ids{hello});
}

TEST(SpecialTokens, SplitRunsGiveTheTokensOfTheWhole) {
  ChatFile file;
  file.add_word("hello");
  auto tokenizer = file.load_or_die();
  std::mt19937 random(11);
  const std::string bits[] = {"hello", "<eos>", "<|user|>", "<|use", "<think>", " ", "ö", "\xC3", "12", "<bos>"};
  for (int round = 0; round < 500; round++) {
    std::string text;
    for (size_t i = random() % 8; i > 0; i--) text += bits[random() % std::size(bits)];
    for (bool trusted : {false, true}) {
      std::vector<TextRun> runs;
      for (size_t at = 0; at < text.size();) {
        size_t length = std::min<size_t>(random() % 5, text.size() - at);
        runs.push_back({text.substr(at, length), trusted});
        at += length;
      }
      Ids whole = tokenizer->encode(text, trusted, true);
      ASSERT_EQ(tokenizer->encode(runs, true), whole) << text;
      ASSERT_EQ(join(*tokenizer, whole), text);
      for (int32_t id : whole) ASSERT_TRUE(trusted || !tokenizer->is_control(id)) << text;
    }
  }
}

// A file whose merges build a control token out of plain text must not open a back door.
TEST(SpecialTokens, MergesNeverMakeAControlToken) {
  for (const char* pre : {"deepseek-v3", "llama-bpe"}) {
    ChatFile file;
    file.pre = pre;
    int32_t ab = file.add("ab", kControl), cat = file.add("cat", kControl);
    file.add_merge("a", "b");
    auto tokenizer = file.load_or_die();
    EXPECT_EQ(tokenizer->encode("ab", false, false), (Ids{'a', 'b'}));
    EXPECT_EQ(tokenizer->encode("cat", false, false), (Ids{'c', 'a', 't'}));
    EXPECT_EQ(tokenizer->encode("cat", true, false), Ids{cat});
    EXPECT_EQ(tokenizer->encode("ab", true, false), Ids{ab});
  }
}

TEST(SpecialTokens, AddsBosAndEosOnce) {
  ChatFile file;
  file.flags = {{"add_bos_token", true}, {"add_eos_token", true}};
  auto tokenizer = file.load_or_die();
  EXPECT_TRUE(tokenizer->add_bos());
  EXPECT_EQ(tokenizer->encode("a", true, true), (Ids{file.bos, 'a', file.eos}));
  EXPECT_EQ(tokenizer->encode("a", true, false), Ids{'a'});
  EXPECT_EQ(tokenizer->encode("", true, true), (Ids{file.bos, file.eos}));
  EXPECT_EQ(tokenizer->encode("<bos>a<eos>", true, true), (Ids{file.bos, 'a', file.eos}));
  EXPECT_EQ(tokenizer->encode("<bos><bos>", true, true), (Ids{file.bos, file.bos, file.eos}));
  EXPECT_EQ(tokenizer->encode("a<bos>", true, true), (Ids{file.bos, 'a', file.bos, file.eos}));
  EXPECT_EQ(tokenizer->encode("<bos>", false, true).size(), 7u);
  EXPECT_EQ(tokenizer->encode("<eos>", false, true).back(), file.eos);
}

TEST(SpecialTokens, UntrustedTextCannotStandInForBosAndEos) {
  ChatFile file;
  file.types[static_cast<size_t>(file.bos)] = file.types[static_cast<size_t>(file.eos)] = kUserDefined;
  file.flags = {{"add_bos_token", true}, {"add_eos_token", true}};
  // "<eos>" is a well-known end token and so becomes control; "<bos>" stays a user_defined one.
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->encode("<bos>a", false, true), (Ids{file.bos, file.bos, 'a', file.eos}));
  EXPECT_EQ(tokenizer->encode("<bos>a", true, true), (Ids{file.bos, 'a', file.eos}));
}

TEST(SpecialTokens, AddsBosByTheRuleOrTheFile) {
  ChatFile file;
  EXPECT_FALSE(file.load_or_die()->add_bos());
  file.pre = "llama-bpe";
  EXPECT_TRUE(file.load_or_die()->add_bos());
  file.flags = {{"add_bos_token", false}};
  EXPECT_FALSE(file.load_or_die()->add_bos());
  file.flags = {{"add_bos_token", true}};
  file.pre = "glm4";
  EXPECT_FALSE(file.load_or_die()->add_bos());
  EXPECT_EQ(file.load_or_die()->bos(), -1);
  file.pre = "deepseek-v3";
  file.ids.clear();
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->bos(), -1);
  EXPECT_EQ(tokenizer->eos(), -1);
  EXPECT_EQ(tokenizer->bos_text(), "");
  EXPECT_FALSE(tokenizer->add_bos());
}

TEST(SpecialTokens, TellsTextsAndBytes) {
  ChatFile file;
  auto tokenizer = file.load_or_die();
  EXPECT_EQ(tokenizer->bos_text(), "<bos>");
  EXPECT_EQ(tokenizer->eos_text(), "<eos>");
  EXPECT_EQ(tokenizer->token_bytes(file.eos), "");
  EXPECT_EQ(tokenizer->token_bytes(file.eos, true), "<eos>");
  EXPECT_EQ(tokenizer->token_bytes(file.think), "<think>");
  EXPECT_EQ(tokenizer->token_bytes(file.pad, true), "");
  EXPECT_EQ(tokenizer->token_bytes(-1), "");
  EXPECT_EQ(tokenizer->token_bytes(tokenizer->vocab_size()), "");
  EXPECT_FALSE(tokenizer->is_control(-1));
  EXPECT_FALSE(tokenizer->is_end_of_generation(-1));
  EXPECT_EQ(tokenizer->find("<think>"), file.think);
  EXPECT_EQ(tokenizer->find("Ġ"), ' ');
  EXPECT_EQ(tokenizer->find("nothing"), -1);
  EXPECT_EQ(tokenizer->find(""), -1);
  EXPECT_EQ(tokenizer->pre(), "deepseek-v3");
}

TEST(EndOfGeneration, HasTheKeysAndTheKnownTexts) {
  VocabularyFile file;
  int32_t eos = file.add("<e>", kControl), im_end = file.add("<|im_end|>", kUserDefined);
  int32_t user = file.add("<|user|>", kControl), observation = file.add("<|observation|>", kControl);
  int32_t pad = file.add("<|fim_pad|>", kControl), prefix = file.add("<|fim_prefix|>", kUserDefined);
  int32_t s = file.add("</s>", kNormal), extra = file.add("<extra>", kControl), end = file.add("<|end|>", kControl);
  file.ids = {{"eos_token_id", static_cast<uint32_t>(eos)},
              {"eot_token_id", static_cast<uint32_t>(user)},
              {"eom_token_id", static_cast<uint32_t>(observation)}};
  file.eos_token_ids = {extra};
  auto tokenizer = file.load_or_die();
  for (int32_t id : {eos, im_end, user, observation, pad, extra, end}) EXPECT_TRUE(tokenizer->is_end_of_generation(id));
  for (int32_t id : {prefix, s, 0}) EXPECT_FALSE(tokenizer->is_end_of_generation(id));
  EXPECT_TRUE(tokenizer->is_control(im_end));  // an end token is never plain text, whatever the file marks it as
  EXPECT_TRUE(tokenizer->is_control(prefix));
}

TEST(EndOfGeneration, LeavesOutEnd_WhereMessagesEndWithoutEndingTheTurn) {
  for (const auto& pair : {std::pair("<|return|>", "<|call|>"), std::pair("<|calls|>", "<|flush|>")}) {
    VocabularyFile file;
    int32_t end = file.add("<|end|>", kControl), first = file.add(pair.first, kControl);
    EXPECT_TRUE(file.load_or_die()->is_end_of_generation(end));
    int32_t second = file.add(pair.second, kControl);
    auto tokenizer = file.load_or_die();
    EXPECT_FALSE(tokenizer->is_end_of_generation(end));
    EXPECT_TRUE(tokenizer->is_control(end));
    EXPECT_TRUE(tokenizer->is_end_of_generation(first));
    EXPECT_TRUE(tokenizer->is_end_of_generation(second));
  }
}

TEST(EndOfGeneration, LeavesOutClosingS_WhereToolResponsesHaveAMark) {
  VocabularyFile file;
  int32_t s = file.add("</s>", kControl);
  EXPECT_TRUE(file.load_or_die()->is_end_of_generation(s));
  file.add("<|tool_response>", kControl);
  EXPECT_FALSE(file.load_or_die()->is_end_of_generation(s));
}

}  // namespace
}  // namespace llmd
