// What `llmd inspect` says of a model: roles and sizes, experts, tokenizer, template, and that both outputs are safe.
#include "daemon/inspect.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/commands.h"
#include "tests/gguf/gguf_builder.h"

namespace llmd {
namespace {

using nlohmann::json;
using testing::GgufBuilder;
using testing::le;
using testing::le_array;
using testing::le_string;
using Type = GgufValueType;

GgufModel must_read(GgufBuilder& builder) {
  Result<GgufModel> model = testing::read_gguf(builder.build());
  if (!model.ok()) ADD_FAILURE() << model.error().to_string();
  return model.ok() ? std::move(model).value() : GgufModel();
}

// Two decoder layers, the second with 4 experts, and an MTP block with experts of its own.
GgufBuilder small_model() {
  GgufBuilder builder;
  builder.text("general.architecture", "deepseek2").text("general.name", "small").u32("general.file_type", 15);
  builder.u32("deepseek2.block_count", 3).u32("deepseek2.nextn_predict_layers", 1);
  builder.u32("deepseek2.expert_count", 4).u32("deepseek2.expert_used_count", 2);
  builder.key("deepseek2.attention.layer_norm_rms_epsilon", Type::kF32, le(1e-6f));
  builder.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "deepseek-v3");
  builder.key("tokenizer.ggml.tokens", Type::kArray,
              le_array(Type::kString, 2, le_string("a") + le_string("\xff\x1b")));
  builder.u32("tokenizer.ggml.bos_token_id", 1).text("tokenizer.chat_template", "{{ messages }}\n");
  builder.tensor({"token_embd.weight", {256, 2}, 8}).tensor({"output.weight", {256, 2}, 14});
  builder.tensor({"output_norm.weight", {256}, 0}).tensor({"rope_freqs.weight", {8}, 0});
  builder.tensor({"blk.0.attn_q.weight", {256, 8}, 12}).tensor({"blk.0.ffn_gate.weight", {256, 4}, 12});
  builder.tensor({"blk.1.ffn_gate_inp.weight", {256, 4}, 0}).tensor({"blk.1.ffn_up_shexp.weight", {256, 2}, 12});
  for (const char* matrix : {"gate", "up"}) {
    builder.tensor({std::string("blk.1.ffn_") + matrix + "_exps.weight", {256, 32, 4}, 12});
  }
  builder.tensor({"blk.1.ffn_down_exps.weight", {32, 256, 4}, 8});
  builder.tensor({"blk.2.ffn_up_exps.weight", {256, 32, 4}, 12}).tensor({"blk.2.nextn.enorm.weight", {256}, 0});
  return builder;
}

TEST(Inspect, SortsTensorsByRole) {
  GgufBuilder builder = small_model();
  GgufModel model = must_read(builder);
  ModelSummary summary = inspect_model(model);
  auto bytes = [&](TensorRole role) { return summary.by_role[static_cast<size_t>(role)].bytes; };
  EXPECT_EQ(bytes(TensorRole::kEmbeddings), 256u * 2 / 32 * 34 + 256 * 2 / 256 * 210);
  EXPECT_EQ(bytes(TensorRole::kOther), 32u);
  EXPECT_EQ(bytes(TensorRole::kCore), 1024u + (8 + 4 + 2) * 144 + 4096);
  EXPECT_EQ(bytes(TensorRole::kRoutedExperts), 2u * 4 * 32 * 144 + 4 * 256 * 34);
  EXPECT_EQ(bytes(TensorRole::kMtp), 4u * 32 * 144 + 1024);
  uint64_t sum = 0;
  for (const SizeCount& size : summary.by_role) sum += size.bytes;
  EXPECT_EQ(sum, summary.tensor_bytes);
}

TEST(Inspect, CountsExpertBytes) {
  GgufBuilder builder = small_model();
  ModelSummary summary = inspect_model(must_read(builder));
  ASSERT_TRUE(summary.experts.has_value());
  EXPECT_EQ(summary.experts->count, 4u);
  EXPECT_EQ(summary.experts->layers, 1u);
  EXPECT_EQ(summary.experts->bytes_each_min, 2u * 32 * 144 + 256 * 34);
  EXPECT_EQ(summary.experts->bytes_each_max, summary.experts->bytes_each_min);
  EXPECT_EQ(summary.experts->bytes_per_token, 2 * summary.experts->bytes_each_min);
}

TEST(Inspect, KnowsFilesWithOneTensorAnExpert) {
  GgufBuilder builder;
  builder.text("general.architecture", "llama").u32("llama.expert_count", 2).u32("llama.expert_used_count", 1);
  for (const char* name : {"blk.0.ffn_up.0.weight", "blk.0.ffn_up.1.weight"}) builder.tensor({name, {32, 8}, 8});
  builder.tensor({"blk.0.ffn_up.weight", {32, 8}, 8});
  ModelSummary summary = inspect_model(must_read(builder));
  ASSERT_TRUE(summary.experts.has_value());
  EXPECT_EQ(summary.experts->bytes_each_min, 8u * 34);
  EXPECT_EQ(summary.by_role[static_cast<size_t>(TensorRole::kCore)].tensors, 1u);
}

TEST(Inspect, PrintsOneJsonObject) {
  GgufBuilder builder = small_model();
  GgufModel model = must_read(builder);
  json out = json::parse(inspect_json(model, inspect_model(model)));
  EXPECT_EQ(out["architecture"], "deepseek2");
  EXPECT_EQ(out["name"], "small");
  EXPECT_EQ(out["file_type"], "Q4_K_M");
  EXPECT_EQ(out["hyperparameters"]["expert_used_count"], 2);
  EXPECT_EQ(out["hyperparameters"]["attention.layer_norm_rms_epsilon"], 1e-6);
  EXPECT_EQ(out["tokenizer"]["model"], "gpt2");
  EXPECT_EQ(out["tokenizer"]["pre"], "deepseek-v3");
  EXPECT_EQ(out["tokenizer"]["vocab_size"], 2);
  EXPECT_EQ(out["tokenizer"]["special_ids"]["bos"], 1);
  EXPECT_EQ(out["chat_template"]["text"], "{{ messages }}\n");
  EXPECT_EQ(out["chat_template"]["bytes"], 15);
  EXPECT_EQ(out["shards"].size(), 1u);
  EXPECT_EQ(out["shards"][0]["tensors"], 13);
  EXPECT_EQ(out["experts"]["used"], 2);
  const json& tensor = out["tensors"][8];
  EXPECT_EQ(tensor["name"], "blk.1.ffn_gate_exps.weight");
  EXPECT_EQ(tensor["type"], "Q4_K");
  EXPECT_EQ(tensor["dims"], json({256, 32, 4}));
  EXPECT_EQ(tensor["bytes"], 4 * 32 * 144);
  EXPECT_EQ(tensor["role"], "routed_experts");
  EXPECT_EQ(tensor["offset"], model.tensors()[8].file_offset);
}

TEST(Inspect, KeepsControlBytesFromTheTerminal) {
  GgufBuilder builder = small_model();
  builder.u32("general.\x1b]0;title\x07", 1).text("general.license", "a\nb\x1b[2J").tensor({"evil\x1b[2J", {4}, 0});
  GgufModel model = must_read(builder);
  std::string text = inspect_text(model, inspect_model(model));
  for (char c : text) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << static_cast<int>(c);
  EXPECT_NE(text.find("evil\\x1b[2J"), std::string::npos);
}

TEST(Inspect, ShowsFilesThatSayNothing) {
  GgufModel model;
  ModelSummary summary = inspect_model(model);
  EXPECT_FALSE(inspect_text(model, summary).empty());
  json out = json::parse(inspect_json(model, summary));
  EXPECT_TRUE(out["architecture"].is_null());
  EXPECT_TRUE(out["experts"].is_null());
  EXPECT_TRUE(out["chat_template"].is_null());
}

TEST(Inspect, ShowsFilesWithAbsurdKeys) {
  GgufBuilder builder = small_model();
  builder.key("deepseek2.nan", Type::kF32, le(std::numeric_limits<float>::quiet_NaN()));
  builder.key("deepseek2.list", Type::kArray, le_array(Type::kU8, 5000, std::string(5000, 'x')));
  builder.u32("deepseek2.leading_dense_block_count", UINT32_MAX);
  GgufModel model = must_read(builder);
  ASSERT_TRUE(model.override_kv("deepseek2.expert_used_count=int:18446744073709551615").ok());
  ASSERT_TRUE(model.override_kv("deepseek2.nextn_predict_layers=99").ok());
  ModelSummary summary = inspect_model(model);
  EXPECT_EQ(summary.experts->bytes_per_token, 4 * (summary.experts->bytes_each_min + summary.experts->bytes_each_max))
      << "a token uses at most all experts of a layer";
  json out = json::parse(inspect_json(model, summary));
  EXPECT_EQ(out["hyperparameters"]["list"]["length"], 5000);
  EXPECT_TRUE(out["hyperparameters"]["nan"].is_null());
  EXPECT_FALSE(inspect_text(model, summary).empty());
}

TEST(Inspect, SaysWhyOnStderr_WhenThereIsNoFile) {
  ::testing::internal::CaptureStderr();
  int status = run_inspect("/nothing/here.gguf", true);
  std::string error = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(status, 1);
  EXPECT_TRUE(error.starts_with("llmd: ")) << error;
  EXPECT_NE(error.find("/nothing/here.gguf"), std::string::npos);
}

TEST(Inspect, PrintsTheDemoModel) {
  std::string path = LLMD_SOURCE_DIR "/../shared/data/demo/llmd-demo.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "SKIPPED: no reference data at " << path;
  ::testing::internal::CaptureStdout();
  int status = run_inspect(path, true);
  json out = json::parse(::testing::internal::GetCapturedStdout());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(out["architecture"], "deepseek2");
  EXPECT_GT(out["bytes_by_role"]["routed_experts"], out["bytes_by_role"]["core"]);
  EXPECT_GT(out["bytes_by_role"]["mtp"], 0);
  EXPECT_EQ(out["chat_template"]["bytes"], out["chat_template"]["text"].get<std::string>().size());
}

}  // namespace
}  // namespace llmd
