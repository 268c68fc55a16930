#include "daemon/npy_writer.h"

#include <cerrno>
#include <cstring>

namespace llmd {

NpyWriter::~NpyWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

Status NpyWriter::open(const std::string& path, uint64_t rows, uint64_t columns) {
  path_ = path;
  file_ = std::fopen(path.c_str(), "wb");
  if (file_ == nullptr)
    return operating_error("file_write", std::string("cannot write: ") + std::strerror(errno), path);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(columns) + "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  const char magic[] = "\x93NUMPY\x01";
  uint16_t length = static_cast<uint16_t>(header.size());
  std::fwrite(magic, 1, 7, file_);
  std::fputc(0, file_);
  std::fwrite(&length, 2, 1, file_);
  std::fwrite(header.data(), 1, header.size(), file_);
  return {};
}

void NpyWriter::write_row(std::span<const float> row) {
  std::fwrite(row.data(), sizeof(float), row.size(), file_);
}

Status NpyWriter::finish() {
  bool failed = std::ferror(file_) != 0;
  failed = std::fclose(file_) != 0 || failed;
  file_ = nullptr;
  if (failed) return operating_error("file_write", std::string("cannot write: ") + std::strerror(errno), path_);
  return {};
}

}  // namespace llmd
