// Models in several files: found from any shard, joined in order, and refused when shards are missing, mixed or
// renamed.
#include <gtest/gtest.h>

#include "tests/gguf/gguf_builder.h"
#include "tests/gguf/temporary_folder.h"

namespace llmd::testing {
namespace {

std::string name_of(int number, int count) {
  return shard_path("m", static_cast<uint32_t>(number), static_cast<uint32_t>(count));
}

// Three shards with one tensor each; `change` may spoil shard `index` (from 0).
class SplitGguf : public ::testing::Test {
 protected:
  GgufBuilder shard(uint16_t index, int32_t total = 3, uint16_t count = 3) {
    GgufBuilder builder;
    builder.split(index, count, total);
    if (index == 0) builder.text("general.architecture", "deepseek2");
    return builder;
  }
  std::string put(int number, GgufBuilder builder, int count = 3) {
    return folder_.write(name_of(number, count), builder.build());
  }
  void put_good() {
    for (uint16_t i = 0; i < 3; ++i) put(i + 1, shard(i).tensor({"t" + std::to_string(i), {8}, 0}));
  }
  void expect_invalid(const std::string& path, const std::string& file, const std::string& reason) {
    Result<GgufModel> model = GgufModel::open(path);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().code, "gguf_invalid");
    EXPECT_EQ(model.error().file, folder_.path(file));
    EXPECT_NE(model.error().message.find(reason), std::string::npos) << model.error().message;
  }
  TemporaryFolder folder_;
};

TEST_F(SplitGguf, OpensFromAnyShard) {
  put_good();
  for (int number = 1; number <= 3; ++number) {
    Result<GgufModel> model = GgufModel::open(folder_.path(name_of(number, 3)));
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    ASSERT_EQ(model->shards().size(), 3u);
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(model->shards()[i].path, folder_.path(name_of(static_cast<int>(i) + 1, 3)));
      EXPECT_EQ(model->find_tensor("t" + std::to_string(i))->shard, i);
    }
    EXPECT_EQ(*model->get_string("general.architecture"), "deepseek2");
  }
}

TEST_F(SplitGguf, KeepsAlignmentAndDataStartPerShard) {
  put(1, shard(0, 2, 2).tensor({"a", {8}, 0}), 2);
  GgufBuilder second = shard(1, 2, 2);
  second.alignment = 512;
  second.u32("general.alignment", 512).tensor({"b", {8}, 0});
  std::string path = put(2, second, 2);
  second.build();
  Result<GgufModel> model = GgufModel::open(path);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(model->find_tensor("b")->file_offset, second.at("data"));
  EXPECT_EQ(model->shards()[1].data_start, second.at("data"));
  EXPECT_NE(model->shards()[0].data_start, second.at("data"));
  EXPECT_EQ(model->find("general.alignment"), nullptr) << "only the first shard's metadata counts";
}

TEST_F(SplitGguf, Opens_WhenTheFirstShardHasNoTensors) {
  put(1, shard(0, 1, 2), 2);
  std::string path = put(2, shard(1, 1, 2).tensor({"a", {8}, 0}), 2);
  Result<GgufModel> model = GgufModel::open(path);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(model->find_tensor("a")->shard, 1u);
}

TEST_F(SplitGguf, IsOneFile_WhenTheCountIsOne) {
  std::string path = folder_.write("plain.gguf", shard(0, 1, 1).tensor({"a", {8}, 0}).build());
  Result<GgufModel> model = GgufModel::open(path);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(model->shards().size(), 1u);
}

TEST_F(SplitGguf, IsRefused_WhenAShardIsMissing) {
  put_good();
  std::filesystem::remove(folder_.path(name_of(2, 3)));
  expect_invalid(folder_.path(name_of(1, 3)), name_of(2, 3), "shard 2 of 3 is missing");
  expect_invalid(folder_.path(name_of(3, 3)), name_of(2, 3), "shard 2 of 3 is missing");
}

