// Damaged bytes in a model that has checksums: a typed error, never another answer. And without checksums, weights that
// are no numbers.
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/model/checksum_fixture.h"
#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

// A copy of the demo model with checksums, that a test may damage. Few slots: nearly every token reads.
class CheckedModel : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "llmd_checked_" + std::to_string(getpid()) + ".gguf";
    std::filesystem::copy_file(demo_path(), path_, std::filesystem::copy_options::overwrite_existing);
    write_checksums(path_);
    options_.path = path_;
    options_.chunk = 16;
    Result<DemoModel> planned = open_demo(options_);
    ASSERT_TRUE(planned.ok());
    options_.memory_bytes = planned->runtime->plan().floor_bytes;
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + ".crc");
  }

  const GgufTensor& tensor(const std::string& name) {
    gguf_ = std::make_unique<GgufModel>(GgufModel::open(path_).value());
    const GgufTensor* found = gguf_->find_tensor(name);
    EXPECT_NE(found, nullptr) << name;
    return *found;
  }
  // A byte of every expert of a layer.
  void damage_experts(const std::string& name) {
    const GgufTensor& experts = tensor(name);
    for (uint64_t e = 0; e < experts.dims[2]; e++)
      flip_byte(path_, experts.file_offset + experts.bytes / experts.dims[2] * e + 77);
  }
  static Status decode_some(Runtime& runtime, std::vector<float>* last = nullptr) {
    Generator generator(runtime, 64);
    auto keep = [&](int32_t, std::span<const float> logits) {
      if (last != nullptr) last->assign(logits.begin(), logits.end());
    };
    for (int32_t token : some_tokens(16, 3)) LLMD_RETURN_IF_ERROR(generator.decode(token, keep));
    return {};
  }

  std::string path_;
  DemoOptions options_;
  std::unique_ptr<GgufModel> gguf_;
};

TEST_F(CheckedModel, AnswersAsEver_WhenEveryReadIsCheckedAndNothingIsWrong) {
  DemoModel plain = load_demo(options_);
  options_.verify_reads = 1;
  DemoModel checked = load_demo(options_);
  std::vector<float> expected, given;
  ASSERT_TRUE(decode_some(*plain.runtime, &expected).ok());
  ASSERT_TRUE(decode_some(*checked.runtime, &given).ok());
  EXPECT_EQ(given, expected);
  EXPECT_EQ(plain.runtime->checker(), nullptr);
  EXPECT_EQ(checked.runtime->checker()->checked(), checked.runtime->residency()->statistics().misses);
}

TEST_F(CheckedModel, ChecksEveryFourthRead_AtARateOfAQuarter) {
  options_.verify_reads = 0.25;
  DemoModel model = load_demo(options_);
  ASSERT_TRUE(decode_some(*model.runtime).ok());
  EXPECT_EQ(model.runtime->checker()->checked(), model.runtime->residency()->statistics().misses / 4);
}

TEST_F(CheckedModel, ChecksEveryRead_OnceOneWasDamaged) {
  damage_experts("blk.5.ffn_up_exps.weight");
  options_.verify_reads = 0.02;
  DemoModel model = load_demo(options_);
  for (int i = 0; i < 50 && decode_some(*model.runtime).ok(); i++) continue;
  uint64_t checked = model.runtime->checker()->checked(), misses = model.runtime->residency()->statistics().misses;
  EXPECT_LT(checked, misses / 4);
  for (int i = 0; i < 5; i++) EXPECT_FALSE(decode_some(*model.runtime).ok());
  EXPECT_EQ(model.runtime->checker()->checked() - checked, model.runtime->residency()->statistics().misses - misses);
}

TEST_F(CheckedModel, EndsTheRequestWithFileAndOffset_WhenAnExpertIsDamaged) {
  for (const char* name : {"blk.5.ffn_gate_exps.weight", "blk.5.ffn_down_exps.weight"}) {
    damage_experts(name);
    options_.verify_reads = 1;
    options_.residency.bad_expert_ns = 0;  // tried again at once
    DemoModel model = load_demo(options_);
    Status status = decode_some(*model.runtime);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kOperating);
    EXPECT_EQ(status.error().code, "model_checksum_mismatch");
    EXPECT_EQ(status.error().file, path_);
    const GgufTensor& damaged = tensor(name);
    ASSERT_TRUE(status.error().offset.has_value());
    EXPECT_EQ((*status.error().offset - damaged.file_offset) % (damaged.bytes / damaged.dims[2]), 0u);
    EXPECT_NE(status.error().message.find(name), std::string::npos) << status.error().message;

    // It is read again for the next request, and the bytes are right again.
    damage_experts(name);
    EXPECT_TRUE(decode_some(*model.runtime).ok());
  }
}

