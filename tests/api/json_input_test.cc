#include "api/json_input.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace llmd {
namespace {

TEST(JsonInput, RefusesTextThatIsNotJson) {
  using namespace std::string_literals;
  for (const std::string& text :
       {""s,         " "s,        "{"s,        "}"s,       "{\"a\":}"s,  "{\"a\":1,}"s,    "[1,]"s,
        "{'a':1}"s,  "{a:1}"s,    "01"s,       "+1"s,      "NaN"s,       "Infinity"s,      "1e999"s,
        "-1e999"s,   "\"\x01\""s, "\"a\nb\""s, "\"\\x\""s, "\"\\u12\""s, "{} x"s,          "{}{}"s,
        "// c\n{}"s, "nul"s,      "\"abc"s,    "\0"s,      "{}\0"s,      "\xFF\xFE{\0}\0"s}) {
    const auto result = parse_json(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().code, "invalid_json");
    EXPECT_EQ(result.error().kind, ErrorKind::kClient);
  }
}

TEST(JsonInput, RefusesInvalidUtf8AndLoneSurrogates) {
  for (const char* text :
       {"\"\xFF\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF5\x80\x80\x80\"", "\"\xE2\x82\"", "{\"\xFF\":1}",
        "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\\ud83d\\u0041\"", "\"\\ud83d\\ud83d\""}) {
    EXPECT_FALSE(parse_json(text).ok()) << text;
  }
  EXPECT_EQ(*parse_json("\"\\ud83d\\ude00\""), "\xF0\x9F\x98\x80");
  EXPECT_EQ(parse_json("\"a\\u0000b\"")->get<std::string>(), std::string("a\0b", 3));
}

TEST(JsonInput, SaysAtWhichByte) {
  EXPECT_NE(parse_json("{\"a\": tru}").error().message.find("byte 10"), std::string::npos);
}

TEST(JsonInput, KeepsOrderAndTheLastOfDuplicateKeys) {
  EXPECT_EQ(parse_json(R"({"z":1,"a":{"k":1,"k":2},"z":3,"b":4})")->dump(), R"({"a":{"k":2},"z":3,"b":4})");
}

TEST(JsonInput, LimitsDepth) {
  JsonLimits limits;
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(limits.depth_max), limits).ok());
  EXPECT_FALSE(parse_json(nested(limits.depth_max + 1), limits).ok());
  EXPECT_FALSE(parse_json(std::string(10'000'000, '['), limits).ok());
  std::string objects;
  for (int i = 0; i < 10'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse_json(objects, limits).ok());
}

TEST(JsonInput, LimitsTheNumberOfValues) {
  JsonLimits limits;
  limits.values_max = 10;
  EXPECT_TRUE(parse_json("[1,2,3,4,5,6,7,8,9]", limits).ok());
  EXPECT_FALSE(parse_json("[1,2,3,4,5,6,7,8,9,10]", limits).ok());
}

// Quadratic work here would take minutes and fail the suite's time limit.
TEST(JsonInput, TakesObjectsOfManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  text += "\"k0\":7}";
  JsonLimits limits;
  limits.values_max = 262'144;
  const auto result = parse_json(text, limits);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->size(), 200'000u);
}

}  // namespace
}  // namespace llmd
