// `llmd kv` over a directory as a daemon leaves it.
#include "daemon/kv_command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "daemon/commands.h"
#include "kv/store_files.h"

namespace llmd {
namespace {

constexpr int64_t kDay = 86400;

class KvCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(options_.kv_store);
    files_ = std::make_unique<StoreFiles>(StoreFiles::open(options_.kv_store, false).value());
  }
  void TearDown() override { std::filesystem::remove_all(options_.kv_store); }

  /// Writes a record that was used `days` ago and returns its header.
  RecordHeader write(const RecordHeader* before, uint32_t count, int32_t token, int days) {
    RecordHeader header;
    header.store = store_key("x");
    header.parent = before ? before->id : root_id(header.store, 0);
    header.model = 0xabc;
    header.label = "tiny\n";
    header.depth = before ? before->depth + 1 : 0;
    header.count = count;
    header.bytes_per_token = 8;
    for (uint32_t i = 0; i < count; i++) header.token[i] = token;
    header.id = record_id(header.parent, header.tokens(), header.forms());
    std::vector<std::byte> page(layout_.page_bytes());
    EXPECT_EQ(files_->write(header, layout_, page.data()), 0);
    timespec then[2]{};
    then[0].tv_sec = then[1].tv_sec = time(nullptr) - days * kDay - 100;
    EXPECT_EQ(utimensat(AT_FDCWD, files_->path(header.id).c_str(), then, 0), 0);
    return header;
  }
  int run() {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    int status = run_kv(options_);
    std::fflush(stdout);
    out_ = testing::internal::GetCapturedStdout();
    errors_ = testing::internal::GetCapturedStderr();
    return status;
  }
  bool exists(const RecordHeader& header) const { return std::filesystem::exists(files_->path(header.id)); }

  KvLayout layout_{{{0, "latent", 8}}};
  Options options_ = [] {
    Options options;
    options.kv_store = testing::TempDir() + "llmd_kv_command_" + std::to_string(getpid());
    return options;
  }();
  std::unique_ptr<StoreFiles> files_;
  std::string out_, errors_;
};

TEST_F(KvCommand, ListsConversations_UsedLastFirst) {
  RecordHeader first = write(nullptr, 256, 1, 3);
  write(&first, 10, 2, 2);
  RecordHeader second = write(&first, 20, 3, 1);
  std::ofstream(options_.kv_store + "/" + std::string(64, 'f') + ".kv") << "damaged";
  ASSERT_EQ(run(), 0) << errors_;
  EXPECT_NE(out_.find("276"), std::string::npos) << out_;
  EXPECT_LT(out_.find("276"), out_.find("266")) << out_;
  EXPECT_NE(out_.find("tiny\\x0a"), std::string::npos) << out_;
  EXPECT_NE(out_.find("3 records"), std::string::npos) << out_;
  EXPECT_NE(out_.find("1 files cannot be used"), std::string::npos) << out_;
  options_.json = true;
  ASSERT_EQ(run(), 0);
  auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["conversations"].size(), 2u);
  EXPECT_EQ(json["conversations"][0]["id"], to_hex(second.id));
  EXPECT_EQ(json["conversations"][0]["tokens"], 276);
  EXPECT_EQ(json["conversations"][0]["bytes"], 4 * 4096);
  EXPECT_EQ(json["conversations"][0]["model"], "0000000000000abc");
  EXPECT_GE(json["conversations"][0]["age_seconds"], kDay);
  EXPECT_EQ(json["bytes"], 6 * 4096);
  EXPECT_EQ(json["invalid"], 1);
}

TEST_F(KvCommand, RemovesWhatIsOld_ButNothingThatIsFollowed) {
  RecordHeader first = write(nullptr, 256, 1, 9), second = write(&first, 256, 2, 1), third = write(&second, 9, 3, 8);
  RecordHeader other = write(nullptr, 256, 4, 8);
  options_.kv_action = KvAction::kPurge;
  options_.older_than_s = 7 * kDay;
  ASSERT_EQ(run(), 0) << errors_;
  EXPECT_NE(out_.find("2 records removed"), std::string::npos) << out_;
  EXPECT_TRUE(exists(first) && exists(second));
  EXPECT_FALSE(exists(third) || exists(other));
}

TEST_F(KvCommand, RemovesEverything_ButNothingThatIsNotOfTheStore) {
  write(nullptr, 256, 1, 0);
  std::ofstream(options_.kv_store + "/" + std::string(64, 'f') + ".kv") << "damaged";
  std::ofstream(options_.kv_store + "/notes") << "mine";
  options_.kv_action = KvAction::kPurge;
  options_.json = true;
  ASSERT_EQ(run(), 0) << errors_;
  EXPECT_EQ(nlohmann::json::parse(out_)["removed"], 2);
  EXPECT_TRUE(std::filesystem::exists(options_.kv_store + "/notes"));
}

TEST_F(KvCommand, SaysSo_WhenThereIsNoStore) {
  options_.kv_store += "/nowhere";
  EXPECT_EQ(run(), 1);
  EXPECT_NE(errors_.find("cannot be opened"), std::string::npos) << errors_;
}

TEST_F(KvCommand, IsParsed) {
  auto parse = [](std::vector<std::string_view> arguments) {
    return parse_options(arguments, [](std::string_view) { return std::nullopt; });
  };
  auto options = parse({"kv", "purge", "--kv-store", "/x", "--older-than", "7d"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->kv_action, KvAction::kPurge);
  EXPECT_EQ(options->older_than_s, 7 * kDay);
  EXPECT_FALSE(parse({"kv", "list"}).ok());
  EXPECT_FALSE(parse({"kv", "burn", "--kv-store", "/x"}).ok());
  EXPECT_FALSE(parse({"kv", "list", "--kv-store", "/x", "--older-than", "1h"}).ok());
  EXPECT_FALSE(parse({"kv", "purge", "--kv-store", "/x", "--older-than", "soon"}).ok());
  auto serve = parse({"serve", "--model", "m", "--kv-store", "/x", "--kv-store-size", "2G"});
  ASSERT_TRUE(serve.ok());
  EXPECT_EQ(serve->kv_store_bytes, uint64_t{2} << 30);
}

}  // namespace
}  // namespace llmd
