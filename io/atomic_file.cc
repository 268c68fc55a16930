#include "io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace llmd {
namespace {

// 0, or the errno of what failed. Closes the file either way.
int write_and_sync(int fd, std::span<const std::byte> bytes) {
  int error = 0;
  while (!bytes.empty() && error == 0) {
    ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error = written == 0 ? ENOSPC : errno;
    }
  }
  if (error == 0 && fsync(fd) != 0) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  return error;
}

int sync_folder_of(const std::string& path) {
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  int error = fsync(fd) == 0 || errno == EINVAL ? 0 : errno;  // EINVAL: a file system without it
  close(fd);
  return error;
}

}  // namespace

Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  std::string aside = path + ".new";
  int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  int error = fd < 0 ? errno : write_and_sync(fd, bytes);
  if (error == 0 && rename(aside.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    if (fd >= 0) unlink(aside.c_str());
  } else {
    error = sync_folder_of(path);
  }
  if (error != 0)
    return operating_error("file_write", std::string("the file cannot be written: ") + std::strerror(error), path);
  return {};
}

}  // namespace llmd
