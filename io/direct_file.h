// DirectFile: one file opened for reads that bypass the page cache.
//
// open() asks statx for the O_DIRECT alignment, then proves it with one read. Where direct reads cannot be had (tmpfs,
// some FUSE and network file systems) the file is opened buffered, read with posix_fadvise(DONTNEED) behind each read,
// and mode_reason() says why in one line. Remembers the file's identity so that a replaced or rewritten file can be
// told apart. Immutable after open(); any thread may use it. Close only when no read is in flight.
#pragma once

#include <cstdint>
#include <string>

#include "io/result.h"

namespace llmd {

struct FileIdentity {
  uint64_t device = 0, inode = 0, bytes = 0;
  int64_t mtime_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

class DirectFile {
 public:
  /// Errors: operating "file_open" with the path and the system's reason.
  static Result<DirectFile> open(const std::string& path);
  /// The same without trying direct reads, for a file system where they misbehave.
  static Result<DirectFile> open_buffered(const std::string& path);
  DirectFile(DirectFile&& other) noexcept;
  DirectFile& operator=(DirectFile&& other) noexcept;
  DirectFile(const DirectFile&) = delete;
  ~DirectFile();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  uint64_t bytes() const { return identity_.bytes; }
  bool direct() const { return direct_; }
  const std::string& mode_reason() const { return mode_reason_; }  // "O_DIRECT, 4096-byte blocks" or why not
  /// Offsets, lengths and buffer addresses of reads are multiples of this; at least 512, a power of two, at most 64
  /// KiB.
  uint32_t block_bytes() const { return block_bytes_; }
  /// Whether starting a read may sleep in the kernel: true but for direct reads of file systems known not to.
  bool may_block() const { return may_block_; }
  /// "ext4", "xfs", ...; the magic number where the name is not known.
  const std::string& file_system() const { return file_system_; }
  const FileIdentity& identity() const { return identity_; }
  /// The identity now, by fstat: differs when the file was written in place or truncated.
  Result<FileIdentity> current_identity() const;

 private:
  DirectFile() = default;
  static Result<DirectFile> open_with(const std::string& path, int direct_flag);
  Status use_direct_reads();
  Status use_buffered_reads(const std::string& why);

  int fd_ = -1;
  std::string path_, mode_reason_, file_system_;
  bool direct_ = false, may_block_ = true;
  uint32_t block_bytes_ = 4096;
  FileIdentity identity_;
};

}  // namespace llmd
