// The tensor encodings of GGUF: id, name, block geometry.
//
// Every id that a published file can hold is known by name, also where llmd has no kernel for it: a model is refused
// by the kernel table (model/kernels/kernels.h), with the tensor's name, not by the reader. Constant data; any thread.
// Source: GGUF type table (ids 0-42), and the ids of one fork (97-399), known here by name only.
#pragma once

#include <cstdint>
#include <string_view>

namespace llmd {

enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

struct TensorTypeInfo {
  uint32_t id;
  std::string_view name;
  uint32_t block_elements;  // weights per block; 0: the geometry is not known, only the name
  uint32_t block_bytes;
};

/// The entry for a type id, or nullptr for an id nobody has defined.
const TensorTypeInfo* tensor_type_info(uint32_t id);

inline std::string_view tensor_type_name(TensorType type) {
  const TensorTypeInfo* info = tensor_type_info(static_cast<uint32_t>(type));
  return info ? info->name : std::string_view("?");
}

/// Bytes of one row of `n_in` weights (n_in a multiple of the block; checked).
uint64_t tensor_row_bytes(TensorType type, uint64_t n_in);

}  // namespace llmd
