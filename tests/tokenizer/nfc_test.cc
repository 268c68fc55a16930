// NFC: known pairs, its own laws on random text, hostile runs. Expected forms are the Unicode Character Database's.
#include "model/tokenizer/nfc.h"

#include <gtest/gtest.h>

#include <random>

namespace llmd {
namespace {

std::string nfc(std::string_view text) {
  std::string storage;
  return std::string(to_nfc(text, storage));
}

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; i++) out += text;
  return out;
}

TEST(Nfc, ComposesAndOrders) {
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc("xe\u0301y"), "x\u00E9y");
  EXPECT_EQ(nfc("\u00E9\u0323"), "\u1EB9\u0301");              // the dot below goes first and composes
  EXPECT_EQ(nfc("e\u0301\u0323"), "\u1EB9\u0301");             // in either order
  EXPECT_EQ(nfc("a\u0302\u0301"), "\u1EA5");                   // twice
  EXPECT_EQ(nfc("a\u0301\u0302"), "\u00E1\u0302");             // of one class the order counts
  EXPECT_EQ(nfc("a\u0327\u0315b"), "a\u0327\u0315b");          // nothing composes
  EXPECT_EQ(nfc("\u0301e"), "\u0301e");                        // a mark with nothing before it
  EXPECT_EQ(nfc("\u09C7\u09BE"), "\u09CB");                    // a second part that is no mark
  EXPECT_EQ(nfc("\u09C7\u0301\u09BE"), "\u09C7\u0301\u09BE");  // and is kept away
}

TEST(Nfc, ReplacesSingletons_AndKeepsExclusionsApart) {
  EXPECT_EQ(nfc("\u212B\u2126x\u0340"), "\u00C5\u03A9x\u0300");
  EXPECT_EQ(nfc("\uF900"), "\u8C48");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");
  EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(nfc("\U0001D15E"), "\U0001D157\U0001D165");
}

TEST(Nfc, ComposesHangul) {
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(nfc("\u1112\u1161"), "\uD558");
  EXPECT_EQ(nfc("\uD558\u11AB"), "\uD55C");
  EXPECT_EQ(nfc("\uD55C\u11AB"), "\uD55C\u11AB");
  EXPECT_EQ(nfc("\uD558\u11A7"), "\uD558\u11A7");  // one before the first final
  EXPECT_EQ(nfc("\u1161\u11AB"), "\u1161\u11AB");
}

TEST(Nfc, LeavesTextThatIsInIt_WhereItIs) {
  for (std::string_view text : {"", "plain", "caf\u00E9 \u4F60\u597D \uD55C\uAE00 \u3042 \U0001F600", "\u1E00"}) {
    std::string storage = "untouched";
    EXPECT_EQ(to_nfc(text, storage), text);
  }
  std::string storage;
  const std::string text = "caf\u00E9 \u4F60";
  EXPECT_EQ(to_nfc(text, storage).data(), text.data());
}

TEST(Nfc, KeepsNewerCharactersAsTheReferenceDoes) {
  EXPECT_EQ(nfc("\U00011935\U00011930"), "\U00011935\U00011930");  // composes since Unicode 13
  EXPECT_EQ(nfc("a\u0898\u0323"), "a\u0898\u0323");                // a mark since Unicode 14
}

// Doing it twice changes nothing, and texts joined by a line feed do not touch each other.
TEST(Nfc, IsStable_ForRandomText) {
  const std::string_view bits[] = {"a",      "e",      "\u00E9",     "\u1EA5", "\u0301", "\u0323", "\u0345",
                                   "\u0344", "\u09C7", "\u09BE",     "\u1112", "\u1161", "\u11AB", "\uD558",
                                   "\u4F60", "\u212B", "\uF900",     "\u0958", "\u0F71", "\u0F72", "\u0F73",
                                   "\u3099", "\u304B", "\U0001D15E", "\u200D"};
  std::mt19937 random(11);
  for (int round = 0; round < 20000; round++) {
    std::string text, once;
    for (size_t i = random() % 12; i > 0; i--) text += bits[random() % std::size(bits)];
    once = nfc(text);
    ASSERT_EQ(nfc(once), once) << text;
    ASSERT_EQ(nfc(text + "\n" + text), once + "\n" + once) << text;
    ASSERT_LE(text.size(), kNfcShrinkMax * once.size());
    ASSERT_LE(once.size(), 3 * text.size());
  }
}

TEST(Nfc, TakesLongRuns) {
  const size_t n = 1 << 18;
  EXPECT_EQ(nfc(repeated("e\u0301", n)), repeated("\u00E9", n));
  EXPECT_EQ(nfc(repeated("\u1EA5", n)), repeated("\u1EA5", n));
  const std::string marks = nfc("e" + repeated("\u0301\u0323", n));  // one segment of half a million marks
  EXPECT_EQ(marks.size(), 3 + 4 * n - 2);
  EXPECT_EQ(marks.substr(0, 5), "\u1EB9\u0323");
}

}  // namespace
}  // namespace llmd
