// The file of checksums: what it covers, and that nothing but the right file for the right model is believed.
#include "model/checksums.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "io/crc32c.h"
#include "tests/gguf/gguf_builder.h"
#include "tests/model/checksum_fixture.h"
#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

using testing::GgufBuilder;

// A core tensor, one of five experts, and one that only looks like experts.
std::string small_file(uint64_t width = 64) {
  GgufBuilder builder;
  builder.text("general.architecture", "deepseek2");
  builder.tensor({"output_norm.weight", {width}, 0});
  builder.tensor({"blk.1.ffn_up_exps.weight", {32, 3, 5}, 8});
  builder.tensor({"blk.1.ffn_up_exps.bias", {5, 3}, 0});
  std::string bytes = builder.build();
  for (size_t i = builder.at("data"); i < bytes.size(); i++) bytes[i] = static_cast<char>(i * i % 251);
  return bytes;
}

GgufModel model_of(const std::string& bytes) {
  Result<GgufModel> model = testing::read_gguf(bytes);
  EXPECT_TRUE(model.ok());
  return std::move(model).value();
}

// The checksums of a file, its bytes given to the cursor in pieces.
std::vector<uint32_t> values_of(const GgufModel& model, const std::string& bytes, size_t piece) {
  ChecksumLayout layout(model);
  std::vector<uint32_t> values(layout.count());
  ChecksumCursor cursor(
      layout, [&](const ChecksumRange& range, uint32_t slice, uint32_t crc) { values[range.first + slice] = crc; });
  std::span<const std::byte> all = std::as_bytes(std::span(bytes));
  for (size_t at = 0; at < all.size(); at += piece)
    cursor.add(0, at, all.subspan(at, std::min(piece, all.size() - at)));
  return values;
}

TEST(ChecksumLayout, HasOneChecksumForEachHeaderTensorAndExpert) {
  std::string bytes = small_file();
  GgufModel model = model_of(bytes);
  ChecksumLayout layout(model);
  ASSERT_EQ(layout.ranges().size(), 4u);
  EXPECT_EQ(layout.count(), 1u + 1 + 5 + 1);
  EXPECT_EQ(layout.ranges()[0].end(), model.shards()[0].data_start);
  const ChecksumRange& experts = layout.ranges()[2];
  EXPECT_EQ(experts.slices, 5u);
  EXPECT_EQ(experts.slice_bytes, 34u * 3);
  EXPECT_EQ(layout.find(0, experts.offset), &experts);
  EXPECT_EQ(layout.find(0, experts.offset + 1), nullptr);
  EXPECT_EQ(ChecksumLayout::describe(experts, 3), "tensor blk.1.ffn_up_exps.weight, expert 3");
  EXPECT_EQ(ChecksumLayout::describe(layout.ranges()[0], 0), "the header");
}

TEST(ChecksumCursor, GivesTheSameValues_HoweverTheBytesAreCut) {
  std::string bytes = small_file();
  GgufModel model = model_of(bytes);
  ChecksumLayout layout(model);
  std::vector<uint32_t> whole = values_of(model, bytes, bytes.size());
  std::span<const std::byte> all = std::as_bytes(std::span(bytes));
  for (const ChecksumRange& range : layout.ranges())
    for (uint32_t slice = 0; slice < range.slices; slice++)
      EXPECT_EQ(whole[range.first + slice], crc32c_by_table(all.subspan(range.slice_offset(slice), range.slice_bytes)));
  for (size_t piece = 1; piece < 300; piece++) ASSERT_EQ(values_of(model, bytes, piece), whole) << piece;
}

TEST(ChecksumCursor, LeavesOutSlicesThatHaveAGap_AndGoesOnBehindIt) {
  std::string bytes = small_file();
  GgufModel model = model_of(bytes);
  ChecksumLayout layout(model);
  std::vector<uint32_t> whole = values_of(model, bytes, bytes.size());
  std::span<const std::byte> all = std::as_bytes(std::span(bytes));
  for (size_t gap = 0; gap < bytes.size(); gap++) {
    uint64_t found = 0, spoilt = 0;
    ChecksumCursor cursor(layout, [&](const ChecksumRange& range, uint32_t slice, uint32_t crc) {
      ASSERT_EQ(crc, whole[range.first + slice]);
      found++;
    });
    cursor.add(0, 0, all.first(gap));
    cursor.add(0, gap + 1, all.subspan(gap + 1));
    for (const ChecksumRange& range : layout.ranges())
      for (uint32_t s = 0; s < range.slices; s++)
        spoilt += gap >= range.slice_offset(s) && gap < range.slice_offset(s) + range.slice_bytes;
    ASSERT_EQ(found, layout.count() - spoilt) << gap;
  }
}

class SideFile : public ::testing::Test {
 protected:
  Result<ModelChecksums> parse(std::span<const std::byte> bytes) {
    return ModelChecksums::parse("x.crc", bytes, model_);
  }
  void expect_refused(std::span<const std::byte> bytes, const std::string& because) {
    Result<ModelChecksums> parsed = parse(bytes);
    ASSERT_FALSE(parsed.ok()) << because;
    EXPECT_EQ(parsed.error().code, "checksums_invalid");
    EXPECT_EQ(parsed.error().file, "x.crc");
    EXPECT_NE(parsed.error().message.find(because), std::string::npos) << parsed.error().message;
    EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos);
  }
  // Makes the file's own checksum right again after a change.
  static std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
    uint32_t crc = crc32c(std::span(bytes).first(bytes.size() - 4));
    std::memcpy(bytes.data() + bytes.size() - 4, &crc, 4);
    return bytes;
  }

  std::string content_ = small_file();
  GgufModel model_ = model_of(content_);
  std::vector<uint32_t> values_ = values_of(model_, content_, content_.size());
  std::vector<std::byte> good_ = ModelChecksums(ChecksumLayout(model_), values_).serialize();
};

