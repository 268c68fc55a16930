#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace llmd {
namespace {

class AtomicFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {})); }

  const std::string folder_ = testing::TempDir() + "llmd_atomic_" + std::to_string(getpid());
  const std::string path_ = folder_ + "/file";
};

TEST_F(AtomicFile, HoldsWhatWasWrittenLast_AndNothingStaysBeside) {
  for (const std::string& text : {std::string(100000, 'a'), std::string("short"), std::string()}) {
    Status status = write_file_atomically(path_, bytes_of(text));
    ASSERT_TRUE(status.ok()) << status.error().to_string();
    EXPECT_EQ(content(), text);
    EXPECT_EQ(files(), 1u);
  }
}

TEST_F(AtomicFile, LeavesTheTargetAlone_WhenItCannotBeReplaced) {
  std::filesystem::create_directories(path_ + "/in the way");
  Status status = write_file_atomically(path_, bytes_of("new"));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "file_write");
  EXPECT_EQ(status.error().file, path_);
  EXPECT_TRUE(std::filesystem::is_directory(path_));
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, SaysWhy_WhenTheFolderIsNotThere) {
  Status status = write_file_atomically(folder_ + "/none/file", bytes_of("new"));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("No such file"), std::string::npos) << status.error().message;
}

// A device without room stands for a disk that is full.
TEST_F(AtomicFile, KeepsTheOldFile_WhenTheDiskIsFull) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "SKIPPED: there is no /dev/full";
  ASSERT_TRUE(write_file_atomically(path_, bytes_of("old")).ok());
  std::filesystem::create_symlink("/dev/full", path_ + ".new");
  Status status = write_file_atomically(path_, bytes_of("new"));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("No space"), std::string::npos) << status.error().message;
  EXPECT_EQ(content(), "old");
}

}  // namespace
}  // namespace llmd
