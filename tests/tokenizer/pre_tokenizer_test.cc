// The pre-tokenizer: cuts by hand, machine code against interpreter, Unicode classes, worst-case texts.
#include "model/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "model/tokenizer/unicode_additions.h"

namespace llmd {
namespace {

using Pieces = std::vector<std::string>;
constexpr auto kInterpreted = PreTokenizer::Code::kInterpreted;
const char* const kRules[] = {"deepseek-v3", "deepseek-llm", "deepseek-coder", "llama-bpe", "kimi-k2",
                              "gpt-4o",      "gpt-2",        "starcoder",      "falcon",    "qwen2",
                              "qwen35",      "bailingmoe",   "tekken",         "youtu",     "default"};

Pieces split(std::string_view rule, std::string_view text,
             PreTokenizer::Code code = PreTokenizer::Code::kMachineCodeIfAllowed) {
  Result<PreTokenizer> created = PreTokenizer::create(rule, code);
  LLMD_CHECK(created.ok());
  PreTokenizer::Scratch scratch;
  created->split(text, scratch);
  Pieces pieces;
  size_t begin = 0;
  for (size_t end : scratch.ends) {
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

std::string utf8(char32_t c) {
  std::string out;
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))};
  if (c >= 0x10000) {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 63));
  } else {
    out += static_cast<char>(0xE0 | (c >> 12));
  }
  return out + static_cast<char>(0x80 | ((c >> 6) & 63)) + static_cast<char>(0x80 | (c & 63));
}

