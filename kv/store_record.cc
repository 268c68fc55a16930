#include "kv/store_record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "io/check.h"
#include "io/crc32c.h"

namespace llmd {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> kMagic = {'L', 'L', 'M', 'D', 'K', 'V', '\n', '\0'};
constexpr size_t kLabelBytes = 64;

/// The header as it lies in the file; the rest of the block is zeros.
struct Block {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t header_crc;  // of the whole block, with this field zero
  RecordId id, parent, store;
  uint64_t model;
  int64_t created_s;
  uint32_t depth, count, bytes_per_token, payload_crc;
  std::array<char, kLabelBytes> label;
  std::array<int32_t, kKvPageTokens> token;
  std::array<uint8_t, kKvPageTokens> form;
};
static_assert(sizeof(Block) == 208 + 1024 + 256 && sizeof(Block) <= kRecordBlock);

/// Gathers what is hashed.
class Message {
 public:
  explicit Message(std::string_view purpose) { add(std::as_bytes(std::span(purpose))); }
  void add(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  template <typename T>
  void add_value(const T& value) {
    add(std::as_bytes(std::span(&value, 1)));
  }
  Sha256 digest() const { return sha256(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

Error invalid(const char* what) {
  return operating_error("kv_record_invalid", what);
}

}  // namespace

std::string to_hex(const RecordId& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : id) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool from_hex(std::string_view text, RecordId& id) {
  if (text.size() != 2 * id.size()) return false;
  auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (size_t i = 0; i < id.size(); i++) {
    int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    id[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

RecordId store_key(std::string_view identity) {
  Message message("llmd kv store 1\n");
  message.add(std::as_bytes(std::span(identity)));
  return message.digest();
}

RecordId root_id(const RecordId& store, uint64_t space) {
  Message message("llmd kv root 1\n");
  message.add_value(store);
  message.add_value(space);
  return message.digest();
}

RecordId record_id(const RecordId& parent, std::span<const int32_t> tokens, std::span<const uint8_t> forms) {
  LLMD_CHECK(tokens.size() == forms.size());
  Message message("llmd kv page 1\n");
  message.add_value(parent);
  message.add_value(static_cast<uint32_t>(tokens.size()));
  message.add(std::as_bytes(tokens));
  message.add(std::as_bytes(forms));
  return message.digest();
}

void encode_header(const RecordHeader& header, std::span<std::byte, kRecordBlock> block) {
  Block b{};
  b.magic = kMagic;
  b.version = kRecordVersion;
  b.id = header.id;
  b.parent = header.parent;
  b.store = header.store;
  b.model = header.model;
  b.created_s = header.created_s;
  b.depth = header.depth;
  b.count = header.count;
  b.bytes_per_token = header.bytes_per_token;
  b.payload_crc = header.payload_crc;
  std::copy_n(header.label.begin(), std::min(header.label.size(), kLabelBytes - 1), b.label.begin());
  std::copy_n(header.token.begin(), header.count, b.token.begin());
  std::copy_n(header.form.begin(), header.count, b.form.begin());
  std::fill(block.begin(), block.end(), std::byte{0});
  std::memcpy(block.data(), &b, sizeof(b));
  b.header_crc = crc32c(block);
  std::memcpy(block.data(), &b, sizeof(b));
}

Result<RecordHeader> decode_header(std::span<const std::byte, kRecordBlock> block) {
  Block b;
  std::memcpy(&b, block.data(), sizeof(b));
  if (b.magic != kMagic) return invalid("it is not a record of a KV store");
  if (b.version != kRecordVersion) return invalid("it is of another version of the format");
  uint32_t expected = b.header_crc;
  b.header_crc = 0;
  uint32_t crc = crc32c(std::as_bytes(std::span(&b, 1)));
  if (crc32c(block.subspan(sizeof(b)), crc) != expected) return invalid("its header is damaged");
  if (b.count < 1 || b.count > kKvPageTokens || b.bytes_per_token == 0) return invalid("its header makes no sense");
  RecordHeader header;
  header.id = b.id;
  header.parent = b.parent;
  header.store = b.store;
  header.model = b.model;
  header.created_s = b.created_s;
  header.depth = b.depth;
  header.count = b.count;
  header.bytes_per_token = b.bytes_per_token;
  header.payload_crc = b.payload_crc;
  header.label.assign(b.label.begin(), std::find(b.label.begin(), b.label.end(), '\0'));
  header.token = b.token;
  header.form = b.form;
  if (record_id(header.parent, header.tokens(), header.forms()) != header.id)
    return invalid("its id does not follow from its content");
  return header;
}

void spread_rows(const KvLayout& layout, std::byte* page, uint32_t count) {
  uint64_t packed = layout.bytes_per_token() * count;
  // From the last stream to the first: each moves up, into room that the ones behind it have left.
  for (size_t s = layout.streams().size(); s > 0; s--) {
    uint64_t bytes = layout.streams()[s - 1].bytes_per_token * count;
    packed -= bytes;
    std::memmove(page + layout.stream_offset(s - 1), page + packed, bytes);
  }
}

}  // namespace llmd
