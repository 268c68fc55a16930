#include "io/direct_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#ifndef SMB2_MAGIC_NUMBER
#define SMB2_MAGIC_NUMBER 0xFE534D42
#endif
#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xFF534D42
#endif
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

namespace llmd {

namespace {

constexpr uint32_t kBlockBytesMin = 512;
constexpr uint32_t kBlockBytesMax = 64 << 10;
constexpr uint32_t kPageBytes = 4096;

FileIdentity identity_of(const struct stat& status) {
  FileIdentity identity;
  identity.device = status.st_dev;
  identity.inode = status.st_ino;
  identity.bytes = static_cast<uint64_t>(std::max<off_t>(status.st_size, 0));
  identity.mtime_ns = static_cast<int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
  return identity;
}

Error open_error(const std::string& path, int error_number) {
  return operating_error("file_open", std::string("cannot open the file: ") + std::strerror(error_number), path);
}

/// What statx says about direct reads: the block to use, 0 when it says they are impossible, kBlockBytesMin when it
/// does not know (kernels before 6.1, most network file systems).
uint32_t advertised_block_bytes(int fd) {
  struct statx status {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0) return kBlockBytesMin;
  if ((status.stx_mask & STATX_DIOALIGN) == 0) return kBlockBytesMin;
  if (status.stx_dio_offset_align == 0) return 0;
  return std::max({status.stx_dio_mem_align, status.stx_dio_offset_align, kBlockBytesMin});
}

std::string file_system_of(int fd) {
  struct statfs status {};
  if (fstatfs(fd, &status) != 0) return "unknown";
  auto type = static_cast<uint64_t>(status.f_type) & 0xFFFFFFFFu;
  constexpr std::pair<uint64_t, const char*> kNames[] = {
      {EXT4_SUPER_MAGIC, "ext4"},         {XFS_SUPER_MAGIC, "xfs"},   {BTRFS_SUPER_MAGIC, "btrfs"},
      {F2FS_SUPER_MAGIC, "f2fs"},         {TMPFS_MAGIC, "tmpfs"},     {OVERLAYFS_SUPER_MAGIC, "overlayfs"},
      {FUSE_SUPER_MAGIC, "FUSE"},         {NFS_SUPER_MAGIC, "NFS"},   {V9FS_MAGIC, "9p"},
      {SMB2_MAGIC_NUMBER, "SMB"},         {CIFS_SUPER_MAGIC, "CIFS"}, {SQUASHFS_MAGIC, "squashfs"},
      {ECRYPTFS_SUPER_MAGIC, "ecryptfs"}, {0x2FC12FC1, "ZFS"}};
  for (const auto& [magic, name] : kNames)
    if (magic == type) return name;
  char text[32];
  std::snprintf(text, sizeof(text), "type 0x%llx", static_cast<unsigned long long>(type));
  return text;
}

/// File systems whose direct reads are queued at the device and not waited for.
bool starts_reads_without_waiting(int fd) {
  struct statfs status {};
  if (fstatfs(fd, &status) != 0) return false;
  auto type = static_cast<uint64_t>(status.f_type) & 0xFFFFFFFFu;
  return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC || type == F2FS_SUPER_MAGIC;
}

/// Reads one block at an odd multiple of `block`, to an address that is an odd multiple too: what the kernel accepts
/// there, it accepts everywhere. Returns 0 or an errno.
int prove_direct_read(int fd, uint64_t file_bytes, uint32_t block) {
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(kBlockBytesMax, 2 * kBlockBytesMax),
                                                     &std::free);
  if (memory == nullptr) return ENOMEM;
  off_t offset = file_bytes >= 2 * uint64_t{block} ? static_cast<off_t>(block) : 0;
  ssize_t got = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    got = pread(fd, static_cast<std::byte*>(memory.get()) + block, block, offset);
    if (got >= 0) return 0;
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return errno;
}

}  // namespace

Result<DirectFile> DirectFile::open(const std::string& path) {
  return open_with(path, O_DIRECT);
}

Result<DirectFile> DirectFile::open_buffered(const std::string& path) {
  return open_with(path, 0);
}

Result<DirectFile> DirectFile::open_with(const std::string& path, int direct_flag) {
  struct stat status {};
  // Asked before opening: opening a pipe would wait for its other end.
  if (stat(path.c_str(), &status) != 0) return open_error(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return operating_error("file_open", "cannot open the file: it is not a regular file", path);
  }
  DirectFile file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | direct_flag);
  bool refused = file.fd_ < 0 && direct_flag != 0 && (errno == EINVAL || errno == EOPNOTSUPP);
  if (refused) file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.fd_ < 0) return open_error(path, errno);
  if (fstat(file.fd_, &status) != 0) return open_error(path, errno);
  file.identity_ = identity_of(status);
  file.file_system_ = file_system_of(file.fd_);
  if (refused) {
    LLMD_RETURN_IF_ERROR(file.use_buffered_reads("the file system refuses O_DIRECT"));
  } else if (direct_flag == 0) {
    LLMD_RETURN_IF_ERROR(file.use_buffered_reads("asked for"));
  } else {
    LLMD_RETURN_IF_ERROR(file.use_direct_reads());
  }
  return file;
}

/// The file is open with O_DIRECT: finds the block that works, or goes over to buffered reads.
Status DirectFile::use_direct_reads() {
  uint32_t block = advertised_block_bytes(fd_);
  if (block == 0) return use_buffered_reads("the kernel offers no direct reads for this file");
  if (!std::has_single_bit(block) || block > kBlockBytesMax) {
    return use_buffered_reads("the kernel asks for direct reads in blocks of " + std::to_string(block) + " bytes");
  }
  int error_number = prove_direct_read(fd_, identity_.bytes, block);
  if (error_number == EINVAL && block < kPageBytes) {
    block = kPageBytes;
    error_number = prove_direct_read(fd_, identity_.bytes, block);
  }
  if (error_number == EINVAL) return use_buffered_reads("the file system accepts O_DIRECT but refuses direct reads");
  if (error_number != 0) {
    return operating_error("file_open", std::string("the first read failed: ") + std::strerror(error_number), path_,
                           uint64_t{0});
  }
  direct_ = true;
  may_block_ = !starts_reads_without_waiting(fd_);
  block_bytes_ = block;
  mode_reason_ = "O_DIRECT, " + std::to_string(block) + "-byte blocks";
  return {};
}

Status DirectFile::use_buffered_reads(const std::string& why) {
  if (fcntl(fd_, F_SETFL, 0) != 0) return open_error(path_, errno);
  direct_ = false;
  block_bytes_ = kPageBytes;
  posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);  // no read-ahead: what it fetched would stay in the page cache
  mode_reason_ = "buffered (" + why + "), each read is dropped from the page cache after it";
  return {};
}

DirectFile::DirectFile(DirectFile&& other) noexcept {
  *this = std::move(other);
}

DirectFile& DirectFile::operator=(DirectFile&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) ::close(fd_);
  fd_ = std::exchange(other.fd_, -1);
  path_ = std::move(other.path_);
  mode_reason_ = std::move(other.mode_reason_);
  file_system_ = std::move(other.file_system_);
  direct_ = other.direct_;
  may_block_ = other.may_block_;
  block_bytes_ = other.block_bytes_;
  identity_ = other.identity_;
  return *this;
}

DirectFile::~DirectFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<FileIdentity> DirectFile::current_identity() const {
  struct stat status {};
  if (fstat(fd_, &status) != 0) {
    return operating_error("file_stat", std::string("cannot ask for the file's state: ") + std::strerror(errno), path_);
  }
  return identity_of(status);
}

}  // namespace llmd