TEST(PreTokenizer, CutsByTheRuleOfDeepseekV3) {
  EXPECT_EQ(split("deepseek-v3", "Hello world"), (Pieces{"Hello", " world"}));
  EXPECT_EQ(split("deepseek-v3", "12345"), (Pieces{"123", "45"}));
  EXPECT_EQ(split("deepseek-v3", "x.com .é"), (Pieces{"x", ".com", " .", "é"}));
  EXPECT_EQ(split("deepseek-v3", "你好abc"), (Pieces{"你好", "abc"}));
  EXPECT_EQ(split("deepseek-v3", "a \n\n  b"), (Pieces{"a", " \n\n", " ", " b"}));
  EXPECT_EQ(split("deepseek-v3", "a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(split("deepseek-v3", ""), Pieces{});
}

TEST(PreTokenizer, CutsByTheRuleOfDeepseekLlm) {
  EXPECT_EQ(split("deepseek-llm", "Hello world 12"), (Pieces{"Hello", " world", " ", "12"}));
  EXPECT_EQ(split("deepseek-llm", "a\n\nb"), (Pieces{"a", "\n", "\n", "b"}));
  EXPECT_EQ(split("deepseek-llm", "a  \u3000"), (Pieces{"a", " ", " ", "\u3000"}));
}

TEST(PreTokenizer, CutsByTheRulesOfOtherFamilies) {
  EXPECT_EQ(split("qwen2", "I'LL see 12e\u0301"), (Pieces{"I", "'LL", " see", " ", "1", "2", "e", "\u0301"}));
  EXPECT_EQ(split("qwen35", "12e\u0301"), (Pieces{"1", "2", "e\u0301"}));
  EXPECT_EQ(split("llama-bpe", "1234 a/\n"), (Pieces{"123", "4", " a", "/\n"}));
  EXPECT_EQ(split("gpt-4o", "HelloWORLD's 1234 /\n/"), (Pieces{"Hello", "WORLD's", " ", "123", "4", " /\n/"}));
  EXPECT_EQ(split("tekken", "HelloWORLD's 12"), (Pieces{"Hello", "WORLD", "'s", " ", "1", "2"}));
  EXPECT_EQ(split("kimi-k2", "HelloWORLD你好a1234"), (Pieces{"Hello", "WORLD", "你好", "a", "123", "4"}));
  EXPECT_EQ(split("youtu", "한글你好！！ㄅab'S1"), (Pieces{"한글", "你好", "！！", "ㄅ", "ab'S", "1"}));
  EXPECT_EQ(split("bailingmoe2", "don'T 12"), (Pieces{"don", "'T", " ", "1", "2"}));
  EXPECT_EQ(split("gpt-2", "don't 123  a"), (Pieces{"don", "'t", " 123", " ", " a"}));
  EXPECT_EQ(split("default", "a--1234"), (Pieces{"a", "--", "123", "4"}));
}

TEST(PreTokenizer, KnowsTheNamesOfEachRule) {
  const std::vector<std::vector<const char*>> same = {
      {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "glm4",
       "chatglm-bpe", "dbrx", "smaug-bpe"},
      {"deepseek-v3", "hunyuan-dense", "joyai-llm"},
      {"qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open", "grok-2"},
      {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
      {"gpt-2", "gigachat", "phi-2", "olmo", "mpt", "jais", "exaone4", "a.x-4.0", "mellum", "modern-bert", "jina-es",
       "jina-de", "jina-v2-es", "jina-v2-de"},
      {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
      {"bailingmoe", "bailingmoe2", "llada-moe"}};
  for (const auto& names : same) {
    const PreTokenizerName* first = find_pre_tokenizer(names[0]);
    ASSERT_TRUE(first) << names[0];
    for (const char* name : names) {
      const PreTokenizerName* entry = find_pre_tokenizer(name);
      ASSERT_TRUE(entry) << name;
      EXPECT_EQ(entry->passes.data(), first->passes.data()) << name;
      const std::string_view text = name;
      EXPECT_EQ(entry->nfc, text == "qwen2" || text == "qwen35") << name;
      EXPECT_EQ(entry->never_bos, text == "glm4" || text == "chatglm-bpe") << name;
    }
  }
  for (const char* name : {"tekken", "llama-bpe"}) {
    EXPECT_TRUE(find_pre_tokenizer(name)->add_bos && find_pre_tokenizer(name)->whole_piece_first) << name;
  }
  EXPECT_TRUE(find_pre_tokenizer("youtu")->whole_piece_first);
  EXPECT_FALSE(find_pre_tokenizer("deepseek-v3")->add_bos);
}

TEST(PreTokenizer, WhiteSpaceIsWhatUnicodeSays) {
  EXPECT_EQ(split("gpt-2", "\u180E\u180E"), Pieces{"\u180E\u180E"});  // PCRE2's \s would have it, White_Space does not
  EXPECT_EQ(split("gpt-2", "a\uFEFF"), (Pieces{"a", "\uFEFF"}));
  EXPECT_EQ(split("gpt-2",
                  "\u0085\u0085"
                  "a"),
            (Pieces{"\u0085", "\u0085", "a"}));
  EXPECT_EQ(expand_whitespace(R"(\\s[\s\]]\S)").substr(0, 10), R"(\\s[\x{9}-)");
}

TEST(PreTokenizer, KnowsCodePointsNewerThanTheLibrary) {
  const std::string digit = "\U00010D40", letter = "\U00031350", mark = "\u0897";
  EXPECT_EQ(split("deepseek-v3", "a" + digit + digit + digit + digit), (Pieces{"a", digit + digit + digit, digit}));
  EXPECT_EQ(split("deepseek-v3", "a" + letter + mark + "."), (Pieces{"a" + letter + mark, "."}));
  EXPECT_EQ(split("kimi-k2", "a" + letter + "\u4E00"), (Pieces{"a", letter + "\u4E00"}));
}

TEST(PreTokenizer, NamesTheRuleItDoesNotKnow) {
  Result<PreTokenizer> created = PreTokenizer::create("nonsense");
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(created.error().code, "tokenizer_unsupported");
  EXPECT_NE(created.error().message.find("nonsense"), std::string::npos);
}

TEST(PreTokenizer, InterpretedAndCompiledAgree_ForRandomText) {
  std::mt19937 random(99);
  const char32_t interesting[] = {' ', '\t', '\n',    '\r',    0x85,  0xA0,    0x3000, 0x2029, 0x180E, '\'',   's',
                                  'l', 'A',  'b',     '1',     0xB2,  0x301,   0x4E00, 0x3042, 0xAC00, 0x2018, '.',
                                  '/', '$',  0x1F600, 0x10D40, 0x897, 0x31350, 0x1C89, 0,      0xE000};
  for (const char* rule : kRules) {
    for (int round = 0; round < 200; round++) {
      std::string text;
      for (size_t i = random() % 40; i > 0; i--) text += utf8(interesting[random() % std::size(interesting)]);
      Pieces pieces = split(rule, text);
      ASSERT_EQ(pieces, split(rule, text, kInterpreted)) << rule << ": " << text;
      std::string joined;
      for (const std::string& piece : pieces) {
        ASSERT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text) << rule;
    }
  }
}

TEST(PreTokenizer, InterpretedAndCompiledAgree_OnTheKnownAnswers) {
  std::string folder = LLMD_SOURCE_DIR "/../shared/data/token-vectors/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIPPED: no " << folder;
  for (const char* rule : {"deepseek-v3", "deepseek-llm", "kimi-k2", "gpt-4o", "llama-bpe"}) {
    std::ifstream in(folder + rule + ".json");
    nlohmann::json file = nlohmann::json::parse(in);
    for (const auto& test : file["tests"]) {
      std::string text = test["text"];
      ASSERT_EQ(split(rule, text), split(rule, text, kInterpreted)) << rule << ": " << test["text"];
    }
  }
}

// As under systemd's MemoryDenyWriteExecute: PCRE2 cannot make machine code and interprets.
TEST(PreTokenizer, WorksWhereMachineCodeIsForbidden) {
  constexpr int kSetMemoryDenyWriteExecute = 65;  // PR_SET_MDWE, Linux 6.3
  Pieces expected = {"Hello", " world", " ", "123", "45"};
  EXPECT_EXIT(
      {
        if (prctl(kSetMemoryDenyWriteExecute, 1ul, 0ul, 0ul, 0ul) != 0) _exit(77);
        void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page != MAP_FAILED) _exit(1);
        _exit(split("deepseek-v3", "Hello world 12345") == expected ? 0 : 2);
      },
      [](int status) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) std::cout << "SKIPPED: this kernel has no PR_SET_MDWE\n";
        return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
      },
      "");
}

// Long runs are where backtracking could explode: a quadratic rule would take hours, or run into its limit.
TEST(PreTokenizer, LongRunsStayCheap) {
  constexpr size_t kLength = 1 << 16;
  for (const char* rule : kRules) {
    for (auto code : {PreTokenizer::Code::kMachineCodeIfAllowed, kInterpreted}) {
      for (const std::string unit : {" ", "\n", "A", "a", "1", "!", "\u0301", "你", " \t", "Aa", "' "}) {
        std::string run;
        while (run.size() < kLength) run += unit;
        for (const char* tail : {"", "1", "a", "\n"}) EXPECT_FALSE(split(rule, run + tail, code).empty());
      }
    }
  }
  EXPECT_EQ(split("deepseek-v3", std::string(kLength, 'A')).size(), 1u);
  EXPECT_EQ(split("kimi-k2", std::string(kLength, 'A'), kInterpreted).size(), 1u);
  EXPECT_EQ(split("gpt-4o", std::string(kLength, 'A')).size(), 1u);
  EXPECT_EQ(split("deepseek-llm", std::string(kLength, ' ') + "1").size(), 2u);
}

/// The code points of a class as our PCRE2 and the stand-ins see them.
bool in_class(const pcre2_code* pattern, pcre2_match_data* match, char32_t c) {
  char32_t stand_in = newer_code_point_stand_in(c);
  std::string text = utf8(stand_in ? stand_in : c);
  return pcre2_match(pattern, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match, nullptr) >= 0;
}

TEST(PreTokenizer, ClassesAreThoseOfUnicode16) {
  std::string path = LLMD_SOURCE_DIR "/../shared/data/token-vectors/unicode-classes.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "SKIPPED: no " << path;
  std::ifstream in(path);
  nlohmann::json classes = nlohmann::json::parse(in)["classes"];
  for (const auto& [name, ranges] : classes.items()) {
    std::set<char32_t> expected;
    for (const auto& range : ranges) {
      for (char32_t c = range.front(); c <= range.back().get<char32_t>(); c++) expected.insert(c);
    }
    std::string text = name == "s" ? expand_whitespace("\\s") : name == "Han" ? "\\p{sc:Han}" : "\\p{" + name + "}";
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* pattern = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF | PCRE2_UCP,
                                        &error, &offset, nullptr);
    ASSERT_TRUE(pattern) << name;
    pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
    size_t wrong = 0;
    for (char32_t c = 0; c < 0x110000; c++) {
      if (c >= 0xD800 && c < 0xE000) continue;
      if (in_class(pattern, match, c) != (expected.count(c) > 0) && wrong++ < 5) {
        ADD_FAILURE() << "class " << name << ", code point " << std::hex << static_cast<uint32_t>(c);
      }
    }
    EXPECT_EQ(wrong, 0u) << name;
    pcre2_match_data_free(match);
    pcre2_code_free(pattern);
  }
}

}  // namespace
}  // namespace llmd
