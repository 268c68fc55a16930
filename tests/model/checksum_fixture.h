// Checksums of a model file for tests, and damage to it.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "model/checksum_scan.h"
#include "model/checksums.h"

namespace llmd {

struct ScannedModel {
  std::vector<uint32_t> values;   // of the layout, 0 where nothing was found
  uint64_t found = 0, bytes = 0;  // slices found, bytes done
  std::vector<Error> unreadable;
};

inline ScannedModel scan_files(const GgufModel& model) {
  ScannedModel out;
  ChecksumLayout layout(model);
  out.values.resize(layout.count());
  std::vector<DirectFile> files;
  for (const GgufShard& shard : model.shards()) {
    Result<DirectFile> file = DirectFile::open(shard.path);
    EXPECT_TRUE(file.ok());
    files.push_back(std::move(file).value());
  }
  Result<std::unique_ptr<Reader>> reader = Reader::create({});
  EXPECT_TRUE(reader.ok());
  ModelScan scan;
  scan.found = [&](const ChecksumRange& range, uint32_t slice, uint32_t crc) {
    out.values[range.first + slice] = crc;
    out.found++;
  };
  scan.unreadable = [&](const Error& error) { out.unreadable.push_back(error); };
  scan.progress = [&](uint64_t done) { out.bytes = done; };
  scan_model(layout, files, **reader, scan);
  return out;
}

/// Writes the side file of the model at `path`.
inline void write_checksums(const std::string& path) {
  Result<GgufModel> model = GgufModel::open(path);
  ASSERT_TRUE(model.ok());
  ModelChecksums checksums(ChecksumLayout(*model), scan_files(*model).values);
  Status written = checksums.write(ModelChecksums::default_path(*model));
  ASSERT_TRUE(written.ok()) << written.error().to_string();
}

/// Changes one byte of a file.
inline void flip_byte(const std::string& path, uint64_t offset, int mask = 0x10) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset));
  int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ mask));
  file.close();
  ASSERT_TRUE(file.good());
}

}  // namespace llmd
