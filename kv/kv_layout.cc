#include "kv/kv_layout.h"

#include <utility>

namespace llmd {

KvLayout::KvLayout(std::vector<KvStream> streams) : streams_(std::move(streams)) {
  for (const KvStream& stream : streams_) {
    offsets_.push_back(bytes_per_token_ * kKvPageTokens);
    bytes_per_token_ += stream.bytes_per_token;
  }
}

}  // namespace llmd
