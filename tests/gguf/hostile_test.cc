// Files that lie: the hand-made cases of other GGUF readers' tests, and the triggers of published CVEs. Each must be
// the error "gguf_invalid" that names the offset of the lie and the reason, without a large allocation.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "tests/gguf/gguf_builder.h"

namespace llmd::testing {
namespace {

using Type = GgufValueType;

constexpr uint64_t k2to63 = uint64_t{1} << 63;

struct HostileCase {
  std::string name;
  std::function<void(GgufBuilder&)> lie;
  std::string part;    // where the error must point
  std::string reason;  // what its message must contain
};

void PrintTo(const HostileCase& hostile, std::ostream* out) {
  *out << hostile.name;
}

TensorSpec f32(std::string name, std::vector<uint64_t> dims) {
  return {std::move(name), std::move(dims), 0};
}

std::string raw(uint32_t number) {
  return le(number);
}

const std::vector<HostileCase>& hostile_cases() {
  static const std::vector<HostileCase> cases = {
      // Header.
      {"BadMagic", [](GgufBuilder& b) { b.magic = "GGML"; }, "magic", "not a GGUF file"},
      {"Version0", [](GgufBuilder& b) { b.version = 0; }, "version", "version 0 is obsolete"},
      {"Version1", [](GgufBuilder& b) { b.version = 1; }, "version", "version 1 is obsolete"},
      {"VersionFuture", [](GgufBuilder& b) { b.version = 4; }, "version", "newer"},
      {"BigEndian", [](GgufBuilder& b) { b.version = 0x03000000; }, "version", "big-endian"},
      {"TensorCountTooLarge", [](GgufBuilder& b) { b.tensor_count = 1000; }, "tensor_count", "tensor count, 1000"},
      {"TensorCountNegative", [](GgufBuilder& b) { b.tensor_count = UINT64_MAX; }, "tensor_count", "tensor count"},
      {"TensorCountWrapsAsSize", [](GgufBuilder& b) { b.tensor_count = UINT64_MAX / 33 + 1; }, "tensor_count",
       "tensor count"},
      {"KeyCountTooLarge", [](GgufBuilder& b) { b.key_count = 1000; }, "key_count", "key count, 1000"},
      {"KeyCountNegative", [](GgufBuilder& b) { b.key_count = k2to63; }, "key_count", "key count"},
      // Keys.
      {"KeyNameTooLong", [](GgufBuilder& b) { b.raw_key(le<uint64_t>(k2to63) + "k", 4, raw(1)); }, "key 1",
       "name of key 1"},
      {"KeyNameAboveLimit", [](GgufBuilder& b) { b.key(std::string(70000, 'k'), Type::kU32, raw(1)); }, "key 1",
       "limit of 65535"},
      {"KeyNameEmpty", [](GgufBuilder& b) { b.u32("", 1); }, "key 1", "empty name"},
      {"KeyNameNotUtf8", [](GgufBuilder& b) { b.u32("a\xff", 1); }, "key 1", "UTF-8"},
      {"KeyNameOverlongUtf8", [](GgufBuilder& b) { b.u32("a\xc0\xaf", 1); }, "key 1", "UTF-8"},
      {"KeyNameOverlongUtf8OfThree", [](GgufBuilder& b) { b.u32("a\xe0\x80\xaf", 1); }, "key 1", "UTF-8"},
      {"KeyNameOverlongUtf8OfFour", [](GgufBuilder& b) { b.u32("a\xf0\x80\x80\xaf", 1); }, "key 1", "UTF-8"},
      {"KeyNameAboveUnicode", [](GgufBuilder& b) { b.u32("a\xf4\x90\x80\x80", 1); }, "key 1", "UTF-8"},
      {"KeyNameSurrogateUtf8", [](GgufBuilder& b) { b.u32("a\xed\xa0\x80", 1); }, "key 1", "UTF-8"},
      {"KeyNameCutUtf8", [](GgufBuilder& b) { b.u32("a\xf0\x9f\x98", 1); }, "key 1", "UTF-8"},
      {"KeyNameWithNul", [](GgufBuilder& b) { b.u32(std::string("a\0b", 3), 1); }, "key 1", "UTF-8"},
      {"KeyTwice", [](GgufBuilder& b) { b.u32("twin", 1).u32("twin", 2); }, "key 2", "'twin' occurs twice"},
      {"ValueTypeUnknown", [](GgufBuilder& b) { b.raw_key(le_string("k"), 13, raw(1)); }, "key 1 type",
       "unknown value type 13"},
      {"ValueTypeNegative", [](GgufBuilder& b) { b.raw_key(le_string("k"), UINT32_MAX, raw(1)); }, "key 1 type",
       "unknown value type"},
      {"BoolNeither0Nor1", [](GgufBuilder& b) { b.key("k", Type::kBool, "\x02"); }, "key 1 value", "bool is 2"},
      {"StringOf2To63Bytes", [](GgufBuilder& b) { b.key("k", Type::kString, le<uint64_t>(k2to63)); }, "key 1 value",
       "9223372036854775808 bytes, is more than the rest"},
      {"StringLengthWraps", [](GgufBuilder& b) { b.key("k", Type::kString, le<uint64_t>(UINT64_MAX)); }, "key 1 value",
       "more than the rest"},
      {"StringAboveLimit",
       [](GgufBuilder& b) {
         b.key("k", Type::kString, le<uint64_t>((16u << 20) + 1));
         b.data_bytes = 17u << 20;
       },
       "key 1 value", "limit of 16777216"},
      {"ArrayNested", [](GgufBuilder& b) { b.key("k", Type::kArray, le_array(Type::kArray, 1, raw(4))); },
       "key 1 value", "arrays of arrays"},
      {"ArrayTypeUnknown", [](GgufBuilder& b) { b.key("k", Type::kArray, le_array(static_cast<Type>(99), 1, raw(4))); },
       "key 1 value", "unknown array element type 99"},
      // CVE-2024-21802 and its siblings, CVE-2024-39720, and the array of 2^63 in 40 bytes.
      {"ArrayOf2To63", [](GgufBuilder& b) { b.key("k", Type::kArray, le_array(Type::kU8, k2to63, "")); },
       "key 1 value+4", "array length"},
      {"ArrayBytesWrap", [](GgufBuilder& b) { b.key("k", Type::kArray, le_array(Type::kU64, uint64_t{1} << 61, "")); },
       "key 1 value+4", "array length"},
      {"ArrayOfStringsTooLong", [](GgufBuilder& b) { b.key("k", Type::kArray, le_array(Type::kString, 1 << 20, "")); },
       "key 1 value+4", "array length"},
      {"ArrayStringTooLong",
       [](GgufBuilder& b) {
         b.key("k", Type::kArray, le_array(Type::kString, 2, le_string("a") + le<uint64_t>(1000000)));
       },
       "key 1 value+21", "more than the rest"},
      {"AlignmentZero", [](GgufBuilder& b) { b.u32("general.alignment", 0); }, "key 1 type", "alignment is 0"},
      {"AlignmentNotPowerOfTwo", [](GgufBuilder& b) { b.u32("general.alignment", 33); }, "key 1 type",
       "alignment is 33"},
      {"AlignmentTooSmall", [](GgufBuilder& b) { b.u32("general.alignment", 4); }, "key 1 type", "alignment is 4"},
      {"Alignment2To30", [](GgufBuilder& b) { b.u32("general.alignment", 1 << 30); }, "key 1 type",
       "alignment is 1073741824"},
      {"AlignmentOfWrongType", [](GgufBuilder& b) { b.key("general.alignment", Type::kU64, le<uint64_t>(32)); },
       "key 1 type", "not of type u32"},
      {"AlignmentAsString", [](GgufBuilder& b) { b.text("general.alignment", "32"); }, "key 1 type", "not of type u32"},
      // Tensors.
      {"TensorNameTooLong", [](GgufBuilder& b) { b.tensor(f32(std::string(65, 'n'), {4})); }, "tensor 0",
       "limit of 64"},
      {"TensorNameLengthLies",
       [](GgufBuilder& b) {
         TensorSpec spec = f32("t", {4});
         spec.name_length = k2to63;
         b.tensor(spec);
       },
       "tensor 0", "more than the rest"},
      {"TensorNameEmpty", [](GgufBuilder& b) { b.tensor(f32("", {4})); }, "tensor 0", "empty name"},
      {"TensorNameWithNul", [](GgufBuilder& b) { b.tensor(f32(std::string("a\0b", 3), {4})); }, "tensor 0", "UTF-8"},
      {"TensorTwice", [](GgufBuilder& b) { b.tensor(f32("t", {4})).tensor(f32("t", {4})); }, "tensor 1",
       "'t' occurs twice"},
      {"NoDims", [](GgufBuilder& b) { b.tensor(f32("t", {})).data_bytes = 64; }, "tensor 0 n_dims", "0 dims"},
      {"FiveDims",
       [](GgufBuilder& b) {
         b.tensor(f32("t", {1, 1, 1, 1, 1}));
       },
       "tensor 0 n_dims", "5 dims"},
      {"ManyDims",
       [](GgufBuilder& b) {
         TensorSpec spec = f32("t", {4});
         spec.n_dims = UINT32_MAX;
         b.tensor(spec);
       },
       "tensor 0 n_dims", "4294967295 dims"},
      {"ZeroDim",
       [](GgufBuilder& b) {
         b.tensor(f32("t", {4, 0}));
       },
       "tensor 0 dim 1", "dim 1 is zero"},
      {"NegativeDim", [](GgufBuilder& b) { b.tensor(f32("t", {UINT64_MAX})); }, "tensor 0 dim 0", "2^48"},
      {"ElementsAbove2To48",
       [](GgufBuilder& b) {
         b.tensor(f32("t", {1 << 25, 1 << 25}));
       },
       "tensor 0 dim 1", "2^48"},
      {"ElementsWrapTo0",
       [](GgufBuilder& b) {
         b.tensor(f32("t", {uint64_t{1} << 32, uint64_t{1} << 32}));
       },
       "tensor 0 dim 1", "2^48"},
      // CVE-2026-33298: the byte count wraps to a few MB.
      {"BytesWrapToFew",
       [](GgufBuilder& b) {
         b.tensor(f32("t", {1024, 1024, (uint64_t{1} << 42) + 1}));
       },
       "tensor 0 dim 2", "2^48"},
      {"TypeRemoved",
       [](GgufBuilder& b) {
         b.tensor({"t", {256}, 4});
       },
       "tensor 0 type", "unknown tensor type 4"},
      {"TypeUnknown",
       [](GgufBuilder& b) {
         b.tensor({"t", {256}, 1000});
       },
       "tensor 0 type", "unknown tensor type 1000"},
      {"TypeNegative",
       [](GgufBuilder& b) {
         b.tensor({"t", {256}, UINT32_MAX});
       },
       "tensor 0 type", "unknown tensor type 4294967295"},
      {"TypeOfIkLlama",
       [](GgufBuilder& b) {
         b.tensor({"blk.0.ffn_up.weight", {256}, 139});
       },
       "tensor 0 type",
       "tensor 'blk.0.ffn_up.weight': its type 139, IQ4_K, is not supported: this file was made for ik_llama.cpp"},
      {"TypeInterleaved",
       [](GgufBuilder& b) {
         b.tensor({"t", {256}, 212});
       },
       "tensor 0 type", "ik_llama.cpp"},
      {"RowNotMultipleOfBlock",
       [](GgufBuilder& b) {
         b.tensor({"t", {288, 8}, 12});
       },
       "tensor 0 type", "256-element blocks of Q4_K"},
      {"RowShorterThanBlock",
       [](GgufBuilder& b) {
         b.tensor({"t", {16, 16}, 8});
       },
       "tensor 0 type", "32-element blocks of Q8_0"},
      {"OffsetNotAligned",
       [](GgufBuilder& b) {
         b.tensor({"t", {4}, 0, 16}).data_bytes = 64;
       },
       "tensor 0 offset", "not a multiple"},
      // CVE-2026-7482: offset + size beyond the file; CVE-2025-53630 and CVE-2026-27940: the sum wraps.
      {"OffsetBeyondFile",
       [](GgufBuilder& b) {
         b.tensor({"t", {4}, 0, 1 << 20});
       },
       "tensor 0 offset", "end beyond the file"},
      {"OffsetPlusSizeWraps",
       [](GgufBuilder& b) {
         b.tensor({"t", {32}, 0, UINT64_MAX - 31});
       },
       "tensor 0 offset", "end beyond the file"},
      {"SizesSumToMoreThan64Bits",
       [](GgufBuilder& b) {
         for (int i = 0; i < 8; ++i) b.tensor({"t" + std::to_string(i), {uint64_t{1} << 48}, 28, uint64_t{0}});
       },
       "tensor 0 offset", "end beyond the file"},
      {"DataMissing", [](GgufBuilder& b) { b.tensor(f32("t", {64})).data_bytes = 0; }, "tensor 0 offset",
       "end beyond the file"},
      {"DataOneByteShort", [](GgufBuilder& b) { b.tensor(f32("t", {64})).data_bytes = 255; }, "tensor 0 offset",
       "end beyond the file"},
      {"AlignmentOfFileNotKept",
       [](GgufBuilder& b) {
         b.u32("general.alignment", 64).tensor(f32("a", {4})).tensor({"b", {4}, 0, 32});
       },
       "tensor 1 offset", "64-byte alignment"},
      {"TensorsOverlap",
       [](GgufBuilder& b) {
         b.tensor(f32("a", {16})).tensor({"b", {4}, 0, 32}).data_bytes = 256;
       },
       "tensor 1 offset", "'b' overlaps tensor 'a'"},
      {"TensorsOverlapOutOfOrder",
       [](GgufBuilder& b) {
         b.tensor({"a", {4}, 0, 32}).tensor({"b", {16}, 0, uint64_t{0}}).data_bytes = 256;
       },
       "tensor 0 offset", "'a' overlaps tensor 'b'"},
      {"TensorsAtOnePlace",
       [](GgufBuilder& b) {
         b.tensor({"a", {4}, 0, uint64_t{0}}).tensor({"b", {4}, 0, uint64_t{0}});
       },
       "", "overlaps"},
  };
  return cases;
}

class HostileGguf : public ::testing::TestWithParam<HostileCase> {};

// "key 1 value+4" is four bytes after "key 1 value".
uint64_t expected_offset(const GgufBuilder& builder, const std::string& part) {
  size_t plus = part.find('+');
  if (plus == std::string::npos) return builder.at(part);
  return builder.at(part.substr(0, plus)) + std::stoull(part.substr(plus + 1));
}

TEST_P(HostileGguf, IsRefusedWithOffsetAndReason) {
  GgufBuilder builder;
  builder.text("general.architecture", "llama");
  GetParam().lie(builder);
  Result<GgufModel> model = read_gguf(builder.build());
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, "gguf_invalid");
  EXPECT_EQ(model.error().kind, ErrorKind::kOperating);
  EXPECT_EQ(model.error().file, "memory.gguf");
  EXPECT_NE(model.error().message.find(GetParam().reason), std::string::npos) << model.error().message;
  ASSERT_TRUE(model.error().offset.has_value());
  if (GetParam().part.empty()) return;
  EXPECT_EQ(*model.error().offset, expected_offset(builder, GetParam().part));
}

INSTANTIATE_TEST_SUITE_P(Checklist, HostileGguf, ::testing::ValuesIn(hostile_cases()),
                         [](const auto& test) { return test.param.name; });

// A good file cut after every byte: an error each time, never a crash, and the whole file is accepted.
TEST(Gguf, IsRefused_WhenCutAnywhere) {
  GgufBuilder builder;
  builder.text("general.architecture", "llama").u32("llama.block_count", 1);
  builder.key("tokens", Type::kArray, le_array(Type::kString, 2, le_string("a") + le_string("bc")));
  builder.key("scores", Type::kArray, le_array(Type::kF32, 2, le(1.0f) + le(2.0f)));
  builder.key("flags", Type::kArray, le_array(Type::kBool, 2, std::string("\0\1", 2)));
  builder.tensor({"a", {32, 2}, 8}).tensor(f32("b", {3}));
  std::string whole = builder.build();
  whole.resize(builder.at("data") + 96 + 12);  // the padding after the last tensor is not needed
  ASSERT_TRUE(read_gguf(whole).ok()) << read_gguf(whole).error().to_string();
  for (size_t length = 0; length < whole.size(); ++length) {
    Result<GgufModel> model = read_gguf(whole.substr(0, length));
    ASSERT_FALSE(model.ok()) << length;
    EXPECT_EQ(model.error().code, "gguf_invalid");
    ASSERT_TRUE(model.error().offset.has_value());
    EXPECT_LE(*model.error().offset, length);
  }
}

// Each byte of a header in turn set to extremes: any answer is right but a crash.
TEST(Gguf, Survives_WhenAnyHeaderByteIsChanged) {
  GgufBuilder builder;
  builder.text("general.architecture", "llama").u32("general.alignment", 32);
  builder.key("tokens", Type::kArray, le_array(Type::kString, 2, le_string("a") + le_string("bc")));
  builder.tensor({"a", {32, 2}, 8}).tensor(f32("b", {3}));
  std::string whole = builder.build();
  for (size_t i = 0; i < builder.at("data"); ++i) {
    for (unsigned value : {0x00u, 0x01u, 0x7fu, 0x80u, 0xffu}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      Result<GgufModel> model = read_gguf(changed);
      EXPECT_TRUE(model.ok() || model.error().code == "gguf_invalid");
    }
  }
}

TEST(Gguf, NamesTheKey_WhenItsValueIsBad) {
  GgufBuilder builder;
  builder.key("tokenizer.ggml.add_bos_token", Type::kBool, "\x07");
  Result<GgufModel> model = read_gguf(builder.build());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("key 'tokenizer.ggml.add_bos_token'"), std::string::npos);
}

// A name goes into logs and terminals: no control bytes, no endless line.
TEST(Gguf, EscapesNamesInMessages) {
  GgufBuilder builder;
  builder.u32("a\x1b[2J\n" + std::string(1000, 'x'), 1).u32("a\x1b[2J\n" + std::string(1000, 'x'), 1);
  Result<GgufModel> model = read_gguf(builder.build());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("a\\x1b[2J\\x0a"), std::string::npos) << model.error().message;
  EXPECT_LT(model.error().message.size(), 200u);
}

// Bytes become integers of 8 bytes, so 70 MiB of file could ask for 560 MiB of memory: refused before it is allocated.
TEST(Gguf, IsRefused_WhenMetadataNeedsTooMuchMemory) {
  GgufBuilder builder;
  builder.key("k", Type::kArray, le_array(Type::kU8, 70u << 20, ""));
  builder.data_bytes = 70u << 20;
  Result<GgufModel> model = read_gguf(builder.build());
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("512 MiB"), std::string::npos) << model.error().message;
}

}  // namespace
}  // namespace llmd::testing
