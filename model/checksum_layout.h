// ChecksumLayout: which ranges of a model's files have a checksum of their own, and in which order.
//
//   shard 0: [header][tensor][experts: slice 0 | slice 1 | ...][tensor]...   shard 1: [header]...
//
// One for the header of each file (metadata and tensor table), one for each tensor, and for a tensor of experts one for
// each expert. Padding between them, which nobody reads, has none. The layout follows from the tensor table alone, so a
// file of checksums is a list of numbers (docs/formats/checksums.md). Immutable; any thread; points into the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gguf/gguf.h"

namespace llmd {

/// A run of equal slices with one checksum each.
struct ChecksumRange {
  const GgufTensor* tensor = nullptr;  // null: the header of the shard
  uint32_t shard = 0;
  uint64_t offset = 0;  // in the shard's file
  uint64_t slice_bytes = 0;
  uint32_t slices = 1;  // experts; 1 for everything else
  uint64_t first = 0;   // number of the first slice's checksum

  uint64_t slice_offset(uint32_t slice) const { return offset + slice_bytes * slice; }
  uint64_t end() const { return slice_offset(slices); }
};

class ChecksumLayout {
 public:
  /// Tensors of more experts than this get one checksum (no known model comes near).
  static constexpr uint64_t kSlicesMax = 4096;

  ChecksumLayout() = default;
  /// `model` must outlive the layout.
  explicit ChecksumLayout(const GgufModel& model);

  const GgufModel& model() const { return *model_; }
  /// Ascending by shard and offset.
  const std::vector<ChecksumRange>& ranges() const { return ranges_; }
  uint64_t count() const { return count_; }
  /// Differs between models: a hash of the tensor table (names, types, shapes, places).
  uint64_t identity() const { return identity_; }
  /// The range that begins at this place; null when none does.
  const ChecksumRange* find(uint32_t shard, uint64_t offset) const;
  /// "tensor blk.3.ffn_up_exps.weight, expert 17".
  static std::string describe(const ChecksumRange& range, uint32_t slice);

 private:
  const GgufModel* model_ = nullptr;
  std::vector<ChecksumRange> ranges_;
  uint64_t count_ = 0, identity_ = 0;
};

}  // namespace llmd
