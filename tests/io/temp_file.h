// TempFile: a file of seeded random bytes beside the test program, with its contents at hand; removed with the object.
//
// Beside the program and not in /tmp, because /tmp may be a file system without direct reads. One thread.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "io/check.h"
#include "io/reader.h"

namespace llmd {

class TempFile {
 public:
  explicit TempFile(size_t bytes, uint64_t seed = 1) : content_(bytes) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < bytes; i += 8) {
      uint64_t word = random();
      std::memcpy(content_.data() + i, &word, std::min<size_t>(8, bytes - i));
    }
    path_ = std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/io_test_XXXXXX";
    int fd = mkstemp(path_.data());
    LLMD_CHECK(fd >= 0);
    for (size_t done = 0; done < bytes;) {
      ssize_t wrote = write(fd, content_.data() + done, bytes - done);
      LLMD_CHECK(wrote > 0);
      done += static_cast<size_t>(wrote);
    }
    LLMD_CHECK(fsync(fd) == 0);
    close(fd);
  }
  ~TempFile() { unlink(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<std::byte>& content() const { return content_; }

 private:
  std::string path_;
  std::vector<std::byte> content_;
};

/// A Read of the blocks around [begin, end) with a buffer of its own, `phase` blocks into an aligned allocation.
class OwnedRead {
 public:
  OwnedRead(const DirectFile& file, uint64_t begin, uint64_t end, uint32_t phase = 0, ReadGate* gate = nullptr) {
    uint64_t block = file.block_bytes();
    read_.file = &file;
    read_.offset = begin / block * block;
    read_.length = (end + block - 1) / block * block - read_.offset;
    read_.needed_end = end;
    read_.gate = gate;
    begin_ = begin;
    memory_ = static_cast<std::byte*>(std::aligned_alloc(block, read_.length + phase * block + block));
    LLMD_CHECK(memory_ != nullptr);
    std::memset(memory_, 0x5A, read_.length + phase * block + block);
    read_.buffer = memory_ + phase * block;
  }
  ~OwnedRead() { std::free(memory_); }
  OwnedRead(const OwnedRead&) = delete;
  OwnedRead& operator=(const OwnedRead&) = delete;

  Read* get() { return &read_; }
  Read* operator->() { return &read_; }
  ReadState state() const { return read_.state.load(std::memory_order_acquire); }
  bool matches(const TempFile& file) const {
    return std::memcmp(read_.buffer + (begin_ - read_.offset), file.content().data() + begin_,
                       read_.needed_end - begin_) == 0;
  }

 private:
  Read read_;
  uint64_t begin_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace llmd
