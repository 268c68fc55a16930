// A folder that lives as long as a test. One thread. A folder that cannot be made ends the test program.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "io/check.h"

namespace llmd::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "llmd-gguf-XXXXXX").string();
    LLMD_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream file(path(name), std::ios::binary);
    file << bytes;
    file.close();
    LLMD_CHECK(file.good());
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace llmd::testing
