// Thinking told from the answer, however the text comes in.
#include "api/reasoning.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace llmd {
namespace {

struct Fields {
  std::string reasoning, content;
  bool operator==(const Fields&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Fields& fields) {
  return out << "[" << fields.reasoning << "|" << fields.content << "]";
}

const ReasoningTags kThink{"<think>", "</think>"};

Fields split(std::string_view text, bool inside, size_t piece = SIZE_MAX) {
  ReasoningSplitter splitter(kThink, inside);
  Fields fields;
  for (size_t at = 0; at < text.size(); at += std::min(piece, text.size() - at))
    splitter.add(text.substr(at, piece), fields.reasoning, fields.content);
  splitter.finish(fields.reasoning, fields.content);
  return fields;
}

struct Case {
  const char* text;
  bool inside;
  Fields fields;
};

const Case kCases[] = {
    {"<think>\nIt is hot.\n</think>\n\nYes.", false, {"It is hot.", "Yes."}},
    {"\n <think>a</think>b", false, {"a", "b"}},
    {"It is hot.\n</think>\n\nYes.", true, {"It is hot.", "Yes."}},
    {"<think>\nTwice opened.</think>Yes.", true, {"Twice opened.", "Yes."}},
    {"Yes.", false, {"", "Yes."}},
    {"  Yes. ", false, {"", "  Yes. "}},
    {"", false, {"", ""}},
    {"", true, {"", ""}},
    {" \n", false, {"", " \n"}},
    {"<think></think>Yes.", false, {"", "Yes."}},
    {"</think>Yes.", true, {"", "Yes."}},
    {"<think>cut off \n", false, {"cut off", ""}},
    {"cut off </thin", true, {"cut off </thin", ""}},
    {"<thin", false, {"", "<thin"}},
    {"<thing>", false, {"", "<thing>"}},
    {"a </b> < /think> </think >\n</think>\n", true, {"a </b> < /think> </think >", ""}},
    {"a </</think>b", true, {"a </", "b"}},
    {"<think>a</think>b <think>c</think>", false, {"a", "b <think>c</think>"}},
    {"About the tag <think>: it opens.", false, {"", "About the tag <think>: it opens."}},
    {"<think>one\n\n two  </think>\nx\n", false, {"one\n\n two", "x\n"}},
};

TEST(ReasoningSplitter, TellsThinkingFromTheAnswer_WhateverThePieces) {
  for (const Case& c : kCases) {
    EXPECT_EQ(split(c.text, c.inside), c.fields) << c.text;
    for (size_t piece = 1; piece < 12; piece++) EXPECT_EQ(split(c.text, c.inside, piece), c.fields) << c.text << piece;
  }
}

TEST(ReasoningSplitter, LosesNothing_WhateverComes) {
  std::mt19937 random(7);
  const char* const parts[] = {"<think>", "</think>", "<", "</", "th", "ink>", " ", "\n", "a", "é", "x y"};
  for (int i = 0; i < 20'000; i++) {
    std::string text;
    for (int n = static_cast<int>(random() % 12); n > 0; n--) text += parts[random() % std::size(parts)];
    const bool inside = random() % 2 == 0;
    const Fields whole = split(text, inside);
    ASSERT_EQ(split(text, inside, 1 + random() % 4), whole) << text;
    // Without tags and white space all is there, in order.
    const auto bare = [](std::string s, bool tags) {
      for (const char* gone : {"<think>", "</think>"})
        if (const size_t at = s.find(gone); tags && at != std::string::npos) s.erase(at, std::strlen(gone));
      std::erase_if(s, [](char c) { return c == ' ' || c == '\n'; });
      return s;
    };
    const std::string kept = bare(whole.reasoning + whole.content, false);
    std::string all = bare(text, false);
    EXPECT_LE(all.size() - kept.size(), 15u) << text;  // at most one tag of either kind
    EXPECT_GE(all.size(), kept.size()) << text;
  }
}

TEST(ReasoningSplitter, SaysWhatComesNext) {
  ReasoningSplitter splitter(kThink, false);
  std::string reasoning, content;
  EXPECT_FALSE(splitter.thinking());
  splitter.add("<think>", reasoning, content);
  EXPECT_TRUE(splitter.thinking());
  splitter.add("a b", reasoning, content);
  EXPECT_EQ(reasoning, "a b");  // nothing is held back that cannot be a tag
  splitter.add("</think>", reasoning, content);
  EXPECT_FALSE(splitter.thinking());
  EXPECT_TRUE(ReasoningSplitter(kThink, true).thinking());
  ReasoningSplitter none;
  none.add("<think>a</think>", reasoning, content);
  EXPECT_EQ(content, "<think>a</think>");
}

TEST(ReasoningSplitter, HoldsBackLittle_WhenAModelLoopsInWhiteSpace) {
  ReasoningSplitter splitter(kThink, true);
  std::string reasoning, content;
  splitter.add("a", reasoning, content);
  for (int i = 0; i < 10'000; i++) splitter.add("  \n", reasoning, content);
  EXPECT_GT(reasoning.size(), 20'000u);
}

TEST(ReasoningTags, AreThoseTheTemplateKnows) {
  EXPECT_EQ(reasoning_tags("{{ x.split('</think>')[-1] }}").open, "<think>");
  EXPECT_EQ(reasoning_tags("[THINK]").close, "[/THINK]");
  EXPECT_EQ(reasoning_tags("{{ messages }}").open, "");
}

}  // namespace
}  // namespace llmd
