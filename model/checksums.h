// ModelChecksums: the CRC32C of each range of a model (model/checksum_layout.h), from the side file that
// `llmd verify --write` makes. Format: docs/formats/checksums.md.
//
// The side file stands beside the model (for a split one, beside its first file). It is believed only when its own
// checksum is right and it was made for exactly this model; anything else is an operating Error "checksums_invalid"
// whose one line says what is wrong and what to do. Immutable; any thread may read it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/result.h"
#include "model/checksum_layout.h"

namespace llmd {

class ModelChecksums {
 public:
  /// MODEL.gguf.crc, after the first file of the model.
  static std::string default_path(const GgufModel& model);
  /// Errors: "checksums_missing" when there is no such file, "file_open" when it cannot be read, "checksums_invalid".
  static Result<ModelChecksums> read(const std::string& path, const GgufModel& model);
  /// The same from bytes in memory; `path` is for messages.
  static Result<ModelChecksums> parse(const std::string& path, std::span<const std::byte> bytes,
                                      const GgufModel& model);
  /// `values` has one checksum for each of the layout's.
  ModelChecksums(ChecksumLayout layout, std::vector<uint32_t> values);

  /// Writes the side file aside and renames it. Errors: "file_write".
  Status write(const std::string& path) const;
  std::vector<std::byte> serialize() const;

  const ChecksumLayout& layout() const { return layout_; }
  uint32_t value(const ChecksumRange& range, uint32_t slice) const { return values_[range.first + slice]; }
  /// The error of a slice whose bytes are not those that the checksum was made of: "model_checksum_mismatch".
  Error mismatch(const ChecksumRange& range, uint32_t slice) const;

 private:
  ChecksumLayout layout_;
  std::vector<uint32_t> values_;
};

}  // namespace llmd
