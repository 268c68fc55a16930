// A record of the KV store: one page of one conversation, with all that it follows from (docs/formats/kv-store.md).
//
//   file = [header, 4096 bytes][rows of stream 0][rows of stream 1]...[zeros up to 4096]
//
// The id of a record, which is its file's name, is the SHA-256 of its parent's id, its token ids and its attention
// forms; the chain begins with the store key (all that decides about the bytes of a row) and the space. So a record can
// only be reached over the very history that its rows were computed upon. Payload and header have a CRC32C each.
// Pure functions and plain data; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/result.h"
#include "kv/kv_layout.h"
#include "kv/sha256.h"

namespace llmd {

inline constexpr uint64_t kRecordBlock = 4096;
inline constexpr uint32_t kRecordVersion = 1;

using RecordId = Sha256;

std::string to_hex(const RecordId& id);
/// False when `text` is not 64 hexadecimal digits.
bool from_hex(std::string_view text, RecordId& id);

/// The key of a store: `identity` names all that decides about the bytes of a row.
RecordId store_key(std::string_view identity);
/// The parent of all first pages of a space.
RecordId root_id(const RecordId& store, uint64_t space);
RecordId record_id(const RecordId& parent, std::span<const int32_t> tokens, std::span<const uint8_t> forms);

struct RecordHeader {
  RecordId id{}, parent{}, store{};
  uint64_t model = 0;  // identity of the model, for people
  std::string label;   // its name, up to 63 bytes, likewise
  uint32_t depth = 0;  // pages before it
  uint32_t count = 0;  // tokens, 1..256
  uint32_t bytes_per_token = 0;
  uint32_t payload_crc = 0;
  int64_t created_s = 0;  // seconds since 1970
  std::array<int32_t, kKvPageTokens> token{};
  std::array<uint8_t, kKvPageTokens> form{};

  std::span<const int32_t> tokens() const { return std::span(token).first(count); }
  std::span<const uint8_t> forms() const { return std::span(form).first(count); }
  uint64_t payload_bytes() const { return uint64_t{count} * bytes_per_token; }
  /// Rounded up to whole blocks, as in the file.
  uint64_t payload_room() const { return (payload_bytes() + kRecordBlock - 1) / kRecordBlock * kRecordBlock; }
  uint64_t file_bytes() const { return kRecordBlock + payload_room(); }
};

void encode_header(const RecordHeader& header, std::span<std::byte, kRecordBlock> block);
/// Errors: operating "kv_record_invalid", saying what is wrong. What comes back is consistent in itself: its id follows
/// from its parent, tokens and forms.
Result<RecordHeader> decode_header(std::span<const std::byte, kRecordBlock> block);

/// Moves the rows of `count` tokens, packed at the front of `page`, to where they belong in a page.
void spread_rows(const KvLayout& layout, std::byte* page, uint32_t count);

}  // namespace llmd
