// What a good file gives: values of every type, tensor geometry and places, liberal getters, overrides.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/gguf/gguf_builder.h"

namespace llmd::testing {
namespace {

using Type = GgufValueType;

GgufModel must_read(GgufBuilder& builder) {
  Result<GgufModel> model = read_gguf(builder.build());
  if (!model.ok()) ADD_FAILURE() << model.error().to_string();
  return model.ok() ? std::move(model).value() : GgufModel();
}

TEST(Gguf, ReadsEveryValueType) {
  GgufBuilder builder;
  builder.key("u8", Type::kU8, le<uint8_t>(200)).key("i8", Type::kI8, le<int8_t>(-100));
  builder.key("u16", Type::kU16, le<uint16_t>(60000)).key("i16", Type::kI16, le<int16_t>(-30000));
  builder.key("u32", Type::kU32, le<uint32_t>(4000000000)).key("i32", Type::kI32, le<int32_t>(-2000000000));
  builder.key("u64", Type::kU64, le<uint64_t>(UINT64_MAX)).key("i64", Type::kI64, le<int64_t>(INT64_MIN));
  builder.key("f32", Type::kF32, le(1.5f)).key("f64", Type::kF64, le(-2.25));
  builder.key("yes", Type::kBool, "\x01").key("no", Type::kBool, std::string(1, '\0'));
  builder.text("text", "h\xc3\xa9llo").text("empty", "");
  GgufModel model = must_read(builder);
  auto integer = [&](std::string_view key) { return std::get<int64_t>(model.find(key)->value); };
  EXPECT_EQ(integer("u8"), 200);
  EXPECT_EQ(integer("i8"), -100);
  EXPECT_EQ(integer("u16"), 60000);
  EXPECT_EQ(integer("i16"), -30000);
  EXPECT_EQ(integer("u32"), 4000000000);
  EXPECT_EQ(integer("i32"), -2000000000);
  EXPECT_EQ(model.get_u64("u64"), UINT64_MAX);
  EXPECT_EQ(integer("i64"), INT64_MIN);
  EXPECT_EQ(model.get_f64("f32"), 1.5);
  EXPECT_EQ(model.get_f64("f64"), -2.25);
  EXPECT_EQ(model.get_bool("yes"), true);
  EXPECT_EQ(model.get_bool("no"), false);
  EXPECT_EQ(*model.get_string("text"), "h\xc3\xa9llo");
  EXPECT_EQ(*model.get_string("empty"), "");
  EXPECT_EQ(model.find("u16")->type, Type::kU16);
  EXPECT_EQ(model.metadata().size(), 14u);
}

TEST(Gguf, ReadsArraysOfEveryElementType) {
  GgufBuilder builder;
  builder.key("u8", Type::kArray, le_array(Type::kU8, 2, "\x01\xff"));
  builder.key("i16", Type::kArray, le_array(Type::kI16, 2, le<int16_t>(-1) + le<int16_t>(5)));
  builder.key("i32", Type::kArray, le_array(Type::kI32, 2, le<int32_t>(-7) + le<int32_t>(7)));
  builder.key("u64", Type::kArray, le_array(Type::kU64, 1, le<uint64_t>(UINT64_MAX)));
  builder.key("f32", Type::kArray, le_array(Type::kF32, 2, le(0.5f) + le(-1000.0f)));
  builder.key("f64", Type::kArray, le_array(Type::kF64, 1, le(0.1)));
  builder.key("bool", Type::kArray, le_array(Type::kBool, 3, std::string("\1\0\1", 3)));
  builder.key("text", Type::kArray, le_array(Type::kString, 2, le_string("") + le_string("a longer piece of text")));
  builder.key("none", Type::kArray, le_array(Type::kString, 0, ""));
  GgufModel model = must_read(builder);
  auto integers = [&](std::string_view key) { return std::get<std::vector<int64_t>>(model.get_array(key)->items); };
  EXPECT_EQ(integers("u8"), (std::vector<int64_t>{1, 255}));
  EXPECT_EQ(integers("i16"), (std::vector<int64_t>{-1, 5}));
  EXPECT_EQ(integers("i32"), (std::vector<int64_t>{-7, 7}));
  EXPECT_EQ(integers("u64"), (std::vector<int64_t>{-1}));
  EXPECT_EQ(integers("bool"), (std::vector<int64_t>{1, 0, 1}));
  auto floats = [&](std::string_view key) { return std::get<std::vector<double>>(model.get_array(key)->items); };
  EXPECT_EQ(floats("f32"), (std::vector<double>{0.5, -1000}));
  EXPECT_EQ(floats("f64"), (std::vector<double>{0.1}));
  EXPECT_EQ(std::get<std::vector<std::string>>(model.get_array("text")->items),
            (std::vector<std::string>{"", "a longer piece of text"}));
  EXPECT_EQ(model.get_array("none")->size(), 0u);
  EXPECT_EQ(model.get_array("u8")->element_type, Type::kU8);
}

// Longer than the window that the file is read through, so items straddle its borders.
TEST(Gguf, ReadsStringArrays_WhenLargerThanTheWindow) {
  constexpr int kCount = 150000;
  std::string items;
  for (int i = 0; i < kCount; ++i) items += le_string("token-" + std::to_string(i * 7919));
  GgufBuilder builder;
  builder.key("tokens", Type::kArray, le_array(Type::kString, kCount, items)).text("long", std::string(1 << 20, 'z'));
  GgufModel model = must_read(builder);
  const auto& tokens = std::get<std::vector<std::string>>(model.get_array("tokens")->items);
  ASSERT_EQ(tokens.size(), static_cast<size_t>(kCount));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(tokens[static_cast<size_t>(i)], "token-" + std::to_string(i * 7919));
  EXPECT_EQ(*model.get_string("long"), std::string(1 << 20, 'z'));
}

TEST(Gguf, ReadsVersions2And3) {
  for (uint32_t version : {2u, 3u}) {
    GgufBuilder builder;
    builder.version = version;
    builder.text("general.architecture", "llama");
    EXPECT_EQ(must_read(builder).shards().at(0).version, version);
  }
}

TEST(Gguf, OpensFilesWithNothingInThem) {
  GgufBuilder builder;
  GgufModel model = must_read(builder);
  EXPECT_TRUE(model.tensors().empty());
  EXPECT_TRUE(model.metadata().empty());
  EXPECT_EQ(model.shards().at(0).file_bytes, 24u);
}

TEST(Gguf, PlacesTensors) {
  GgufBuilder builder;
  builder.u32("general.alignment", 128).alignment = 128;
  builder.tensor({"experts", {512, 4, 3}, 12}).tensor({"norm", {5}, 0}).tensor({"half", {64, 2, 1, 2}, 1});
  std::string bytes = builder.build();
  GgufModel model = must_read(builder);
  ASSERT_EQ(model.tensors().size(), 3u);
  const GgufTensor& experts = *model.find_tensor("experts");
  EXPECT_EQ(experts.type, TensorType::kQ4_K);
  EXPECT_EQ(experts.n_dims, 3u);
  EXPECT_EQ(experts.dims, (std::array<uint64_t, 4>{512, 4, 3, 1}));
  EXPECT_EQ(experts.bytes, 512u / 256 * 144 * 4 * 3);
  EXPECT_EQ(experts.file_offset, builder.at("data"));
  EXPECT_EQ(experts.file_offset % 128, 0u);
  const GgufTensor& norm = *model.find_tensor("norm");
  EXPECT_EQ(norm.bytes, 20u);
  EXPECT_EQ(norm.file_offset, builder.at("data") + (experts.bytes + 127) / 128 * 128);
  EXPECT_EQ(model.find_tensor("half")->bytes, 64u * 2 * 2 * 2);
  EXPECT_EQ(model.find_tensor("half")->element_count(), 256u);
  EXPECT_EQ(model.find_tensor("nothing"), nullptr);
  EXPECT_EQ(model.shards().at(0).data_start, builder.at("data"));
  EXPECT_EQ(model.shards().at(0).file_bytes, bytes.size());
}

TEST(Gguf, AcceptsTensorsOutOfOrderAndWithGaps) {
  GgufBuilder builder;
  builder.tensor({"late", {8}, 0, 4096}).tensor({"early", {8}, 0, uint64_t{0}}).data_bytes = 4096 + 32;
  GgufModel model = must_read(builder);
  EXPECT_EQ(model.find_tensor("late")->file_offset, builder.at("data") + 4096);
  EXPECT_EQ(model.find_tensor("early")->file_offset, builder.at("data"));
}

TEST(Gguf, AcceptsEveryTypeOfKnownGeometry) {
  for (uint32_t id = 0; id < 64; ++id) {
    const TensorTypeInfo* info = tensor_type_info(id);
    if (!info || info->block_elements == 0) continue;
    GgufBuilder builder;
    builder.tensor({"t", {info->block_elements * 2, 3}, id});
    GgufModel model = must_read(builder);
    ASSERT_EQ(model.tensors().size(), 1u) << info->name;
    EXPECT_EQ(model.tensors()[0].bytes, uint64_t{info->block_bytes} * 6) << info->name;
    EXPECT_EQ(model.tensors()[0].type_id, id);
  }
}

TEST(GgufGetters, AreLiberalAboutKinds) {
  GgufBuilder builder;
  builder.key("i8", Type::kI8, le<int8_t>(5)).key("negative", Type::kI32, le<int32_t>(-1));
  builder.key("whole", Type::kF32, le(40.0f)).key("half", Type::kF32, le(0.5f)).key("yes", Type::kBool, "\1");
  builder.key("nan", Type::kF32, le(NAN)).key("huge", Type::kF64, le(1e300)).text("text", "7");
  builder.key("u64", Type::kU64, le<uint64_t>(1) + "").u32("one", 1).u32("two", 2);
  GgufModel model = must_read(builder);
  EXPECT_EQ(model.get_u64("i8"), 5u);
  EXPECT_EQ(model.get_f64("i8"), 5.0);
  EXPECT_EQ(model.get_u64("negative"), std::nullopt);
  EXPECT_EQ(model.get_f64("negative"), -1.0);
  EXPECT_EQ(model.get_u64("whole"), 40u);
  EXPECT_EQ(model.get_u64("half"), std::nullopt);
  EXPECT_EQ(model.get_u64("nan"), std::nullopt);
  EXPECT_EQ(model.get_u64("huge"), std::nullopt);
  EXPECT_EQ(model.get_u64("yes"), 1u);
  EXPECT_EQ(model.get_u64("text"), std::nullopt);
  EXPECT_EQ(model.get_f64("text"), std::nullopt);
  EXPECT_EQ(model.get_bool("one"), true);
  EXPECT_EQ(model.get_bool("two"), std::nullopt);
  EXPECT_EQ(model.get_string("one"), nullptr);
  EXPECT_EQ(model.get_array("one"), nullptr);
  EXPECT_EQ(model.get_u64("absent"), std::nullopt);
  EXPECT_EQ(model.find("absent"), nullptr);
}

TEST(GgufGetters, ReadPerLayerKeys_AsScalarOrArray) {
  GgufBuilder builder;
  builder.u32("scalar", 8).key("list", Type::kArray, le_array(Type::kI32, 2, le<int32_t>(3) + le<int32_t>(-4)));
  builder.key("floats", Type::kArray, le_array(Type::kF32, 2, le(10.0f) + le(0.5f)));
  builder.key("texts", Type::kArray, le_array(Type::kString, 1, le_string("1")));
  GgufModel model = must_read(builder);
  EXPECT_EQ(model.get_u64_at("scalar", 1000), 8u);
  EXPECT_EQ(model.get_u64_at("list", 0), 3u);
  EXPECT_EQ(model.get_u64_at("list", 1), std::nullopt);
  EXPECT_EQ(model.get_u64_at("list", 2), std::nullopt);
  EXPECT_EQ(model.get_u64_at("floats", 0), 10u);
  EXPECT_EQ(model.get_u64_at("floats", 1), std::nullopt);
  EXPECT_EQ(model.get_u64_at("texts", 0), std::nullopt);
  EXPECT_EQ(model.get_u64_at("absent", 0), std::nullopt);
}

TEST(GgufOverride, GuessesTheKind) {
  GgufModel model;
  for (const char* text : {"a=true", "b=42", "c=-7", "d=0.5", "e=hello=world", "f=", "g=1e3", "h=inf",
                           "i=18446744073709551615", "j=12x"}) {
    ASSERT_TRUE(model.override_kv(text).ok()) << text;
  }
  EXPECT_EQ(model.find("a")->type, Type::kBool);
  EXPECT_EQ(model.get_bool("a"), true);
  EXPECT_EQ(model.get_u64("b"), 42u);
  EXPECT_EQ(model.get_f64("c"), -7.0);
  EXPECT_EQ(model.find("d")->type, Type::kF64);
  EXPECT_EQ(*model.get_string("e"), "hello=world");
  EXPECT_EQ(*model.get_string("f"), "");
  EXPECT_EQ(model.get_f64("g"), 1000.0);
  EXPECT_EQ(*model.get_string("h"), "inf");
  EXPECT_EQ(model.get_u64("i"), UINT64_MAX);
  EXPECT_EQ(*model.get_string("j"), "12x");
}

TEST(GgufOverride, ObeysThePrefix) {
  GgufModel model;
  for (const char* text : {"a=str:42", "b=float:2", "c=bool:false", "d=int:9"}) {
    ASSERT_TRUE(model.override_kv(text).ok()) << text;
  }
  EXPECT_EQ(*model.get_string("a"), "42");
  EXPECT_EQ(model.find("b")->type, Type::kF64);
  EXPECT_EQ(model.get_bool("c"), false);
  EXPECT_EQ(model.find("d")->type, Type::kI64);
}

TEST(GgufOverride, ReplacesWhatTheFileSays) {
  GgufBuilder builder;
  builder.u32("llama.block_count", 32);
  GgufModel model = must_read(builder);
  ASSERT_TRUE(model.override_kv("llama.block_count=16").ok());
  EXPECT_EQ(model.get_u64("llama.block_count"), 16u);
}

TEST(GgufOverride, IsRefused_WhenMalformed) {
  GgufModel model;
  for (const char* text : {"", "key", "=1", "k=int:x", "k=int:1.5", "k=float:y", "k=float:nan", "k=bool:1", "k\xff=1",
                           "general.alignment=64", "split.count=2"}) {
    Status status = model.override_kv(text);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.error().code, "invalid_override");
    EXPECT_EQ(status.error().kind, ErrorKind::kClient);
  }
  EXPECT_TRUE(model.metadata().empty());
}

}  // namespace
}  // namespace llmd::testing
