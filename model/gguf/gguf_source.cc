#include "model/gguf/gguf_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/check.h"

namespace llmd {
namespace {

class FileSource : public GgufSource {
 public:
  FileSource(std::string path, uint64_t bytes, int fd) : GgufSource(std::move(path), bytes), fd_(fd) {
    // The cursor reads in windows of its own: read-ahead would only bring in weights.
    posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override {
    if (read_end_ > 0) posix_fadvise(fd_, 0, static_cast<off_t>(read_end_), POSIX_FADV_DONTNEED);
    close(fd_);
  }

  Status read(uint64_t offset, std::span<std::byte> out) override {
    LLMD_CHECK(offset <= bytes() && out.size() <= bytes() - offset);
    // DONTNEED keeps a page that is only partly inside the range, so the range ends on the next page.
    read_end_ = std::max(read_end_, (offset + out.size() + 4095) / 4096 * 4096);
    int interrupts_left = 1000;
    while (!out.empty()) {
      ssize_t got = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR && interrupts_left-- > 0) continue;
      if (got < 0) return operating_error("model_read_error", std::strerror(errno), path(), offset);
      if (got == 0) return operating_error("gguf_invalid", "the file became shorter while it was read", path(), offset);
      offset += static_cast<uint64_t>(got);
      out = out.subspan(static_cast<size_t>(got));
    }
    return {};
  }

 private:
  int fd_;
  uint64_t read_end_ = 0;
};

class MemorySource : public GgufSource {
 public:
  MemorySource(std::string name, std::span<const std::byte> data)
      : GgufSource(std::move(name), data.size()), data_(data) {}

  Status read(uint64_t offset, std::span<std::byte> out) override {
    LLMD_CHECK(offset <= bytes() && out.size() <= bytes() - offset);
    std::copy_n(data_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }

 private:
  std::span<const std::byte> data_;
};

}  // namespace

Result<std::unique_ptr<GgufSource>> open_gguf_file(const std::string& path, int* error_number) {
  // O_NONBLOCK: opening a FIFO must fail below, not wait for a writer.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (error_number) *error_number = errno;
    return operating_error("file_open", std::strerror(errno), path);
  }
  struct stat status {};
  const char* reason = nullptr;
  if (fstat(fd, &status) != 0) {
    reason = std::strerror(errno);
  } else if (S_ISDIR(status.st_mode)) {
    reason = "this is a directory; name the .gguf file in it (any shard of a split model)";
  } else if (!S_ISREG(status.st_mode)) {
    reason = "not a regular file";
  }
  if (reason) {
    close(fd);
    return operating_error("file_open", reason, path);
  }
  return std::unique_ptr<GgufSource>(new FileSource(path, static_cast<uint64_t>(status.st_size), fd));
}

std::unique_ptr<GgufSource> gguf_memory_source(std::string name, std::span<const std::byte> bytes) {
  return std::make_unique<MemorySource>(std::move(name), bytes);
}

}  // namespace llmd
