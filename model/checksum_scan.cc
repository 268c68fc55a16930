#include "model/checksum_scan.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "io/crc32c.h"

namespace llmd {
namespace {

constexpr uint64_t kPieceBytes = 4u << 20, kAlignment = 64u << 10;
constexpr size_t kPieces = 8;  // in flight, or being worked on

struct Piece {
  Read read;
  uint32_t shard = 0;
  std::unique_ptr<std::byte, decltype(&std::free)> memory{nullptr, &std::free};

  uint64_t bytes() const { return read.needed_end - read.offset; }
};

// Cuts the files into pieces and has the next ones read.
class PieceReader {
 public:
  PieceReader(std::span<const DirectFile> files, Reader& reader) : files_(files), reader_(&reader) {
    for (Piece& piece : pieces_) {
      piece.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kPieceBytes)));
      LLMD_CHECK(piece.memory != nullptr);
    }
    while (submitted_ < kPieces && submit_next()) continue;
  }

  /// The next piece in file order, whose read is over; null at the end. The one given before is read into again.
  Piece* next() {
    if (taken_ > 0) submit_next();
    if (taken_ == submitted_) return nullptr;
    Piece& piece = pieces_[taken_++ % kPieces];
    wait_for(piece.read);
    return &piece;
  }

 private:
  bool submit_next() {
    while (shard_ < files_.size() && offset_ >= files_[shard_].bytes()) {
      shard_++;
      offset_ = 0;
    }
    if (shard_ == files_.size()) return false;
    const DirectFile& file = files_[shard_];
    uint64_t block = file.block_bytes();
    Piece& piece = pieces_[submitted_++ % kPieces];
    piece.shard = shard_;
    Read& read = piece.read;
    read.file = &file;
    read.offset = offset_;
    read.needed_end = std::min(offset_ + kPieceBytes, file.bytes());
    read.length = (piece.bytes() + block - 1) / block * block;
    read.buffer = piece.memory.get();
    read.priority = ReadPriority::kSweep;
    read.state.store(ReadState::kIdle, std::memory_order_relaxed);
    offset_ += kPieceBytes;
    Read* one = &read;
    reader_->submit({&one, 1});
    return true;
  }

  std::span<const DirectFile> files_;
  Reader* reader_;
  std::unique_ptr<Piece[]> storage_{new Piece[kPieces]};
  std::span<Piece> pieces_{storage_.get(), kPieces};
  uint32_t shard_ = 0;  // where the next piece begins
  uint64_t offset_ = 0;
  size_t submitted_ = 0, taken_ = 0;
};

}  // namespace

void ChecksumCursor::add(uint32_t shard, uint64_t offset, std::span<const std::byte> bytes) {
  if (shard != shard_ || offset != offset_) seek(shard, offset);
  uint64_t end = offset + bytes.size(), at = offset;
  while (at < end && range_ < layout_->ranges().size()) {
    const ChecksumRange& range = layout_->ranges()[range_];
    if (range.shard != shard) break;
    at = std::max(at, range.slice_offset(slice_) + done_);  // over the padding
    if (at >= end) break;
    uint64_t taken = std::min(range.slice_bytes - done_, end - at);
    crc_ = crc32c(bytes.subspan(at - offset, taken), done_ == 0 ? 0 : crc_);
    at += taken;
    done_ += taken;
    if (done_ < range.slice_bytes) break;
    found_(range, slice_, crc_);
    done_ = 0;
    if (++slice_ == range.slices) {
      slice_ = 0;
      range_++;
    }
  }
  shard_ = shard;
  offset_ = end;
}

// To the first slice that begins at or after the place.
void ChecksumCursor::seek(uint32_t shard, uint64_t offset) {
  const std::vector<ChecksumRange>& ranges = layout_->ranges();
  auto found = std::lower_bound(
      ranges.begin(), ranges.end(), std::pair(shard, offset),
      [](const ChecksumRange& range, const auto& place) { return std::pair(range.shard, range.end()) <= place; });
  range_ = static_cast<size_t>(found - ranges.begin());
  slice_ = 0;
  done_ = 0;
  if (found == ranges.end() || found->shard != shard || found->offset >= offset) return;
  slice_ = static_cast<uint32_t>((offset - found->offset + found->slice_bytes - 1) / found->slice_bytes);
  if (slice_ < found->slices) return;
  slice_ = 0;
  range_++;
}

void scan_model(const ChecksumLayout& layout, std::span<const DirectFile> files, Reader& reader,
                const ModelScan& scan) {
  ChecksumCursor cursor(layout, scan.found);
  PieceReader pieces(files, reader);
  uint64_t done = 0;
  while (Piece* piece = pieces.next()) {
    if (piece->read.state.load(std::memory_order_acquire) == ReadState::kFailed)
      scan.unreadable(read_error(piece->read));
    else
      cursor.add(piece->shard, piece->read.offset, {piece->memory.get(), piece->bytes()});
    done += piece->bytes();
    scan.progress(done);
  }
}

}  // namespace llmd
