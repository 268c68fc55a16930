// From the bytes of a model to the checksums of its slices (model/checksum_layout.h).
//
// ChecksumCursor takes bytes that somebody else has read, scan_model() reads every byte itself. Each is used by one
// thread. Neither fails: a slice whose bytes could not be had is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "io/direct_file.h"
#include "io/reader.h"
#include "io/result.h"
#include "model/checksum_layout.h"

namespace llmd {

/// Takes bytes of a model in file order. Slices that are not given whole (a gap between two calls) are left out.
/// Allocates nothing.
class ChecksumCursor {
 public:
  using Found = std::function<void(const ChecksumRange& range, uint32_t slice, uint32_t crc)>;

  ChecksumCursor(const ChecksumLayout& layout, Found found) : layout_(&layout), found_(std::move(found)) {}
  /// The bytes of a shard from `offset` on.
  void add(uint32_t shard, uint64_t offset, std::span<const std::byte> bytes);

 private:
  void seek(uint32_t shard, uint64_t offset);

  const ChecksumLayout* layout_;
  Found found_;
  uint32_t shard_ = 0;
  uint64_t offset_ = 0;  // where the next bytes are expected
  size_t range_ = 0;     // the slice they belong to, of which `done_` bytes are in crc_
  uint32_t slice_ = 0, crc_ = 0;
  uint64_t done_ = 0;
};

/// What scan_model() tells of.
struct ModelScan {
  ChecksumCursor::Found found;                   // each slice, in file order
  std::function<void(const Error&)> unreadable;  // a piece that could not be read; the slices it touches are left out
  std::function<void(uint64_t bytes)> progress;  // so many bytes are done
};

/// Reads every byte of the model once, in file order, with reads in flight up to a fixed 32 MiB of memory, and works
/// out each slice's checksum on the calling thread. `files` are the model's shards.
void scan_model(const ChecksumLayout& layout, std::span<const DirectFile> files, Reader& reader, const ModelScan& scan);

}  // namespace llmd
