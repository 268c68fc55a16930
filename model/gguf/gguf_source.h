// GgufSource: where the bytes of one GGUF file come from: a file by pread, or memory in tests and fuzzers.
//
// A source has a size that never changes and is read at absolute offsets; asking for bytes past its end is a bug of
// the caller (GgufCursor checks first). Used by one thread. Files are never mmapped: a truncated file must be an error,
// not a signal. The file source drops what it read from the page cache when it dies, because the page cache is memory
// that the budget does not know of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/result.h"

namespace llmd {

class GgufSource {
 public:
  virtual ~GgufSource() = default;
  /// Fills `out` with the bytes at `offset`. Errors: "model_read_error" (the system's reason), "gguf_invalid" when the
  /// file became shorter than it was at open.
  virtual Status read(uint64_t offset, std::span<std::byte> out) = 0;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

 protected:
  GgufSource(std::string path, uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}

 private:
  std::string path_;
  uint64_t bytes_;
};

/// A regular file. Errors: "file_open" with the system's reason; `error_number`, if given, receives errno.
Result<std::unique_ptr<GgufSource>> open_gguf_file(const std::string& path, int* error_number = nullptr);

/// Bytes that outlive the source; `name` stands for the path in errors.
std::unique_ptr<GgufSource> gguf_memory_source(std::string name, std::span<const std::byte> bytes);

}  // namespace llmd