TEST_F(SideFile, ComesBackAsItWasWritten) {
  Result<ModelChecksums> parsed = parse(good_);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  for (const ChecksumRange& range : parsed->layout().ranges())
    for (uint32_t s = 0; s < range.slices; s++) EXPECT_EQ(parsed->value(range, s), values_[range.first + s]);
}

TEST_F(SideFile, IsRefused_WhenCutShortAnywhereOrLonger) {
  for (size_t length = 0; length < good_.size(); length++)
    expect_refused(std::span(good_).first(length), length < 8 ? "not a file of checksums" : "cut short");
  std::vector<std::byte> longer = good_;
  longer.push_back(std::byte{0});
  expect_refused(longer, "damaged");
}

TEST_F(SideFile, IsRefused_WithAnyBitFlipped) {
  for (size_t bit = 0; bit < good_.size() * 8; bit++) {
    std::vector<std::byte> bytes = good_;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    expect_refused(bytes, bit < 64 ? "not a file of checksums" : bit < 96 ? "version" : "damaged");
  }
}

// A head that lies, under a checksum that is right.
TEST_F(SideFile, IsRefused_WhenItDoesNotFitTheModel) {
  for (size_t at = 12; at < 40; at++) {
    std::vector<std::byte> bytes = good_;
    bytes[at] ^= std::byte{0x80};
    expect_refused(sealed(bytes), "another model");
  }
  for (int change : {-4, 4}) {
    std::vector<std::byte> bytes = good_;
    bytes.resize(static_cast<size_t>(static_cast<int>(bytes.size()) + change));
    expect_refused(sealed(bytes), "another model");
  }
  model_ = model_of(small_file(96));
  expect_refused(good_, "another model");
}

TEST_F(SideFile, SaysThatItIsOfAnotherVersion) {
  good_[8] = std::byte{2};
  expect_refused(sealed(good_), "version 2");
}

TEST_F(SideFile, SaysHowToMakeIt_WhenItIsNotThere) {
  Result<ModelChecksums> parsed = ModelChecksums::read("/nonexistent/x.crc", model_);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, "checksums_missing");
  EXPECT_NE(parsed.error().message.find("llmd verify --write"), std::string::npos);
  parsed = ModelChecksums::read("/", model_);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, "file_open");
}

TEST(ChecksumScan, ReadsTheWholeFile_AndFindsOneChangedByteWhereItIs) {
  std::string path = ::testing::TempDir() + "llmd_scan_" + std::to_string(getpid()) + ".gguf";
  std::filesystem::copy_file(demo_path(), path, std::filesystem::copy_options::overwrite_existing);
  Result<GgufModel> model = GgufModel::open(path);
  ASSERT_TRUE(model.ok());
  ChecksumLayout layout(*model);
  ScannedModel before = scan_files(*model);
  EXPECT_EQ(before.found, layout.count());
  EXPECT_EQ(before.bytes, std::filesystem::file_size(path));
  const ChecksumRange& last = layout.ranges().back();
  for (const ChecksumRange& range : {layout.ranges()[0], layout.ranges()[layout.ranges().size() / 2], last}) {
    uint32_t slice = range.slices - 1;
    uint64_t offset = range.slice_offset(slice) + range.slice_bytes - 1;
    flip_byte(path, offset);
    ScannedModel after = scan_files(*model);
    std::vector<uint64_t> changed;
    for (uint64_t i = 0; i < layout.count(); i++)
      if (after.values[i] != before.values[i]) changed.push_back(i);
    EXPECT_EQ(changed, std::vector<uint64_t>{range.first + slice});
    flip_byte(path, offset);
  }
  std::filesystem::remove(path);
}

TEST(ChecksumScan, TellsWhatItCouldNotRead_WhenTheFileEndsEarly) {
  std::string path = ::testing::TempDir() + "llmd_scan_cut_" + std::to_string(getpid()) + ".gguf";
  std::filesystem::copy_file(demo_path(), path, std::filesystem::copy_options::overwrite_existing);
  Result<GgufModel> model = GgufModel::open(path);
  ASSERT_TRUE(model.ok());
  std::vector<DirectFile> files;
  files.push_back(DirectFile::open(path).value());
  Result<std::unique_ptr<Reader>> reader = Reader::create({});
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(truncate(path.c_str(), 6 << 20), 0);
  ChecksumLayout layout(*model);
  uint64_t found = 0;
  std::vector<Error> unreadable;
  scan_model(layout, files, **reader,
             {[&](const ChecksumRange& range, uint32_t slice, uint32_t) {
                found++;
                EXPECT_LE(range.slice_offset(slice) + range.slice_bytes, 6u << 20);
              },
              [&](const Error& error) { unreadable.push_back(error); }, [](uint64_t) {}});
  EXPECT_GT(found, 0u);
  EXPECT_LT(found, layout.count());
  ASSERT_FALSE(unreadable.empty());
  EXPECT_EQ(unreadable[0].code, "model_truncated");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace llmd
