// A model of 435 GB in nine shards (sparse): what is planned for it, and experts read far beyond 2^32.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "io/arena.h"
#include "model/gguf/gguf.h"
#include "model/runtime.h"

namespace llmd {
namespace {

class LargeModel : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("LLMD_SPARSE_R1");
    if (path == nullptr) GTEST_SKIP() << "LLMD_SPARSE_R1 is not set: run this test through ctest, which makes the file";
    Result<GgufModel> model = GgufModel::open(path);
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    model_ = std::make_unique<GgufModel>(std::move(model).value());
  }

  Result<std::unique_ptr<Runtime>> plan(uint64_t memory_bytes) {
    RuntimeOptions options;
    options.plan.memory_bytes = memory_bytes;
    options.plan.threads = 2;
    return Runtime::open(*model_, options);
  }

  std::unique_ptr<GgufModel> model_;
};

TEST_F(LargeModel, IsPlanned_WithinTheBudget) {
  auto runtime = plan(64ull << 30);
  ASSERT_TRUE(runtime.ok()) << runtime.error().to_string();
  const MemoryPlan& plan = (*runtime)->plan();
  EXPECT_LE(plan.total_bytes(), 64ull << 30);
  EXPECT_EQ(plan.experts_total, 58u * 256u);
  EXPECT_GT(plan.expert_bytes_total, 400ull * 1000 * 1000 * 1000);
  EXPECT_EQ(plan.context_tokens, 32768);
  // 61 layers of 576 halves a token.
  EXPECT_EQ(plan.kv_bytes % (uint64_t{61} * 1152 * 256), 0u);
  // A slot loses under 3 % to block rounding at real expert sizes.
  double used = static_cast<double>(plan.expert_bytes_total) / plan.experts_total * plan.pool_slots;
  EXPECT_GT(used, 0.97 * static_cast<double>(plan.pool_bytes));
}

// 64,000 tokens take 4.19 GiB in f16, and no page beyond them is planned. A page of 256 tokens is a whole number of
// blocks.
TEST_F(LargeModel, TakesAnExactNumberOfBytes_ForAContext) {
  struct Case {
    KvType type;
    uint64_t bytes;  // 61 layers of 576 values
  };
  for (const Case& c : {Case{KvType::kF16, 70'272}, Case{KvType::kQ8_0, 37'332}, Case{KvType::kF32, 140'544}}) {
    RuntimeOptions options;
    options.plan.memory_bytes = 40ull << 30;
    options.plan.threads = 2;
    options.plan.context_tokens = 64'000;
    uint64_t page = (256 * c.bytes + 4095) / 4096 * 4096;
    options.plan.kv_memory_bytes = 250 * page;
    options.plan.kv_type = c.type;
    auto runtime = Runtime::open(*model_, options);
    ASSERT_TRUE(runtime.ok()) << runtime.error().to_string();
    EXPECT_EQ((*runtime)->plan().kv_token_bytes, c.bytes);
    EXPECT_EQ((*runtime)->plan().kv_bytes, 250 * page);
    EXPECT_LT(page - 256 * c.bytes, page / 1000);
    EXPECT_EQ((*runtime)->plan().kv_tokens, 64'000u);
  }
}

TEST_F(LargeModel, IsRefusedWithTheNumbers_WhenTheBudgetIsTooSmall) {
  auto runtime = plan(8ull << 30);
  ASSERT_FALSE(runtime.ok());
  EXPECT_EQ(runtime.error().code, "plan_does_not_fit");
  EXPECT_NE(runtime.error().message.find("core weights"), std::string::npos);
}

TEST_F(LargeModel, IsRoutedByGroups_ThoughTheFileHasNoGroupKeys) {
  std::vector<std::string> notes;
  auto inferred = Architecture::create(*model_, notes);
  ASSERT_TRUE(inferred.ok());
  EXPECT_EQ((*inferred)->shape().routing.groups, 8);
  EXPECT_EQ((*inferred)->shape().routing.groups_used, 4);
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes[0].find("--override-kv"), std::string::npos);
  ASSERT_TRUE(model_->override_kv("deepseek2.expert_group_count=1").ok());
  auto overridden = Architecture::create(*model_, notes);
  ASSERT_TRUE(overridden.ok());
  EXPECT_EQ((*overridden)->shape().routing.groups, 1);
}

TEST_F(LargeModel, GivesTheRightBytes_ForExpertsBeyondFourGigabytes) {
  std::vector<std::string> notes;
  auto architecture = Architecture::create(*model_, notes);
  ASSERT_TRUE(architecture.ok());
  auto catalog = ExpertCatalog::create(*model_, (*architecture)->shape());
  ASSERT_TRUE(catalog.ok());
  std::vector<DirectFile> files;
  for (const GgufShard& shard : model_->shards()) {
    auto file = DirectFile::open(shard.path);
    ASSERT_TRUE(file.ok());
    files.push_back(std::move(file).value());
  }
  auto reader = Reader::create({});
  ASSERT_TRUE(reader.ok());
  PoolLayout split = lay_out_pool(catalog->pool_shape(), pool_floor_bytes(catalog->pool_shape()));
  auto arena = Arena::reserve(split.bytes);
  ASSERT_TRUE(arena.ok());
  Residency residency(*catalog, files, **reader, split, arena->take(split.bytes));
  uint64_t farthest = 0;
  for (int32_t layer : {3, 17, 40, 60}) {
    for (int32_t expert : {0, 1, 100, 254, 255}) {
      ExpertSlot* slot = residency.acquire(layer, expert, ExpertUse::kDecode);
      ASSERT_NE(slot, nullptr);
      residency.start_reads(ExpertUse::kDecode);
      for (uint32_t seen = residency.completions(); !residency.ready(*slot);) seen = residency.wait(seen);
      ASSERT_TRUE(residency.settle(*slot).ok());
      const char* kinds[] = {"gate", "up", "down"};
      const Matrix* matrices[] = {&slot->gate, &slot->up, &slot->down};
      for (int i = 0; i < 3; i++) {
        std::string name = "blk." + std::to_string(layer) + ".ffn_" + kinds[i] + "_exps.weight";
        char marker[32];
        std::snprintf(marker, sizeof(marker), "%-14.14s%4d", name.c_str(), expert);
        EXPECT_EQ(std::memcmp(matrices[i]->data, marker, 18), 0) << name << " expert " << expert;
      }
      farthest = std::max(farthest, slot->reads[2].offset);
      residency.release(slot);
    }
  }
  EXPECT_GT(farthest, 1ull << 32);
}

}  // namespace
}  // namespace llmd
