#include "io/direct_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>

#include "temp_file.h"

namespace llmd {
namespace {

TEST(DirectFile, OpensWithUsableBlocks_WhenFileIsRegular) {
  TempFile temp(100'000);
  auto file = DirectFile::open(temp.path());
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->bytes(), 100'000u);
  EXPECT_TRUE(std::has_single_bit(file->block_bytes()));
  EXPECT_GE(file->block_bytes(), 512u);
  EXPECT_LE(file->block_bytes(), 64u << 10);
  EXPECT_EQ(file->mode_reason().starts_with("O_DIRECT, "), file->direct()) << file->mode_reason();
  EXPECT_EQ((fcntl(file->fd(), F_GETFL) & O_DIRECT) != 0, file->direct());
}

TEST(DirectFile, ReadsAnyBlock_WhenOpenedDirect) {
  TempFile temp(64 << 10);
  auto file = DirectFile::open(temp.path());
  ASSERT_TRUE(file.ok());
  uint64_t block = file->block_bytes();
  for (uint64_t offset = 0; offset + block <= temp.content().size(); offset += block) {
    OwnedRead read(*file, offset, offset + block, static_cast<uint32_t>(offset / block % 3));
    ASSERT_EQ(pread(file->fd(), read->buffer, block, static_cast<off_t>(offset)), static_cast<ssize_t>(block));
    ASSERT_TRUE(read.matches(temp)) << offset;
  }
}

TEST(DirectFile, OpensEmptyFile) {
  TempFile temp(0);
  auto file = DirectFile::open(temp.path());
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_EQ(file->bytes(), 0u);
}

TEST(DirectFile, FallsBackToBuffered_WhenFileSystemRefusesDirectReads) {
  auto file = DirectFile::open("/proc/version");  // procfs knows no O_DIRECT
  ASSERT_TRUE(file.ok()) << file.error().to_string();
  EXPECT_FALSE(file->direct());
  EXPECT_NE(file->mode_reason().find("refuses O_DIRECT"), std::string::npos) << file->mode_reason();
  EXPECT_EQ(file->block_bytes(), 4096u);
  EXPECT_EQ(file->file_system(), "type 0x9fa0");  // a name only for what models are kept on
}

TEST(DirectFile, OpensBuffered_WhenAskedTo) {
  TempFile temp(5000);
  auto file = DirectFile::open_buffered(temp.path());
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->direct());
  EXPECT_EQ(fcntl(file->fd(), F_GETFL) & O_DIRECT, 0);
  EXPECT_NE(file->mode_reason().find("asked for"), std::string::npos);
}

TEST(DirectFile, NamesPathAndReason_WhenItCannotOpen) {
  auto missing = DirectFile::open("/nonexistent/model.gguf");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, "file_open");
  EXPECT_EQ(missing.error().file, "/nonexistent/model.gguf");
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);

  auto directory = DirectFile::open("/tmp");
  ASSERT_FALSE(directory.ok());
  EXPECT_NE(directory.error().message.find("not a regular file"), std::string::npos);
}

TEST(DirectFile, DoesNotWait_WhenPathIsAPipe) {
  TempFile temp(1);
  std::string pipe = temp.path() + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(DirectFile::open(pipe).ok());
  unlink(pipe.c_str());
}

TEST(DirectFile, IdentityDiffers_WhenFileIsTruncatedOrRewritten) {
  TempFile temp(10'000);
  auto file = DirectFile::open(temp.path());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->current_identity().value(), file->identity());
  ASSERT_EQ(truncate(temp.path().c_str(), 9'999), 0);
  FileIdentity now = file->current_identity().value();
  EXPECT_NE(now, file->identity());
  EXPECT_EQ(now.bytes, 9'999u);
  EXPECT_EQ(now.inode, file->identity().inode);
}

TEST(DirectFile, MovesItsDescriptor) {
  TempFile temp(4096);
  auto opened = DirectFile::open(temp.path());
  ASSERT_TRUE(opened.ok());
  int fd = opened->fd();
  DirectFile first = std::move(opened).value();
  DirectFile second = DirectFile::open(temp.path()).value();
  int dropped = second.fd();
  second = std::move(first);
  EXPECT_EQ(second.fd(), fd);
  EXPECT_EQ(fcntl(dropped, F_GETFD), -1);
  EXPECT_EQ(second.path(), temp.path());
}

}  // namespace
}  // namespace llmd
