// What is refused before a byte of weights is read, and how the refusal names the culprit.
#include <gtest/gtest.h>

#include "model/core_weights.h"
#include "tests/gguf/gguf_builder.h"
#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

using testing::GgufBuilder;
using testing::read_gguf;

Result<GgufModel> model_with(uint32_t type, std::vector<uint64_t> dims) {
  GgufBuilder builder;
  builder.text("general.architecture", "deepseek2");
  builder.tensor({"blk.7.attn_output.weight", std::move(dims), type});
  return read_gguf(builder.build());
}

Status locate(const GgufModel& model, const TensorUse& use) {
  Result<CoreWeights> core = CoreWeights::locate(model, {use});
  return core.ok() ? Status() : Status(core.error());
}

TEST(CoreWeights, AreRefusedByTensorName_WhenTheTypeHasNoKernel) {
  Result<GgufModel> model = model_with(static_cast<uint32_t>(TensorType::kIQ2_XXS), {256, 4});
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  Status status = locate(*model, {"blk.7.attn_output.weight", true, false, {256, 4}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "type_unsupported");
  EXPECT_NE(status.error().message.find("blk.7.attn_output.weight"), std::string::npos);
  EXPECT_NE(status.error().message.find("IQ2_XXS"), std::string::npos);
}

TEST(CoreWeights, AreRefused_WhenATensorIsMissingOrHasAnotherShape) {
  Result<GgufModel> model = model_with(static_cast<uint32_t>(TensorType::kF32), {256, 4});
  ASSERT_TRUE(model.ok());
  EXPECT_TRUE(locate(*model, {"blk.7.attn_output.weight", true, true, {256, 4}}).ok());
  EXPECT_TRUE(locate(*model, {"blk.8.attn_output.weight", false, true, {256, 4}}).ok());
  Status missing = locate(*model, {"blk.8.attn_output.weight", true, true, {256, 4}});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("blk.8.attn_output.weight"), std::string::npos);
  Status shape = locate(*model, {"blk.7.attn_output.weight", true, true, {256, 8}});
  ASSERT_FALSE(shape.ok());
  EXPECT_NE(shape.error().message.find("[256, 8]"), std::string::npos);
}

TEST(Architecture, IsRefusedByName_WhenItIsUnknown) {
  GgufBuilder builder;
  builder.text("general.architecture", "mamba9");
  Result<GgufModel> model = read_gguf(builder.build());
  ASSERT_TRUE(model.ok());
  std::vector<std::string> notes;
  auto architecture = Architecture::create(*model, notes);
  ASSERT_FALSE(architecture.ok());
  EXPECT_EQ(architecture.error().code, "model_unsupported");
  EXPECT_NE(architecture.error().message.find("mamba9"), std::string::npos);
}

// Every whole-number key of the demo model, set to values that no model has: refused or run, never a crash.
TEST(Architecture, SurvivesEveryKey_SetToNonsense) {
  Result<GgufModel> demo = GgufModel::open(demo_path());
  ASSERT_TRUE(demo.ok());
  int refused = 0;
  for (const auto& [key, value] : demo->metadata()) {
    if (key.rfind("deepseek2.", 0) != 0 || value.type == GgufValueType::kString) continue;
    for (const char* nonsense : {"0", "1", "-1", "3", "1000000", "2147483647", "9223372036854775807", "float:nan",
                                 "float:1e30", "str:x", "bool:true"}) {
      Result<GgufModel> model = GgufModel::open(demo_path());
      ASSERT_TRUE(model.ok());
      if (!model->override_kv(key + "=" + nonsense).ok()) continue;
      RuntimeOptions options;
      options.plan.memory_bytes = 1ull << 30;
      options.plan.threads = 2;
      Result<std::unique_ptr<Runtime>> runtime = Runtime::open(*model, options);
      if (!runtime.ok()) {
        EXPECT_FALSE(runtime.error().message.empty());
        refused++;
      }
    }
  }
  EXPECT_GT(refused, 50);
}

TEST(Plan, IsRefusedWithTheTable_WhenItDoesNotFit) {
  DemoOptions options;
  options.memory_bytes = 20u << 20;
  Result<DemoModel> model = open_demo(options);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, "plan_does_not_fit");
  for (const char* part : {"core weights", "KV", "expert pool", "process", "at least"})
    EXPECT_NE(model.error().message.find(part), std::string::npos) << part;
}

TEST(Plan, WarnsWithTheNumbers_WhenThePoolHoldsLessThanATokensExperts) {
  DemoOptions options;
  Result<DemoModel> roomy = open_demo(options);
  ASSERT_TRUE(roomy.ok());
  EXPECT_TRUE(roomy->runtime->plan().warnings.empty());
  options.memory_bytes = roomy->runtime->plan().floor_bytes;
  Result<DemoModel> tight = open_demo(options);
  ASSERT_TRUE(tight.ok());
  ASSERT_EQ(tight->runtime->plan().warnings.size(), 1u);
  EXPECT_NE(tight->runtime->plan().warnings[0].find("less than the experts of one token"), std::string::npos);
  EXPECT_LE(tight->runtime->plan().total_bytes(), options.memory_bytes);
}

}  // namespace
}  // namespace llmd
