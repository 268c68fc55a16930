// What a request sees when the model's file fails under it: a typed error with file and offset, and nothing worse.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

// A copy of the demo model that a test may damage.
class DamagedModel : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "llmd_damaged_" + std::to_string(getpid()) + ".gguf";
    std::filesystem::copy_file(demo_path(), path_, std::filesystem::copy_options::overwrite_existing);
    options_.path = path_;
    options_.residency.bad_expert_ns = 0;  // no memory of what failed: each step tries again
    Result<DemoModel> planned = open_demo(options_);
    ASSERT_TRUE(planned.ok());
    options_.chunk = 16;
    planned = open_demo(options_);
    ASSERT_TRUE(planned.ok());
    options_.memory_bytes = planned->runtime->plan().floor_bytes;  // few slots: nearly every token reads
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Status decode_some(Runtime& runtime) {
    Generator generator(runtime, 64);
    auto ignore = [](int32_t, std::span<const float>) {};
    for (int32_t token : some_tokens(16, 3)) LLMD_RETURN_IF_ERROR(generator.decode(token, ignore));
    return {};
  }

  std::string path_;
  DemoOptions options_;
};

TEST_F(DamagedModel, EndsTheRequestWithFileAndOffset_WhenTheFileIsTruncated) {
  for (ReaderOptions::Path read_path : {ReaderOptions::Path::kAuto, ReaderOptions::Path::kThreads}) {
    std::filesystem::copy_file(demo_path(), path_, std::filesystem::copy_options::overwrite_existing);
    options_.read_path = read_path;
    DemoModel model = load_demo(options_);
    ASSERT_TRUE(decode_some(*model.runtime).ok());
    uint64_t bytes = std::filesystem::file_size(path_);
    ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(bytes / 3)), 0);
    Status status = decode_some(*model.runtime);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kOperating);
    EXPECT_EQ(status.error().code, "model_truncated");
    EXPECT_EQ(status.error().file, path_);
    ASSERT_TRUE(status.error().offset.has_value());
    EXPECT_GE(*status.error().offset, bytes / 3 / 4096 * 4096);

    // The process lives, and when the bytes are back the answers are.
    std::ifstream whole(demo_path(), std::ios::binary);
    std::vector<char> content(bytes);
    whole.read(content.data(), static_cast<std::streamsize>(bytes));
    std::fstream damaged(path_, std::ios::binary | std::ios::in | std::ios::out);
    damaged.write(content.data(), static_cast<std::streamsize>(bytes));
    damaged.close();
    EXPECT_TRUE(decode_some(*model.runtime).ok());
  }
}

TEST_F(DamagedModel, GoesOn_WhenTheFileIsUnlinked) {
  DemoModel model = load_demo(options_);
  std::filesystem::remove(path_);
  EXPECT_TRUE(decode_some(*model.runtime).ok());
}

TEST_F(DamagedModel, FailsOnlyTheRowsThatNeedTheExpert_InASharedStep) {
  DemoModel model = load_demo(options_);
  Runtime& runtime = *model.runtime;
  // Cut the last layer's experts in half: some are gone, others are not.
  const GgufTensor* last = model.gguf->find_tensor("blk.5.ffn_down_exps.weight");
  ASSERT_NE(last, nullptr);
  ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(last->file_offset + last->bytes / 2)), 0);
  struct Sink final : LogitsSink {
    std::vector<size_t> rows;
    void on_logits(size_t row, std::span<const float>) override { rows.push_back(row); }
  } sink;
  std::vector<std::unique_ptr<KvSequence>> sequences;
  std::vector<Row> rows;
  for (int32_t i = 0; i < 6; i++) {
    sequences.push_back(std::make_unique<KvSequence>(runtime.kv(), 8));
    ASSERT_TRUE(sequences.back()->extend(1).ok());
    rows.push_back({sequences.back().get(), 0, 50 * i, AttentionForm::kAbsorbed, true});
  }
  std::vector<std::optional<Error>> errors(rows.size());
  runtime.step().run(rows, sink, errors);
  size_t failed = 0;
  for (const auto& error : errors) failed += error.has_value();
  EXPECT_EQ(sink.rows.size(), rows.size() - failed);
  for (size_t row : sink.rows) EXPECT_FALSE(errors[row].has_value());
  EXPECT_GT(failed, 0u);
  EXPECT_LT(failed, rows.size());
}

}  // namespace
}  // namespace llmd
