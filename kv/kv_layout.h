// KvLayout: what one token leaves behind for later tokens to attend to, as the architecture describes it.
//
// A stream is (layer, name, bytes per token): MLA has one per layer (latent and rope key), GQA two, others add their
// own. Pages hold 256 tokens of every stream, each stream's rows back to back, so one page of one stream is one
// attention block:   page: [stream 0: 256 rows][stream 1: 256 rows]...[padding up to 4,096 bytes]
// Pages are whole blocks of a drive, so that a stored one can be read into its place. Plain data, immutable once built;
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmd {

inline constexpr int32_t kKvPageTokens = 256;
inline constexpr uint64_t kKvPageAlignment = 4096;

struct KvStream {
  int32_t layer = 0;
  std::string name;
  uint64_t bytes_per_token = 0;
};

/// Pages that `tokens` tokens take.
constexpr size_t kv_pages(int32_t tokens) {
  return static_cast<size_t>((tokens + kKvPageTokens - 1) / kKvPageTokens);
}

class KvLayout {
 public:
  KvLayout() = default;
  explicit KvLayout(std::vector<KvStream> streams);

  const std::vector<KvStream>& streams() const { return streams_; }
  uint64_t bytes_per_token() const { return bytes_per_token_; }
  /// What a page takes in memory.
  uint64_t page_bytes() const {
    return (bytes_per_token_ * kKvPageTokens + kKvPageAlignment - 1) / kKvPageAlignment * kKvPageAlignment;
  }
  /// Byte offset of a stream's first row inside a page.
  uint64_t stream_offset(size_t stream) const { return offsets_[stream]; }

 private:
  std::vector<KvStream> streams_;
  std::vector<uint64_t> offsets_;
  uint64_t bytes_per_token_ = 0;
};

}  // namespace llmd
