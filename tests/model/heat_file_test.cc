// The heat file: kept for its model only, whole or not at all.
#include "model/heat_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

class HeatFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory_ = testing::TempDir() + "llmd_heat_" + std::to_string(getpid());
  std::string path_ = heat_path(directory_, 77);
  std::vector<float> rates_{0.5f, 0, 0.125f, 3};
};

TEST_F(HeatFile, ComesBackAsItWasSaved_AndIsReplacedWhole) {
  ASSERT_TRUE(save_heat(path_, 77, rates_).ok());
  auto loaded = load_heat(path_, 77, 4);
  ASSERT_TRUE(loaded.ok()) << loaded.error().to_string();
  EXPECT_EQ(*loaded, rates_);
  rates_[1] = 9;
  ASSERT_TRUE(save_heat(path_, 77, rates_).ok());
  EXPECT_EQ(*load_heat(path_, 77, 4), rates_);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(HeatFile, IsMissingAtTheFirstStart) {
  EXPECT_EQ(load_heat(path_, 77, 4).error().code, "heat_missing");
}

TEST_F(HeatFile, IsRefused_WhenItIsOfAnotherModelOrDamagedAnywhere) {
  ASSERT_TRUE(save_heat(path_, 77, rates_).ok());
  EXPECT_EQ(load_heat(path_, 78, 4).error().code, "heat_invalid");
  EXPECT_EQ(load_heat(path_, 77, 5).error().code, "heat_invalid");
  EXPECT_EQ(load_heat(path_, 77, 3).error().code, "heat_invalid");
  std::ifstream file(path_, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  auto write = [&](const std::vector<char>& content) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  };
  for (size_t i = 0; i < bytes.size(); i++) {
    std::vector<char> changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x41);
    write(changed);
    EXPECT_FALSE(load_heat(path_, 77, 4).ok()) << "byte " << i;
    write({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(i)});
    EXPECT_FALSE(load_heat(path_, 77, 4).ok()) << "cut at " << i;
  }
}

TEST_F(HeatFile, IsRefused_WhenARateIsNoRate) {
  for (float rate : {std::nanf(""), -1.0f, 1e30f}) {
    rates_[2] = rate;
    ASSERT_TRUE(save_heat(path_, 77, rates_).ok());
    EXPECT_FALSE(load_heat(path_, 77, 4).ok()) << rate;
  }
}

TEST_F(HeatFile, IsNotSaved_AndTheErrorNamesIt_WhenTheDirectoryIsMissing) {
  Status saved = save_heat(directory_ + "/not/there", 77, rates_);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code, "file_write");
  EXPECT_NE(saved.error().file.find("/not/there"), std::string::npos);
}

TEST_F(HeatFile, KnowsAModelByItsTensors_NotByItsPath) {
  std::string copy = directory_ + "/copy.gguf";
  std::filesystem::copy_file(demo_path(), copy);
  auto original = GgufModel::open(demo_path()), moved = GgufModel::open(copy);
  ASSERT_TRUE(original.ok() && moved.ok());
  EXPECT_EQ(model_identity(*original), model_identity(*moved));
  std::ofstream(copy, std::ios::binary | std::ios::app) << std::string(4096, 'x');
  auto longer = GgufModel::open(copy);
  ASSERT_TRUE(longer.ok());
  EXPECT_NE(model_identity(*original), model_identity(*longer));
}

// A daemon's life: it decodes, saves, and the next one starts with what this one used most.
TEST_F(HeatFile, WarmsThePoolOfTheNextStart) {
  DemoOptions options;
  options.chunk = 16;
  Result<DemoModel> planned = open_demo(options);
  ASSERT_TRUE(planned.ok());
  const MemoryPlan& plan = planned->runtime->plan();
  options.memory_bytes = plan.floor_bytes + (plan.full_bytes - plan.floor_bytes) / 2;
  options.state_directory = directory_;
  std::vector<int32_t> tokens;
  for (int32_t token : some_tokens(120, 3)) tokens.push_back(token % 40);
  auto ignore = [](int32_t, std::span<const float>) {};
  auto decode = [&](Runtime& runtime, std::span<const int32_t> list) {
    Generator generator(runtime, 256);
    for (int32_t token : list) ASSERT_TRUE(generator.decode(token, ignore).ok());
  };
  {
    DemoModel first = load_demo(options);
    EXPECT_FALSE(first.runtime->maintain(true));
    decode(*first.runtime, tokens);
    ASSERT_TRUE(first.runtime->save_heat().ok());
  }
  auto start_and_decode_one = [&](bool warm) {
    DemoModel next = load_demo(options);
    while (next.runtime->maintain(true)) EXPECT_TRUE(warm);
    uint64_t warmed = next.runtime->residency()->statistics().warm_reads;
    EXPECT_EQ(warmed > 0, warm);
    decode(*next.runtime, std::span(tokens).first(8));
    const ResidencyStatistics after = next.runtime->residency()->statistics();
    return static_cast<double>(after.hits) / static_cast<double>(after.hits + after.misses);
  };
  double warm = start_and_decode_one(true);
  std::filesystem::remove_all(directory_);
  double cold = start_and_decode_one(false);
  EXPECT_GT(warm, cold + 0.1);

  // A damaged file costs a warning and nothing else.
  std::filesystem::create_directories(directory_);
  std::ofstream(heat_path(directory_, model_identity(*planned->gguf))) << "nonsense";
  DemoModel damaged = load_demo(options);
  ASSERT_EQ(damaged.runtime->warnings().size(), 1u);
  EXPECT_NE(damaged.runtime->warnings()[0].find("learnt heat"), std::string::npos);
  decode(*damaged.runtime, std::span(tokens).first(8));
}

}  // namespace
}  // namespace llmd
