#include "kv/store_record.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace llmd {
namespace {

std::string digest(std::string_view text) {
  return to_hex(sha256(std::as_bytes(std::span(text))));
}

// FIPS 180-4's examples, and lengths around the padding's edges.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(digest(std::string(55, 'a')), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(digest(std::string(64, 'a')), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

RecordHeader example() {
  RecordHeader header;
  header.store = store_key("model 1");
  header.parent = root_id(header.store, 7);
  header.model = 0x1234;
  header.label = "a model";
  header.depth = 0;
  header.count = 100;
  header.bytes_per_token = 40;
  header.payload_crc = 99;
  header.created_s = 1700000000;
  for (size_t i = 0; i < header.count; i++) header.token[i] = static_cast<int32_t>(i), header.form[i] = i % 3 == 0;
  header.id = record_id(header.parent, header.tokens(), header.forms());
  return header;
}

TEST(RecordHeader, ComesBackAsItWas) {
  RecordHeader header = example();
  std::array<std::byte, kRecordBlock> block;
  encode_header(header, block);
  Result<RecordHeader> back = decode_header(block);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->id, header.id);
  EXPECT_EQ(back->store, header.store);
  EXPECT_EQ(back->label, "a model");
  EXPECT_EQ(back->token, header.token);
  EXPECT_EQ(back->form, header.form);
  EXPECT_EQ(back->file_bytes(), 2 * kRecordBlock);
}

TEST(RecordHeader, IsRefused_WhenAnyBitIsFlipped) {
  std::array<std::byte, kRecordBlock> block;
  encode_header(example(), block);
  std::mt19937 random(1);
  for (size_t at = 0; at < block.size(); at += at < 300 ? 1 : random() % 20 + 1) {
    block[at] ^= std::byte{static_cast<unsigned char>(1u << random() % 8)};
    EXPECT_FALSE(decode_header(block).ok()) << at;
    encode_header(example(), block);
  }
}

TEST(RecordHeader, IsRefused_WhenItsIdIsNotItsContents) {
  RecordHeader header = example();
  header.token[3] = 12345;
  std::array<std::byte, kRecordBlock> block;
  encode_header(header, block);
  EXPECT_FALSE(decode_header(block).ok());
  header = example();
  header.count = 0;
  encode_header(header, block);
  EXPECT_FALSE(decode_header(block).ok());
}

TEST(RecordId, DependsOnEverythingBefore) {
  std::vector<int32_t> tokens = {1, 2, 3};
  std::vector<uint8_t> forms = {0, 0, 1}, others = {0, 1, 1};
  RecordId root = root_id(store_key("a"), 0);
  EXPECT_NE(root, root_id(store_key("b"), 0));
  EXPECT_NE(root, root_id(store_key("a"), 1));
  EXPECT_NE(record_id(root, tokens, forms), record_id(root, tokens, others));
  EXPECT_NE(record_id(root, tokens, forms), record_id(root_id(store_key("a"), 1), tokens, forms));
}

TEST(SpreadRows, PutsPackedRowsWhereTheyBelong) {
  KvLayout layout({{0, "a", 3}, {1, "b", 5}, {2, "c", 2}});
  for (uint32_t count : {1u, 7u, 255u, 256u}) {
    std::vector<std::byte> page(layout.page_bytes());
    size_t at = 0;
    for (const KvStream& stream : layout.streams())
      for (uint64_t i = 0; i < stream.bytes_per_token * count; i++)
        page[at++] = static_cast<std::byte>(static_cast<uint64_t>(stream.layer) * 50 + i);
    spread_rows(layout, page.data(), count);
    for (size_t s = 0; s < 3; s++)
      for (uint64_t i = 0; i < layout.streams()[s].bytes_per_token * count; i++)
        ASSERT_EQ(page[layout.stream_offset(s) + i], static_cast<std::byte>(s * 50 + i));
  }
}

}  // namespace
}  // namespace llmd
