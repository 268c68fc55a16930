#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace llmd {
namespace {

struct Pool {
  explicit Pool(uint64_t pages) : layout({{0, "latent", 64}, {1, "latent", 32}}), memory(layout.page_bytes() * pages) {
    pool = std::make_unique<KvPagePool>(layout, memory);
  }
  KvLayout layout;
  std::vector<std::byte> memory;
  std::unique_ptr<KvPagePool> pool;
};

TEST(KvLayout, PlacesStreamsOneAfterTheOther_WithinAPage) {
  Pool p(1);
  EXPECT_EQ(p.layout.bytes_per_token(), 96u);
  EXPECT_EQ(p.layout.page_bytes(), 96u * kKvPageTokens);
  EXPECT_EQ(p.layout.stream_offset(1), 64u * kKvPageTokens);
}

TEST(KvSequence, GivesEveryPositionItsOwnRow_InsideThePool) {
  Pool p(3);
  KvSequence sequence(*p.pool, 3 * kKvPageTokens);
  ASSERT_TRUE(sequence.extend(2 * kKvPageTokens + 1).ok());
  EXPECT_EQ(p.pool->pages_free(), 0u);
  std::set<std::byte*> seen;
  for (int32_t position = 0; position < sequence.length(); position++) {
    for (size_t stream = 0; stream < 2; stream++) {
      std::byte* row = sequence.row(stream, position);
      EXPECT_TRUE(seen.insert(row).second);
      EXPECT_GE(row, p.memory.data());
      EXPECT_LE(row + p.layout.streams()[stream].bytes_per_token, p.memory.data() + p.memory.size());
    }
  }
  EXPECT_EQ(sequence.block(0, 1), sequence.row(0, kKvPageTokens));
}

TEST(KvSequence, SaysSo_WhenNoPageIsLeft) {
  Pool p(1);
  KvSequence first(*p.pool, 512), second(*p.pool, 512);
  ASSERT_TRUE(first.extend(1).ok());
  Status status = second.extend(1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "kv_exhausted");
  EXPECT_EQ(second.length(), 0);
}

TEST(KvSequence, ReturnsPages_WhenCutBackOrDestroyed) {
  Pool p(4);
  {
    KvSequence sequence(*p.pool, 1024);
    ASSERT_TRUE(sequence.extend(4 * kKvPageTokens).ok());
    sequence.truncate(kKvPageTokens + 1);
    EXPECT_EQ(sequence.length(), kKvPageTokens + 1);
    EXPECT_EQ(p.pool->pages_free(), 2u);
    sequence.truncate(kKvPageTokens);
    EXPECT_EQ(p.pool->pages_free(), 3u);
  }
  EXPECT_EQ(p.pool->pages_free(), 4u);
}

}  // namespace
}  // namespace llmd
