#include "kv/store_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "io/crc32c.h"

namespace llmd {
namespace {

constexpr size_t kStagingBytes = 1 << 20;
constexpr std::string_view kSuffix = ".kv", kAside = ".tmp";

Error open_error(const std::string& directory, const std::string& what) {
  return operating_error("kv_store_open", "the directory of the KV store " + what, directory);
}

std::string reason(int error_number) {
  return std::strerror(error_number);
}

/// 0, or the errno of what failed.
int write_all(int fd, const std::byte* data, size_t bytes, uint64_t offset) {
  while (bytes > 0) {
    ssize_t written = pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0 || static_cast<uint64_t>(written) % 512 != 0) return ENOSPC;  // direct writes cannot go on there
    data += written;
    bytes -= static_cast<size_t>(written);
    offset += static_cast<uint64_t>(written);
  }
  return 0;
}

/// Opens a record and reads its header.
Result<RecordHeader> read_header(const std::string& path, StoredFile& file) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return operating_error("kv_record_invalid", "it cannot be opened: " + reason(errno));
  struct stat status {};
  alignas(kRecordBlock) std::array<std::byte, kRecordBlock> block;
  bool regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  ssize_t got = regular ? pread(fd, block.data(), block.size(), 0) : 0;
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
  file.bytes = static_cast<uint64_t>(status.st_size);
  file.used_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (got != static_cast<ssize_t>(block.size())) return operating_error("kv_record_invalid", "it has no header");
  LLMD_ASSIGN_OR_RETURN(RecordHeader header, decode_header(block));
  if (header.id != file.id) return operating_error("kv_record_invalid", "it is not what its name says");
  if (header.file_bytes() != file.bytes) return operating_error("kv_record_invalid", "its size is wrong");
  return header;
}

}  // namespace

Result<StoreFiles> StoreFiles::open(const std::string& directory, bool exclusive) {
  std::error_code failed;
  std::filesystem::path path(directory);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return open_error(directory, "cannot be made: " + reason(errno));
  LLMD_ASSIGN_OR_RETURN(StoreFiles files, open_existing(directory));
  struct stat status {};
  if (fstat(files.directory_fd_, &status) != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return open_error(directory, "can be written by others; chmod 0700 it or name another");
  if (exclusive && flock(files.directory_fd_, LOCK_EX | LOCK_NB) != 0)
    return operating_error("kv_store_busy", "another llmd uses the KV store; give each its own --kv-store", directory);
  files.staging_ = {static_cast<std::byte*>(std::aligned_alloc(kRecordBlock, kStagingBytes)), &std::free};
  if (files.staging_ == nullptr) throw std::bad_alloc();
  return files;
}

Result<StoreFiles> StoreFiles::open_existing(const std::string& directory) {
  StoreFiles files;
  files.directory_ = directory;
  files.directory_fd_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (files.directory_fd_ < 0) return open_error(directory, "cannot be opened: " + reason(errno));
  return files;
}

StoreFiles::StoreFiles(StoreFiles&& other) noexcept
    : directory_(std::move(other.directory_)),
      directory_fd_(std::exchange(other.directory_fd_, -1)),
      direct_(other.direct_),
      staging_(std::move(other.staging_)),
      hook_(std::move(other.hook_)) {}

StoreFiles::~StoreFiles() {
  if (directory_fd_ >= 0) close(directory_fd_);
}

Status StoreFiles::scan(bool remove_leftovers, const std::function<void(const StoredFile&)>& visit) {
  std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(directory_.c_str()), &closedir);
  if (folder == nullptr) return open_error(directory_, "cannot be read: " + reason(errno));
  while (const dirent* entry = readdir(folder.get())) {
    std::string_view name = entry->d_name;
    StoredFile file;
    bool ours = name.size() > 64 && from_hex(name.substr(0, 64), file.id);
    std::string_view rest = ours ? name.substr(64) : std::string_view();
    file.path = directory_ + "/" + std::string(name);
    if (remove_leftovers && rest == std::string(kSuffix) + std::string(kAside)) unlink(file.path.c_str());
    if (rest != kSuffix) continue;
    Result<RecordHeader> header = read_header(file.path, file);
    Error error;
    if (header.ok()) {
      file.header = &header.value();
    } else {
      error = std::move(header).error();
      error.file = file.path;
      file.error = &error;
    }
    visit(file);
  }
  return {};
}

int StoreFiles::write(RecordHeader& header, const KvLayout& layout, const std::byte* page) {
  const std::string target = path(header.id), aside = target + std::string(kAside);
  int fd = open_aside(aside);
  if (fd < 0) return errno;
  step(0);
  // Room first: a full disk says so before anything is written.
  int error = fallocate(fd, 0, 0, static_cast<off_t>(header.file_bytes())) == 0 || errno == EOPNOTSUPP ? 0 : errno;
  step(1);
  if (error == 0) error = write_payload(fd, header, layout, page);
  step(2);
  if (error == 0) {
    encode_header(header, std::span<std::byte, kRecordBlock>(staging_.get(), kRecordBlock));
    error = write_all(fd, staging_.get(), kRecordBlock, 0);
  }
  step(3);
  if (error == 0 && fdatasync(fd) != 0) error = errno;
  step(4);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(aside.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(aside.c_str());
    return error;
  }
  step(5);
  if (fsync(directory_fd_) != 0 && errno != EINVAL) return errno;  // EINVAL: a file system without it
  step(6);
  return 0;
}

// Opens the file to write to, past the page cache if that can be.
int StoreFiles::open_aside(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  int fd = direct_ ? ::open(path.c_str(), kFlags | O_DIRECT, 0600) : -1;
  if (direct_ && fd < 0 && errno == EINVAL) direct_ = false;
  return direct_ ? fd : ::open(path.c_str(), kFlags, 0600);
}

// Packs the rows through the staging buffer.
int StoreFiles::write_payload(int fd, RecordHeader& header, const KvLayout& layout, const std::byte* page) {
  uint64_t offset = kRecordBlock;
  size_t filled = 0;
  uint32_t crc = 0;
  auto flush = [&](size_t bytes) {
    int error = write_all(fd, staging_.get(), bytes, offset);
    offset += bytes;
    filled = 0;
    return error;
  };
  for (size_t s = 0; s < layout.streams().size(); s++) {
    std::span<const std::byte> rows(page + layout.stream_offset(s), header.count * layout.streams()[s].bytes_per_token);
    while (!rows.empty()) {
      size_t bytes = std::min(rows.size(), kStagingBytes - filled);
      std::memcpy(staging_.get() + filled, rows.data(), bytes);
      crc = crc32c({staging_.get() + filled, bytes}, crc);
      filled += bytes;
      rows = rows.subspan(bytes);
      if (filled < kStagingBytes) continue;
      if (int error = flush(filled); error != 0) return error;
    }
  }
  header.payload_crc = crc;
  size_t whole = (filled + kRecordBlock - 1) / kRecordBlock * kRecordBlock;
  std::memset(staging_.get() + filled, 0, whole - filled);
  return flush(whole);
}

void StoreFiles::remove(const RecordId& id) {
  unlink(path(id).c_str());
}

void StoreFiles::touch(const RecordId& id) {
  const timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  utimensat(AT_FDCWD, path(id).c_str(), times, 0);
}

}  // namespace llmd
