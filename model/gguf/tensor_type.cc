#include "model/gguf/tensor_type.h"

#include <algorithm>
#include <iterator>

#include "io/check.h"

namespace llmd {
namespace {

// Ascending id. Removed types (4, 5, 31-33, 36-38 of the main line) have no entry but those a fork reuses.
constexpr TensorTypeInfo kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {36, "I2_S", 0, 0},
    {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
    {97, "Q8_0_X4", 0, 0},    {98, "Q8_1_X4", 0, 0},    {99, "Q8_2_X4", 0, 0},    {133, "Q6_0", 0, 0},
    {134, "IQ1_BN", 0, 0},    {135, "IQ2_BN", 0, 0},    {136, "Q8_K64", 0, 0},    {137, "IQ2_K", 0, 0},
    {138, "IQ3_K", 0, 0},     {139, "IQ4_K", 0, 0},     {140, "IQ5_K", 0, 0},     {141, "IQ6_K", 0, 0},
    {144, "IQ4_KS", 0, 0},    {145, "IQ2_KS", 0, 0},    {146, "IQ4_KSS", 0, 0},   {147, "Q8_K16", 0, 0},
    {148, "Q8_K32", 0, 0},    {149, "Q8_KR8", 0, 0},    {150, "Q8_K128", 0, 0},   {151, "Q8_KV", 0, 0},
    {152, "IQ5_KS", 0, 0},    {153, "IQ2_KT", 0, 0},    {154, "IQ3_KT", 0, 0},    {155, "IQ4_KT", 0, 0},
    {156, "IQ3_KS", 0, 0},    {157, "IQ2_KL", 0, 0},    {158, "IQ1_KT", 0, 0},
};

constexpr TensorTypeInfo kInterleaved = {202, "row-interleaved (_R4, _R8 or _R16)", 0, 0};

}  // namespace

const TensorTypeInfo* tensor_type_info(uint32_t id) {
  const auto* found = std::lower_bound(std::begin(kTypes), std::end(kTypes), id,
                                       [](const TensorTypeInfo& type, uint32_t wanted) { return type.id < wanted; });
  if (found != std::end(kTypes) && found->id == id) return found;
  return id >= 202 && id <= 399 ? &kInterleaved : nullptr;
}

uint64_t tensor_row_bytes(TensorType type, uint64_t n_in) {
  const TensorTypeInfo* info = tensor_type_info(static_cast<uint32_t>(type));
  LLMD_CHECK(info != nullptr && info->block_elements != 0 && n_in % info->block_elements == 0);
  return n_in / info->block_elements * info->block_bytes;
}

}  // namespace llmd
