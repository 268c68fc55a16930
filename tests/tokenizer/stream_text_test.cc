// Detokenizer and StopMatcher: text that is valid and final at every step, however it is cut.
#include <gtest/gtest.h>

#include <random>

#include "model/tokenizer/tokenizer.h"

namespace llmd {
namespace {

std::string detokenize(const std::vector<std::string>& parts) {
  Detokenizer detokenizer;
  std::string out;
  for (const std::string& part : parts) out += detokenizer.add(part);
  return out;
}

TEST(Detokenizer, WaitsForTheRestOfACharacter) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.add("a\xF0\x9F"), "a");
  EXPECT_TRUE(detokenizer.has_pending());
  EXPECT_EQ(detokenizer.add("\x98"), "");
  EXPECT_EQ(detokenizer.add("\x80"), "\xF0\x9F\x98\x80");
  EXPECT_FALSE(detokenizer.has_pending());
}

TEST(Detokenizer, ReplacesEachMaximalBadSequenceOnce) {
  EXPECT_EQ(detokenize({"\xFF"}), "\uFFFD");
  EXPECT_EQ(detokenize({"\xF0\x9F\x98"
                        "a"}),
            "\uFFFDa");
  EXPECT_EQ(detokenize({"\xC0\x80"}), "\uFFFD\uFFFD");
  EXPECT_EQ(detokenize({"\xED\xA0\x80"}), "\uFFFD\uFFFD\uFFFD");  // a surrogate: three bad bytes
  EXPECT_EQ(detokenize({"\xF4\x90\x80\x80"}), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(detokenize({"\xE4\xBD", "\xE4\xBD\xA0"}), "\uFFFD\u4F60");
  EXPECT_EQ(detokenize({"\x80"}), "\uFFFD");
}

TEST(Detokenizer, DropsAnIncompleteTailAtTheEnd) {
  Detokenizer detokenizer;
  EXPECT_EQ(detokenizer.add("x\xE4\xBD"), "x");
  detokenizer.finish();
  EXPECT_FALSE(detokenizer.has_pending());
  EXPECT_EQ(detokenizer.add("y"), "y");
}

TEST(Detokenizer, GivesTheSameText_HoweverTheBytesAreCut) {
  std::mt19937 random(3);
  const std::string bits[] = {"a", "é", "你", "😀", "\xC3", "\xF0\x9F", "\xFF", "\x80", "\xE4"};
  for (int round = 0; round < 2000; round++) {
    std::string bytes;
    for (size_t i = random() % 8; i > 0; i--) bytes += bits[random() % std::size(bits)];
    std::vector<std::string> parts;
    for (size_t at = 0; at < bytes.size();) {
      size_t length = random() % 3;
      parts.push_back(bytes.substr(at, length));
      at += parts.back().size();
    }
    ASSERT_EQ(detokenize(parts), detokenize({bytes})) << "round " << round;
  }
}

struct Stopped {
  std::string text, matched;
  bool operator==(const Stopped&) const = default;
};

Stopped run_stops(const std::vector<std::string>& stops, const std::vector<std::string>& parts) {
  StopMatcher matcher(stops);
  Stopped result;
  for (const std::string& part : parts) result.text += matcher.add(part);
  result.text += matcher.finish();
  result.matched = matcher.matched();
  return result;
}

TEST(StopMatcher, FindsAStopAcrossTokens) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.add("text E"), "text ");
  EXPECT_EQ(matcher.add("N"), "");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.add("D more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), "END");
  EXPECT_EQ(matcher.add("never"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, ReleasesWhatTurnsOutToBeText) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.add("aa"), "");
  EXPECT_EQ(matcher.add("a"), "a");  // the last two may still begin it
  EXPECT_EQ(matcher.add("c"), "aac");
  EXPECT_EQ(matcher.add("xaa"), "x");
  EXPECT_EQ(matcher.finish(), "aa");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), "");
}

TEST(StopMatcher, TakesTheMatchThatIsCompleteFirst) {
  EXPECT_EQ(run_stops({"world", "lo"}, {"hello world"}), (Stopped{"hel", "lo"}));
  EXPECT_EQ(run_stops({"lo w", "lo"}, {"hello world"}), (Stopped{"hel", "lo"}));
  EXPECT_EQ(run_stops({"o", "llo"}, {"hello"}), (Stopped{"he", "llo"}));
  EXPECT_EQ(run_stops({"x", "x"}, {"x"}), (Stopped{"", "x"}));
}

TEST(StopMatcher, IgnoresEmptyStops) {
  EXPECT_EQ(run_stops({""}, {"abc"}), (Stopped{"abc", ""}));
  EXPECT_EQ(run_stops({}, {"abc"}), (Stopped{"abc", ""}));
}

TEST(StopMatcher, GivesTheSameResult_HoweverTheTextIsCut) {
  std::mt19937 random(4);
  auto letters = [&](size_t max) {
    std::string out;
    for (size_t i = random() % (max + 1); i > 0; i--) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 5000; round++) {
    std::vector<std::string> stops;
    for (size_t i = random() % 4; i > 0; i--) stops.push_back(letters(5));
    std::string text = letters(12);
    std::vector<std::string> parts;
    for (size_t at = 0; at < text.size(); at += parts.back().size()) parts.push_back(text.substr(at, random() % 4));
    ASSERT_EQ(run_stops(stops, parts), run_stops(stops, {text})) << "round " << round;
  }
}

}  // namespace
}  // namespace llmd
