#include "io/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace llmd {
namespace {

std::vector<std::byte> filled(size_t count, uint8_t first, int step) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < count; i++) bytes.push_back(static_cast<std::byte>(first + step * static_cast<int>(i)));
  return bytes;
}

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, GivesThePublishedValues_ByEitherWay) {
  std::string_view digits = "123456789";
  std::vector<std::byte> text(digits.size());
  std::memcpy(text.data(), digits.data(), text.size());
  std::pair<std::vector<std::byte>, uint32_t> known[] = {
      {{}, 0},
      {filled(32, 0, 0), 0x8a9136aa},
      {filled(32, 0xff, 0), 0x62a8ab43},
      {filled(32, 0, 1), 0x46dd794e},
      {filled(32, 31, -1), 0x113fdb5c},
      {text, 0xe3069283},
  };
  for (const auto& [bytes, value] : known) {
    EXPECT_EQ(crc32c_by_table(bytes), value);
    EXPECT_EQ(crc32c(bytes), value);
  }
}

// Around every border of the interleaved streams, at every alignment, whole and in two parts.
TEST(Crc32c, AgreesWithTheTable_AtAnyLengthAndPlace) {
  if (!crc32c_is_hardware()) GTEST_SKIP() << "SKIPPED: this processor has no crc32 instruction";
  std::vector<std::byte> bytes;
  uint64_t state = 1;
  for (size_t i = 0; i < 20000; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes.push_back(static_cast<std::byte>(state >> 56));
  }
  std::span<const std::byte> all(bytes);
  for (size_t length : {1, 7, 8, 9, 1023, 1024, 3071, 3072, 3073, 3080, 6143, 6144, 6151, 9216, 19000}) {
    for (size_t begin = 0; begin < 9; begin++) {
      std::span<const std::byte> part = all.subspan(begin, length);
      uint32_t expected = crc32c_by_table(part);
      ASSERT_EQ(crc32c(part), expected) << length << " bytes from " << begin;
      size_t cut = length * begin / 9;
      ASSERT_EQ(crc32c(part.subspan(cut), crc32c(part.first(cut))), expected) << length << " bytes cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace llmd
