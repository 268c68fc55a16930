// NpyWriter: a float32 matrix to a .npy file, row by row (numpy format version 1.0, C order, little-endian).
//
// Rows are written in order; finish() must be called and says whether everything reached the file. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "io/result.h"

namespace llmd {

class NpyWriter {
 public:
  NpyWriter() = default;
  NpyWriter(const NpyWriter&) = delete;
  ~NpyWriter();

  /// Errors: "file_write" with the path and the system's reason.
  Status open(const std::string& path, uint64_t rows, uint64_t columns);
  void write_row(std::span<const float> row);
  Status finish();

 private:
  std::FILE* file_ = nullptr;
  std::string path_;
};

}  // namespace llmd
