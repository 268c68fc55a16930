// Writes the seed corpus of gguf_fuzz into a folder: small files that use every value type, every tensor type, several
// shards, and the spellings that a fuzzer would take long to find. Run at build time; the seeds are never committed.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/gguf/gguf_builder.h"

namespace llmd::testing {
namespace {

using Type = GgufValueType;

void add_values(GgufBuilder& builder) {
  builder.text("general.architecture", "deepseek2").u32("general.alignment", 64).alignment = 64;
  builder.key("u8", Type::kU8, le<uint8_t>(1)).key("i8", Type::kI8, le<int8_t>(-1)).u16("u16", 2);
  builder.key("i16", Type::kI16, le<int16_t>(-2)).u32("u32", 3).i32("i32", -3);
  builder.key("u64", Type::kU64, le<uint64_t>(UINT64_MAX)).key("i64", Type::kI64, le<int64_t>(-4));
  builder.key("f32", Type::kF32, le(0.1f)).key("f64", Type::kF64, le(2.0)).key("bool", Type::kBool, "\1");
  for (const char* text : {"true", "int:1", "float:1.5", "bool:false", "str:x", "-7", "1e3"}) {
    builder.text(std::string("text.") + text, text);
  }
}

void add_arrays(GgufBuilder& builder) {
  builder.key("a.u8", Type::kArray, le_array(Type::kU8, 3, "abc"));
  builder.key("a.i32", Type::kArray, le_array(Type::kI32, 2, le(1) + le(-1)));
  builder.key("a.u64", Type::kArray, le_array(Type::kU64, 1, le(UINT64_MAX)));
  builder.key("a.f32", Type::kArray, le_array(Type::kF32, 2, le(1.0f) + le(-0.5f)));
  builder.key("a.f64", Type::kArray, le_array(Type::kF64, 1, le(1e300)));
  builder.key("a.bool", Type::kArray, le_array(Type::kBool, 2, std::string("\0\1", 2)));
  builder.key("a.text", Type::kArray, le_array(Type::kString, 2, le_string("") + le_string("\xe2\x96\x81token")));
}

std::string every_tensor_type() {
  GgufBuilder builder;
  for (uint32_t id = 0; id < 64; ++id) {
    const TensorTypeInfo* info = tensor_type_info(id);
    if (info && info->block_elements > 0) builder.tensor({"t" + std::to_string(id), {info->block_elements}, id});
  }
  return builder.build();
}

std::string shard(uint16_t number, uint16_t count, int32_t tensors) {
  GgufBuilder builder;
  builder.split(number, count, tensors);
  return builder.tensor({"t" + std::to_string(number), {8, 2}, 1}).build();
}

std::string as_file(const std::string& bytes) {
  return le(static_cast<uint32_t>(bytes.size())) + bytes;
}

int write_seeds(const std::filesystem::path& folder) {
  GgufBuilder values, arrays, old;
  add_values(values);
  add_arrays(arrays);
  old.version = 2;
  old.tensor({"blk.0.ffn_up_exps.weight", {256, 2, 3}, 12}).tensor({"b", {4}, 0});
  std::pair<const char*, std::string> seeds[] = {
      {"empty", as_file(GgufBuilder().build())},
      {"values", as_file(values.build())},
      {"arrays", as_file(arrays.build())},
      {"version-2", as_file(old.build())},
      {"types", as_file(every_tensor_type())},
      {"split-1", as_file(shard(0, 1, 1))},
      {"split-3", as_file(shard(0, 3, 3)) + as_file(shard(1, 3, 3)) + as_file(shard(2, 3, 3))},
  };
  std::filesystem::create_directories(folder);
  for (const auto& [name, bytes] : seeds) {
    std::ofstream file(folder / name, std::ios::binary);
    file << bytes;
    file.close();
    if (!file.good()) {
      std::fprintf(stderr, "gguf_seeds: cannot write %s\n", (folder / name).c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace llmd::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gguf_seeds FOLDER\n");
    return 1;
  }
  return llmd::testing::write_seeds(argv[1]);
}
