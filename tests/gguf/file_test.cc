// Real files: what the system refuses, the vocabularies at hand, the demo model, and what is left in the page cache.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/gguf/gguf_builder.h"
#include "tests/gguf/temporary_folder.h"

namespace llmd::testing {
namespace {

namespace fs = std::filesystem;

std::string shared_folder() {
  return LLMD_SOURCE_DIR "/../shared/data";
}

TEST(GgufFile, SaysWhy_WhenTheSystemRefuses) {
  TemporaryFolder folder;
  mkfifo(folder.path("pipe").c_str(), 0600);
  for (const auto& [path, reason] :
       std::vector<std::pair<std::string, std::string>>{{folder.path("nothing.gguf"), "No such file"},
                                                        {folder.path(""), "directory"},
                                                        {folder.path("pipe"), "not a regular file"},
                                                        {"/dev/null", "not a regular file"}}) {
    Result<GgufModel> model = GgufModel::open(path);
    ASSERT_FALSE(model.ok()) << path;
    EXPECT_EQ(model.error().code, "file_open");
    EXPECT_EQ(model.error().file, path);
    EXPECT_NE(model.error().message.find(reason), std::string::npos) << model.error().message;
  }
}

TEST(GgufFile, IsInvalid_WhenEmptyOrOnlyMagic) {
  TemporaryFolder folder;
  for (const std::string& bytes : {std::string(), std::string("GGUF"), std::string("GG")}) {
    Result<GgufModel> model = GgufModel::open(folder.write("f.gguf", bytes));
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().code, "gguf_invalid");
  }
}

// A file that says 2^36 bytes long and is a hole: its zeros must not become memory, nor the opening take long.
TEST(GgufFile, ReadsHeadersOnly_WhenTheFileIsHuge) {
  TemporaryFolder folder;
  GgufBuilder builder;
  builder.tensor({"huge", {uint64_t{1} << 34}, 0}).data_bytes = 0;
  std::string bytes = builder.build();
  std::string path = folder.write("f.gguf", bytes);
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(bytes.size() + (uint64_t{1} << 36))), 0);
  Result<GgufModel> model = GgufModel::open(path);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(model->tensors()[0].bytes, uint64_t{1} << 36);

  builder.key("zeros", GgufValueType::kArray, le_array(GgufValueType::kU8, uint64_t{1} << 35, ""));
  path = folder.write("f.gguf", builder.build());
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(uint64_t{1} << 37)), 0);
  model = GgufModel::open(path);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, "gguf_invalid");
}

// Experts of a real size in a sparse file: a marker written at each slice's true place is found through the table.
TEST(GgufFile, FindsExpertSlices_WhenOffsetsExceed32Bits) {
  constexpr uint64_t kFirst = uint64_t{1} << 32, kExperts = 256, kSlice = 2048 * (7168 / 256 * 144);
  TemporaryFolder folder;
  GgufBuilder builder;
  builder.text("general.architecture", "deepseek2").data_bytes = 0;
  const std::string names[] = {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight"};
  for (uint64_t i = 0; i < 3; ++i)
    builder.tensor({names[i], {7168, 2048, kExperts}, 12, kFirst + i * kExperts * kSlice});
  std::string path = folder.write("f.gguf", builder.build());
  uint64_t data = builder.at("data");
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(data + kFirst + 3 * kExperts * kSlice)), 0);
  int fd = open(path.c_str(), O_RDWR);
  auto marker = [](uint64_t matrix, uint64_t expert) { return (matrix << 32 | expert) + 0x6c6c6d64; };
  for (uint64_t i = 0; i < 3 * kExperts; ++i) {
    uint64_t mark = marker(i / kExperts, i % kExperts);
    ASSERT_EQ(pwrite(fd, &mark, 8, static_cast<off_t>(data + kFirst + i * kSlice)), 8);
  }
  Result<GgufModel> model = GgufModel::open(path);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  for (uint64_t matrix = 0; matrix < 3; ++matrix) {
    const GgufTensor& tensor = *model->find_tensor(names[matrix]);
    for (uint64_t expert : {uint64_t{0}, uint64_t{1}, uint64_t{137}, kExperts - 1}) {
      uint64_t slice = tensor.bytes / tensor.dims[2];
      EXPECT_EQ(slice, tensor_row_bytes(tensor.type, tensor.dims[0]) * tensor.dims[1]);
      uint64_t found = 0;
      ASSERT_EQ(pread(fd, &found, 8, static_cast<off_t>(tensor.file_offset + expert * slice)), 8);
      EXPECT_EQ(found, marker(matrix, expert));
    }
  }
  close(fd);
}

TEST(GgufFile, LeavesNothingInThePageCache) {
  TemporaryFolder folder;
  GgufBuilder builder;
  builder.text("long", std::string(3 << 20, 'x')).tensor({"t", {1 << 20}, 0});
  std::string path = folder.write("f.gguf", builder.build());
  struct statfs system {};
  ASSERT_EQ(statfs(path.c_str(), &system), 0);
  if (system.f_type == 0x01021994) GTEST_SKIP() << "SKIPPED: the temporary folder is a tmpfs, all of it is page cache";
  int fd = open(path.c_str(), O_RDONLY);
  ASSERT_EQ(fsync(fd), 0);  // dirty pages cannot be dropped
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ASSERT_TRUE(GgufModel::open(path).ok());
  size_t bytes = fs::file_size(path);
  void* map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(map, MAP_FAILED);
  std::vector<unsigned char> resident((bytes + 4095) / 4096);
  ASSERT_EQ(mincore(map, bytes, resident.data()), 0);
  munmap(map, bytes);
  close(fd);
  EXPECT_EQ(std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }), 0);
}

TEST(GgufFile, OpensEveryVocabularyAtHand) {
  std::string folder = shared_folder() + "/vocab";
  if (!fs::exists(folder)) GTEST_SKIP() << "SKIPPED: no reference data at " << folder;
  int opened = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    Result<GgufModel> model = GgufModel::open(entry.path().string());
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    const GgufArray* tokens = model->get_array("tokenizer.ggml.tokens");
    ASSERT_NE(tokens, nullptr) << entry.path();
    EXPECT_GT(std::get<std::vector<std::string>>(tokens->items).size(), 10000u) << entry.path();
    EXPECT_NE(model->get_string("general.architecture"), nullptr);
    ++opened;
  }
  EXPECT_GE(opened, 10);
}

TEST(GgufFile, OpensTheDemoModel) {
  std::string path = shared_folder() + "/demo/llmd-demo.gguf";
  if (!fs::exists(path)) GTEST_SKIP() << "SKIPPED: no reference data at " << path;
  Result<GgufModel> model = GgufModel::open(path);
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(*model->get_string("general.architecture"), "deepseek2");
  const GgufTensor* embedding = model->find_tensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->dims[0], model->get_u64("deepseek2.embedding_length"));
  uint64_t end = 0;
  for (const GgufTensor& tensor : model->tensors()) end = std::max(end, tensor.file_offset + tensor.bytes);
  EXPECT_LE(end, model->shards()[0].file_bytes);
  EXPECT_GT(end + 32, model->shards()[0].file_bytes) << "the table accounts for the whole file";
}

}  // namespace
}  // namespace llmd::testing
