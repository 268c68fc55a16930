// `llmd verify` as a person or a script meets it: lines on stdout, and the exit status.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/commands.h"
#include "tests/gguf/gguf_builder.h"

namespace llmd {
namespace {

using testing::GgufBuilder;

class Verify : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return folder_ + "/" + name;
  }
  // A shard with four experts of 34 bytes each.
  std::string shard(uint16_t number, uint16_t count) const {
    GgufBuilder builder;
    builder.text("general.architecture", "deepseek2").split(number, count, count);
    builder.tensor({"blk." + std::to_string(number) + ".ffn_up_exps.weight", {32, 1, 4}, 8});
    return builder.build();
  }
  int run(const std::string& path, bool write_checksums, const std::string& checksums = "") {
    Options options;
    options.command = Command::kVerify;
    options.model = path;
    options.write_checksums = write_checksums;
    options.checksums_file = checksums;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    int status = run_verify(options);
    std::fflush(stdout);
    out_ = ::testing::internal::GetCapturedStdout();
    errors_ = ::testing::internal::GetCapturedStderr();
    return status;
  }
  static void change(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put('\x55');
  }

  const std::string folder_ = ::testing::TempDir() + "llmd_verify_" + std::to_string(getpid());
  std::string out_, errors_;
};

TEST_F(Verify, PassesAModelThatIsAsItWas) {
  std::string path = write("m.gguf", shard(0, 1));
  EXPECT_EQ(run(path, true), 0) << errors_;
  EXPECT_NE(out_.find("m.gguf.crc: written; 5 checksums"), std::string::npos) << out_;
  EXPECT_EQ(run(path, false), 0) << errors_;
  EXPECT_NE(out_.find("m.gguf: all in order; 5 checksums"), std::string::npos) << out_;
  EXPECT_EQ(errors_, "");
}

TEST_F(Verify, NamesFileTensorExpertAndOffset_OfEachMismatch) {
  std::string first = write("m-00001-of-00002.gguf", shard(0, 2));
  std::string bytes = shard(1, 2), second = write("m-00002-of-00002.gguf", bytes);
  ASSERT_EQ(run(second, true), 0) << errors_;  // any file of the set, one side file for all
  EXPECT_TRUE(std::filesystem::exists(first + ".crc"));
  uint64_t data = bytes.size() - 160;  // 4 x 34 bytes, padded to 32
  change(second, data + 34 * 2 + 33);
  change(first, data + 3);
  EXPECT_EQ(run(first, false), 1);
  EXPECT_NE(out_.find("tensor blk.0.ffn_up_exps.weight, expert 0 "), std::string::npos) << out_;
  EXPECT_NE(out_.find("tensor blk.1.ffn_up_exps.weight, expert 2 "), std::string::npos) << out_;
  EXPECT_NE(out_.find(second + " at byte " + std::to_string(data + 34 * 2)), std::string::npos) << out_;
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 2);
  EXPECT_NE(errors_.find("2 do not match"), std::string::npos) << errors_;
}

TEST_F(Verify, FindsAChangedByteInTheMetadata) {
  std::string bytes = shard(0, 1), path = write("m.gguf", bytes);
  ASSERT_EQ(run(path, true), 0);
  change(path, bytes.find("deepseek2"));
  EXPECT_EQ(run(path, false), 1);
  EXPECT_NE(out_.find("the header does not match"), std::string::npos) << out_;
}

TEST_F(Verify, TakesTheFileOfChecksumsFromElsewhere) {
  std::string path = write("m.gguf", shard(0, 1)), checksums = folder_ + "/sums";
  EXPECT_EQ(run(path, true, checksums), 0);
  EXPECT_FALSE(std::filesystem::exists(path + ".crc"));
  EXPECT_EQ(run(path, false, checksums), 0);
  EXPECT_EQ(run(path, false), 1);
  EXPECT_NE(errors_.find("llmd verify --write"), std::string::npos) << errors_;
}

TEST_F(Verify, SaysInOneLine_ThatTheChecksumsAreDamagedOrOfAnotherModel) {
  std::string path = write("m.gguf", shard(0, 1));
  ASSERT_EQ(run(path, true), 0);
  change(path + ".crc", 45);
  EXPECT_EQ(run(path, false), 1);
  EXPECT_NE(errors_.find("damaged"), std::string::npos) << errors_;
  EXPECT_EQ(std::count(errors_.begin(), errors_.end(), '\n'), 1);
  ASSERT_EQ(run(path, true), 0);
  write("m.gguf", shard(0, 1) + "more");
  EXPECT_EQ(run(path, false), 1);
  EXPECT_NE(errors_.find("another model"), std::string::npos) << errors_;
  EXPECT_EQ(std::count(errors_.begin(), errors_.end(), '\n'), 1);
}

}  // namespace
}  // namespace llmd