TEST_F(CheckedModel, NoticesDamageOnlyInVerify_AtARateOfZero) {
  damage_experts("blk.5.ffn_gate_exps.weight");
  DemoModel model = load_demo(options_);
  EXPECT_TRUE(decode_some(*model.runtime).ok());
  Result<ModelChecksums> checksums = ModelChecksums::read(path_ + ".crc", *model.gguf);
  ASSERT_TRUE(checksums.ok());
  ScannedModel scanned = scan_files(*model.gguf);
  uint64_t bad = 0;
  for (const ChecksumRange& range : checksums->layout().ranges())
    for (uint32_t s = 0; s < range.slices; s++) bad += scanned.values[range.first + s] != checksums->value(range, s);
  EXPECT_EQ(bad, tensor("blk.5.ffn_gate_exps.weight").dims[2]);
}

TEST_F(CheckedModel, RefusesToStart_WhenACoreTensorIsDamaged) {
  for (const char* name : {"token_embd.weight", "blk.2.attn_norm.weight", "output_norm.weight"}) {
    const GgufTensor& damaged = tensor(name);
    uint64_t offset = damaged.file_offset + damaged.bytes - 1;
    flip_byte(path_, offset);
    Result<DemoModel> model = open_demo(options_);
    ASSERT_TRUE(model.ok());
    Status loaded = model->runtime->load(nullptr);
    ASSERT_FALSE(loaded.ok()) << name;
    EXPECT_EQ(loaded.error().code, "model_checksum_mismatch");
    EXPECT_EQ(loaded.error().file, path_);
    EXPECT_EQ(loaded.error().offset, tensor(name).file_offset);
    EXPECT_NE(loaded.error().message.find(std::string("tensor ") + name + " "), std::string::npos);
    flip_byte(path_, offset);
  }
  load_demo(options_);
}

TEST_F(CheckedModel, RefusesToStart_WithChecksumsOfAnotherModelOrNone) {
  options_.verify_reads = 0.5;
  std::filesystem::resize_file(path_ + ".crc", 100);
  EXPECT_EQ(open_demo(options_)->runtime->load(nullptr).error().code, "checksums_invalid");
  std::filesystem::remove(path_ + ".crc");
  EXPECT_EQ(open_demo(options_)->runtime->load(nullptr).error().code, "checksums_missing");
  options_.verify_reads = 0;
  load_demo(options_);
}

// 0x7e00 as the scale of a block is a NaN of every weight in it; 0x7c00 makes infinities.
TEST_F(CheckedModel, EndsTheRequest_WhenTheLogitsAreNotNumbers) {
  std::filesystem::remove(path_ + ".crc");
  const GgufTensor& norm = tensor("blk.3.ffn_norm.weight");
  ASSERT_EQ(norm.type, TensorType::kF32);
  float good = 0, sound[2] = {};
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(norm.file_offset));
  file.read(reinterpret_cast<char*>(sound), sizeof sound);
  good = sound[0];
  for (uint32_t bits : {0x7fc00000u, 0x7f800000u, 0xff800000u}) {
    file.seekp(static_cast<std::streamoff>(norm.file_offset));
    file.write(reinterpret_cast<const char*>(&bits), sizeof bits);
    file.flush();
    DemoModel model = load_demo(options_);
    Status status = decode_some(*model.runtime);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kOperating);
    EXPECT_EQ(status.error().code, "model_output_invalid");
  }
  file.seekp(static_cast<std::streamoff>(norm.file_offset));
  file.write(reinterpret_cast<const char*>(&good), sizeof good);
  file.close();
  EXPECT_TRUE(decode_some(*load_demo(options_).runtime).ok());
}

// A damaged row of the embedding is the business of those who use that token.
TEST_F(CheckedModel, FailsOnlyTheRowsWhoseLogitsAreNotNumbers_InASharedStep) {
  std::filesystem::remove(path_ + ".crc");
  const GgufTensor& embedding = tensor("token_embd.weight");
  uint64_t row_bytes = embedding.bytes / embedding.dims[1];
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(embedding.file_offset + 7 * row_bytes));
  std::vector<char> nans(row_bytes, '\x7f');
  file.write(nans.data(), static_cast<std::streamsize>(nans.size()));
  file.close();
  DemoModel model = load_demo(options_);
  struct Sink final : LogitsSink {
    std::vector<size_t> rows;
    void on_logits(size_t row, std::span<const float>) override { rows.push_back(row); }
  } sink;
  std::vector<std::unique_ptr<KvSequence>> sequences;
  std::vector<Row> rows;
  for (int32_t token : {5, 7, 9}) {
    sequences.push_back(std::make_unique<KvSequence>(model.runtime->kv(), 8));
    ASSERT_TRUE(sequences.back()->extend(1).ok());
    rows.push_back({sequences.back().get(), 0, token, AttentionForm::kAbsorbed, true});
  }
  std::vector<std::optional<Error>> errors(rows.size());
  model.runtime->step().run(rows, sink, errors);
  EXPECT_EQ(sink.rows, (std::vector<size_t>{0, 2}));
  ASSERT_TRUE(errors[1].has_value());
  EXPECT_EQ(errors[1]->code, "model_output_invalid");
}

}  // namespace
}  // namespace llmd
