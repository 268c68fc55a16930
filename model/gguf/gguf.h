// GgufModel: the metadata and tensor table of a GGUF model, one file or all shards of a split one.
//
// Opening reads headers only, through a bounded cursor over the file: every count and length is checked against the
// bytes that remain before anything is allocated, so a hostile file costs at most a small multiple of its own size,
// never more than 512 MiB, and is never read outside its bounds. Anything wrong is an operating Error "gguf_invalid"
// with file, byte offset and reason. Versions 2 and 3, little-endian. The object is immutable after open() and any
// overrides; any thread may read it.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "io/result.h"
#include "model/gguf/tensor_type.h"

namespace llmd {

enum class GgufValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

struct GgufArray {
  GgufValueType element_type = GgufValueType::kU8;
  // Exactly one of these is filled: integers and bools; floats; strings.
  std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>> items;
  size_t size() const {
    return std::visit([](const auto& list) { return list.size(); }, items);
  }
};

struct GgufValue {
  GgufValueType type = GgufValueType::kU8;
  // u64 values above 2^63-1 keep their bits in the int64_t; `type` tells.
  std::variant<int64_t, double, bool, std::string, GgufArray> value;
};

struct GgufTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  uint32_t type_id = 0;                      // as in the file; `type` is its enum (kernels decide what can be computed)
  std::array<uint64_t, 4> dims{1, 1, 1, 1};  // dims[0] is the contiguous one (inputs of a matmul weight)
  uint32_t n_dims = 0;
  uint32_t shard = 0;        // index into GgufModel::shards()
  uint64_t file_offset = 0;  // absolute byte offset in that shard's file
  uint64_t bytes = 0;
  uint64_t element_count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

struct GgufShard {
  std::string path;
  uint64_t file_bytes = 0;
  uint32_t version = 0;
  uint64_t data_start = 0;
};

class GgufModel {
 public:
  /// Opens a GGUF file or, when `path` is any shard of a split model, all of its shards. Errors: "gguf_invalid" (not a
  /// GGUF, hostile, truncated, big-endian, a shard missing or out of order), "file_open" (the system's reason),
  /// "model_read_error" (a header that the disk cannot give).
  static Result<GgufModel> open(const std::string& path);

  const std::vector<GgufShard>& shards() const { return shards_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;

  // Liberal readers: any integer width, bool or integral float where it makes sense. An absent key is nullopt; a value
  // of the wrong kind or out of range is also nullopt (callers that need the key say so, naming it).
  std::optional<uint64_t> get_u64(std::string_view key) const;
  std::optional<double> get_f64(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  const std::string* get_string(std::string_view key) const;
  const GgufArray* get_array(std::string_view key) const;
  /// Per-layer keys are a scalar for all layers or an array with one entry a layer: the entry for `layer`.
  std::optional<uint64_t> get_u64_at(std::string_view key, size_t layer) const;

  /// Replaces or adds one key (`--override-kv KEY=VALUE`). The value's kind: true/false, integer, float, else string;
  /// a type prefix "int:", "float:", "bool:" or "str:" decides instead. Errors: client "invalid_override".
  Status override_kv(std::string_view assignment);

 private:
  friend class GgufReader;
  std::vector<GgufShard> shards_;
  std::vector<GgufTensor> tensors_;
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  std::unordered_map<std::string, size_t, NameHash, std::equal_to<>> tensor_index_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
};

}  // namespace llmd