TEST_F(SplitGguf, IsRefused_WhenShardsAreSwapped) {
  put_good();
  std::filesystem::rename(folder_.path(name_of(2, 3)), folder_.path("x"));
  std::filesystem::rename(folder_.path(name_of(3, 3)), folder_.path(name_of(2, 3)));
  std::filesystem::rename(folder_.path("x"), folder_.path(name_of(3, 3)));
  expect_invalid(folder_.path(name_of(1, 3)), name_of(2, 3), "says that it is shard 3 of 3");
  expect_invalid(folder_.path(name_of(3, 3)), name_of(2, 3), "says that it is shard 3 of 3");
}

TEST_F(SplitGguf, IsRefused_WhenAShardOfAnotherModelIsAmongThem) {
  put_good();
  put(2, shard(1, 99).tensor({"other", {8}, 0}));
  expect_invalid(folder_.path(name_of(1, 3)), name_of(2, 3), "belongs to another model");
  put(2, shard(1, 3, 4).tensor({"other", {8}, 0}));
  expect_invalid(folder_.path(name_of(1, 3)), name_of(2, 3), "shard 2 of 4");
}

TEST_F(SplitGguf, IsRefused_WhenAWholeModelStandsInAShardsPlace) {
  put_good();
  put(3, GgufBuilder().text("general.architecture", "llama"));
  expect_invalid(folder_.path(name_of(1, 3)), name_of(3, 3), "not part of a split model");
}

TEST_F(SplitGguf, IsRefused_WhenTheTensorCountIsWrong) {
  for (uint16_t i = 0; i < 3; ++i) put(i + 1, shard(i, 4).tensor({"t" + std::to_string(i), {8}, 0}));
  expect_invalid(folder_.path(name_of(1, 3)), name_of(1, 3), "split.tensors.count is 4, but the shards hold 3");
}

TEST_F(SplitGguf, IsRefused_WhenATensorIsInTwoShards) {
  put_good();
  put(3, shard(2).tensor({"t1", {8}, 0}));
  expect_invalid(folder_.path(name_of(1, 3)), name_of(3, 3), "tensor 't1' is also in");
}

TEST_F(SplitGguf, IsRefused_WhenRenamed) {
  std::string path = folder_.write("model.gguf", shard(0).tensor({"t0", {8}, 0}).build());
  expect_invalid(path, "model.gguf", "must be named PREFIX-00001-of-00003.gguf");
}

TEST_F(SplitGguf, NamesTheShard_WhenItIsBroken) {
  put_good();
  GgufBuilder broken = shard(1).tensor({"t1", {8}, 0});
  std::string bytes = broken.build();
  folder_.write(name_of(2, 3), bytes.substr(0, bytes.size() - 1));
  expect_invalid(folder_.path(name_of(1, 3)), name_of(2, 3), "end beyond the file");
}

TEST_F(SplitGguf, IsRefused_WhenTheCountIsAbsurd) {
  std::string path = folder_.write("m.gguf", GgufBuilder().i32("split.count", -1).build());
  expect_invalid(path, "m.gguf", "split.count is not a number");
  path = folder_.write("m.gguf", GgufBuilder().u32("split.count", UINT32_MAX).build());
  expect_invalid(path, "m.gguf", "split.count is not a number");
  path = folder_.write("m.gguf", GgufBuilder().text("split.count", "2").build());
  expect_invalid(path, "m.gguf", "split.count is not a number");
}

TEST(ShardName, IsParsedAndMade) {
  std::optional<ShardName> name = parse_shard_name("/a/b-00002-of-00009.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "/a/b");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 9u);
  EXPECT_EQ(shard_path(name->prefix, 9, 9), "/a/b-00009-of-00009.gguf");
  for (const char* bad : {"", "m.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-0000a-of-00003.gguf",
                          "m-00001-of-00003.bin", "m_00001-of-00003.gguf", "m-00001_of_00003.gguf"}) {
    EXPECT_FALSE(parse_shard_name(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace llmd::testing
