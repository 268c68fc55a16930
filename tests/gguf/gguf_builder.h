// GgufBuilder: makes GGUF files by hand for tests and fuzz seeds, good ones and every kind of bad one.
//
// Parts are given in order and written as given: lengths, counts, types and offsets can be made to lie. build() also
// remembers where each part stands, so that a test can ask for the byte offset that an error must name:
//   "magic", "version", "tensor_count", "key_count", "key 0", "key 0 type", "key 0 value", "tensor 0", "tensor 0
//   n_dims", "tensor 0 dim 1", "tensor 0 type", "tensor 0 offset", "data", "end".
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/gguf/gguf.h"
#include "model/gguf/gguf_reader.h"

namespace llmd::testing {

/// The bytes of a number as they stand in a file.
template <typename T>
std::string le(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

inline std::string le_string(std::string_view text) {
  return le<uint64_t>(text.size()) + std::string(text);
}

inline std::string le_array(GgufValueType element, uint64_t count, const std::string& items) {
  return le(static_cast<uint32_t>(element)) + le(count) + items;
}

struct TensorSpec {
  std::string name;
  std::vector<uint64_t> dims;
  uint32_t type = 0;
  std::optional<uint64_t> offset = {};       // absent: right after the tensor before, aligned
  std::optional<uint32_t> n_dims = {};       // absent: dims.size()
  std::optional<uint64_t> name_length = {};  // absent: name.size()
};

class GgufBuilder {
 public:
  uint32_t version = 3;
  std::string magic = "GGUF";
  std::optional<uint64_t> tensor_count, key_count;  // lies
  uint64_t alignment = 32;                          // for padding and offsets; not written by itself
  std::optional<uint64_t> data_bytes;               // of the data section; absent: what the tensors need
  std::string data_prefix;                          // first bytes of the data section

  GgufBuilder& key(std::string name, GgufValueType type, std::string value) {
    return raw_key(le_string(name), static_cast<uint32_t>(type), std::move(value));
  }
  GgufBuilder& raw_key(std::string name_field, uint32_t type, std::string value) {
    keys_.push_back({std::move(name_field), type, std::move(value)});
    return *this;
  }
  GgufBuilder& text(std::string name, std::string_view value) {
    return key(std::move(name), GgufValueType::kString, le_string(value));
  }
  GgufBuilder& u32(std::string name, uint32_t value) { return key(std::move(name), GgufValueType::kU32, le(value)); }
  GgufBuilder& u16(std::string name, uint16_t value) { return key(std::move(name), GgufValueType::kU16, le(value)); }
  GgufBuilder& i32(std::string name, int32_t value) { return key(std::move(name), GgufValueType::kI32, le(value)); }
  GgufBuilder& tensor(TensorSpec spec) {
    tensors_.push_back(std::move(spec));
    return *this;
  }
  /// The three keys that every shard has; `number` counts from 0.
  GgufBuilder& split(uint16_t number, uint16_t count, int32_t tensors) {
    return u16("split.no", number).u16("split.count", count).i32("split.tensors.count", tensors);
  }

  std::string build() {
    std::string out;
    mark("magic", out) += magic;
    mark("version", out) += le(version);
    mark("tensor_count", out) += le<uint64_t>(tensor_count.value_or(tensors_.size()));
    mark("key_count", out) += le<uint64_t>(key_count.value_or(keys_.size()));
    for (size_t i = 0; i < keys_.size(); ++i) append_key("key " + std::to_string(i), keys_[i], out);
    uint64_t offset = 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      append_tensor("tensor " + std::to_string(i), tensors_[i], offset, out);
      offset = round_up(offset + bytes_of(tensors_[i]));
    }
    if (!tensors_.empty() || data_bytes) {
      out.resize(round_up(out.size()), '\0');
      mark("data", out);
      std::string data = data_prefix;
      data.resize(data_bytes.value_or(offset), '\0');
      out += data;
    }
    mark("end", out);
    return out;
  }

  /// Where a part of the last build() stands.
  uint64_t at(const std::string& part) const {
    auto found = marks_.find(part);
    LLMD_CHECK(found != marks_.end());
    return found->second;
  }

 private:
  struct Key {
    std::string name_field;
    uint32_t type;
    std::string value;
  };

  std::string& mark(const std::string& part, std::string& out) {
    marks_[part] = out.size();
    return out;
  }
  uint64_t round_up(uint64_t bytes) const { return (bytes + alignment - 1) / alignment * alignment; }

  void append_key(const std::string& part, const Key& key, std::string& out) {
    mark(part, out) += key.name_field;
    mark(part + " type", out) += le(key.type);
    mark(part + " value", out) += key.value;
  }

  void append_tensor(const std::string& part, const TensorSpec& spec, uint64_t next_offset, std::string& out) {
    mark(part, out) += le<uint64_t>(spec.name_length.value_or(spec.name.size())) + spec.name;
    mark(part + " n_dims", out) += le<uint32_t>(spec.n_dims.value_or(static_cast<uint32_t>(spec.dims.size())));
    for (size_t d = 0; d < spec.dims.size(); ++d) mark(part + " dim " + std::to_string(d), out) += le(spec.dims[d]);
    mark(part + " type", out) += le(spec.type);
    mark(part + " offset", out) += le(spec.offset.value_or(next_offset));
  }

  // Of a truthful tensor; 0 for one whose shape or type is a lie.
  static uint64_t bytes_of(const TensorSpec& spec) {
    const TensorTypeInfo* info = tensor_type_info(spec.type);
    if (!info || info->block_elements == 0) return 0;
    uint64_t elements = 1;
    for (uint64_t dim : spec.dims) {
      if (dim == 0 || dim > 1u << 20 || elements > 1u << 20) return 0;
      elements *= dim;
    }
    return elements / info->block_elements * info->block_bytes;
  }

  std::vector<Key> keys_;
  std::vector<TensorSpec> tensors_;
  std::map<std::string, uint64_t> marks_;
};

/// Reads a file that stands in memory.
inline Result<GgufModel> read_gguf(const std::string& bytes) {
  std::unique_ptr<GgufSource> source = gguf_memory_source("memory.gguf", std::as_bytes(std::span(bytes)));
  uint64_t budget = GgufReader::kDecodedBytesMax;
  LLMD_ASSIGN_OR_RETURN(GgufHeader header, GgufReader::read_file(*source, budget));
  std::vector<GgufHeader> headers;
  headers.push_back(std::move(header));
  return GgufReader::join(std::move(headers));
}

}  // namespace llmd::testing
