// The layout (all little-endian, nothing padded before the data section):
//
//   "GGUF" | version u32 | tensor count u64 | key count u64
//   keys:     key string | value type u32 | value              string = u64 length + bytes
//   tensors:  name string | n_dims u32 | n_dims x u64 | type u32 | offset u64
//   zeros to the next multiple of general.alignment, then the data; tensor offsets count from there
//
// What is checked: magic, version, byte order; counts and lengths against the rest of the file and against the memory
// budget, before allocating; keys and names unique, not empty, UTF-8 without NUL; value types known, arrays flat, bools
// 0 or 1; alignment a u32 power of two in [8, 64 KiB]; 1 to 4 dims, none zero, product <= 2^48; type known, dims[0] a
// multiple of its block; offsets aligned; tensors inside the file and not overlapping. No sum or product can wrap.
#include "model/gguf/gguf_reader.h"

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <unordered_set>

#include "model/gguf/gguf_cursor.h"

namespace llmd {
namespace {

constexpr uint64_t kStringBytesMax = 16 << 20;
constexpr uint64_t kKeyBytesMax = 65535;
constexpr uint64_t kTensorNameBytesMax = 64;
constexpr uint64_t kElementsMax = uint64_t{1} << 48;
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;             // key of one byte, type, the smallest value
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name of one byte, n_dims, one dim, type, offset
constexpr uint64_t kAlignmentMin = 8, kAlignmentMax = 64 << 10, kAlignmentDefault = 32;
constexpr uint64_t kMapNodeBytes = 64;  // what a map or hash node costs beside its contents, roughly
constexpr uint64_t kTensorCost = sizeof(GgufTensor) + 2 * (sizeof(std::string) + kMapNodeBytes);  // table and index

Error prefixed(const std::string& where, Error error) {
  error.message = where + ": " + error.message;
  return error;
}

uint64_t heap_bytes(const std::string& text) {
  return text.capacity() > std::string().capacity() ? text.capacity() + 1 : 0;
}

// Reads one file's header; a fresh one for each file.
class HeaderReader {
 public:
  HeaderReader(GgufSource& source, uint64_t& budget) : cursor_(source), file_bytes_(source.bytes()), budget_(budget) {
    header_.file.path = source.path();
    header_.file.file_bytes = source.bytes();
  }

  Result<GgufHeader> run() {
    LLMD_RETURN_IF_ERROR(read_magic_and_version());
    LLMD_ASSIGN_OR_RETURN(uint64_t tensor_count, cursor_.count("tensor count", kMinTensorBytes));
    LLMD_ASSIGN_OR_RETURN(uint64_t key_count, cursor_.count("key count", kMinKeyBytes));
    for (uint64_t i = 0; i < key_count; ++i) LLMD_RETURN_IF_ERROR(read_key_value(i));
    LLMD_RETURN_IF_ERROR(find_alignment());
    LLMD_RETURN_IF_ERROR(take(gguf::checked_mul(tensor_count, kTensorCost).value_or(UINT64_MAX), cursor_.position()));
    header_.tensors.reserve(tensor_count);
    for (uint64_t i = 0; i < tensor_count; ++i) LLMD_RETURN_IF_ERROR(read_tensor(i));
    LLMD_RETURN_IF_ERROR(place_tensors());
    return std::move(header_);
  }

 private:
  // Reserves decoded memory; `offset` is where the file asks for it.
  Status take(uint64_t bytes, uint64_t offset) {
    if (bytes > budget_) {
      return cursor_.invalid("the metadata needs more than " + std::to_string(GgufReader::kDecodedBytesMax >> 20) +
                                 " MiB of memory, far above any real model",
                             offset);
    }
    budget_ -= bytes;
    return {};
  }

  Status read_magic_and_version() {
    std::array<char, 4> magic{};
    LLMD_RETURN_IF_ERROR(cursor_.read(std::as_writable_bytes(std::span(magic)), "GGUF header"));
    if (std::string_view(magic.data(), 4) != "GGUF") {
      return cursor_.invalid(
          "not a GGUF file: it begins with " + gguf::quoted(std::string_view(magic.data(), 4)) + ", not 'GGUF'", 0);
    }
    LLMD_ASSIGN_OR_RETURN(uint32_t version, cursor_.scalar<uint32_t>("GGUF header"));
    if (version != 0 && (version & 0xffff) == 0) {
      return cursor_.invalid("this is a big-endian GGUF file; llmd reads little-endian ones only", 4);
    }
    if (version < 2 || version > 3) {
      return cursor_.invalid("GGUF version " + std::to_string(version) + " is " +
                                 (version < 2 ? "obsolete" : "newer than this program") + "; versions 2 and 3 are read",
                             4);
    }
    header_.file.version = version;
    return {};
  }

  Status read_key_value(uint64_t index) {
    uint64_t start = cursor_.position();
    std::string number = "key " + std::to_string(index);
    LLMD_ASSIGN_OR_RETURN(std::string key, cursor_.string("name of " + number, kKeyBytesMax));
    if (key.empty()) return cursor_.invalid(number + " has an empty name", start);
    if (!gguf::is_clean_utf8(key))
      return cursor_.invalid(number + ", " + gguf::quoted(key) + ", is not clean UTF-8", start);
    uint64_t value_start = cursor_.position();
    Result<GgufValue> value = read_value();
    if (!value.ok()) return prefixed("key " + gguf::quoted(key), std::move(value).error());
    LLMD_RETURN_IF_ERROR(take(sizeof(GgufValue) + sizeof(std::string) + kMapNodeBytes + heap_bytes(key), start));
    if (key == "general.alignment") alignment_offset_ = value_start;
    auto [place, fresh] = header_.metadata.try_emplace(std::move(key), std::move(*value));
    if (!fresh) return cursor_.invalid("key " + gguf::quoted(place->first) + " occurs twice", start);
    return {};
  }

  Result<GgufValue> read_value() {
    uint64_t start = cursor_.position();
    LLMD_ASSIGN_OR_RETURN(uint32_t type_id, cursor_.scalar<uint32_t>("value type"));
    GgufValue value;
    value.type = static_cast<GgufValueType>(type_id);
    if (value.type == GgufValueType::kArray) {
      LLMD_ASSIGN_OR_RETURN(value.value, read_array());
    } else if (value.type == GgufValueType::kString) {
      LLMD_ASSIGN_OR_RETURN(std::string text, read_string());
      value.value = std::move(text);
    } else if (value.type == GgufValueType::kBool) {
      LLMD_ASSIGN_OR_RETURN(int64_t bit, read_bool());
      value.value = bit != 0;
    } else if (float_bytes(value.type) != 0) {
      LLMD_ASSIGN_OR_RETURN(value.value, read_float(value.type));
    } else if (integer_bytes(value.type) != 0) {
      LLMD_ASSIGN_OR_RETURN(value.value, read_integer(value.type));
    } else {
      return cursor_.invalid("unknown value type " + std::to_string(type_id), start);
    }
    return value;
  }

  Result<GgufArray> read_array() {
    uint64_t start = cursor_.position();
    LLMD_ASSIGN_OR_RETURN(uint32_t type_id, cursor_.scalar<uint32_t>("array element type"));
    GgufArray array;
    array.element_type = static_cast<GgufValueType>(type_id);
    Status items;
    if (array.element_type == GgufValueType::kString) {
      items = read_items<std::string>(array, 8, [&] { return read_string(); });
    } else if (array.element_type == GgufValueType::kBool) {
      items = read_items<int64_t>(array, 1, [&] { return read_bool(); });
    } else if (uint64_t float_size = float_bytes(array.element_type); float_size != 0) {
      items = read_items<double>(array, float_size, [&] { return read_float(array.element_type); });
    } else if (uint64_t integer_size = integer_bytes(array.element_type); integer_size != 0) {
      items = read_items<int64_t>(array, integer_size, [&] { return read_integer(array.element_type); });
    } else if (array.element_type == GgufValueType::kArray) {
      return cursor_.invalid("arrays of arrays are not supported", start);
    } else {
      return cursor_.invalid("unknown array element type " + std::to_string(type_id), start);
    }
    if (!items.ok()) return std::move(items).error();
    return array;
  }

  template <typename T, typename ReadOne>
  Status read_items(GgufArray& array, uint64_t min_bytes, ReadOne read_one) {
    uint64_t start = cursor_.position();
    LLMD_ASSIGN_OR_RETURN(uint64_t count, cursor_.count("array length", min_bytes));
    LLMD_RETURN_IF_ERROR(take(gguf::checked_mul(count, sizeof(T)).value_or(UINT64_MAX), start));
    auto& items = array.items.emplace<std::vector<T>>();
    items.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      LLMD_ASSIGN_OR_RETURN(T item, read_one());
      items.push_back(std::move(item));
    }
    return {};
  }

  Result<std::string> read_string() {
    uint64_t start = cursor_.position();
    LLMD_ASSIGN_OR_RETURN(std::string text, cursor_.string("string", kStringBytesMax));
    LLMD_RETURN_IF_ERROR(take(heap_bytes(text), start));
    return text;
  }

  Result<int64_t> read_bool() {
    uint64_t start = cursor_.position();
    LLMD_ASSIGN_OR_RETURN(uint8_t byte, cursor_.scalar<uint8_t>("bool"));
    if (byte > 1) return cursor_.invalid("a bool is " + std::to_string(byte) + ", not 0 or 1", start);
    return int64_t{byte};
  }

  Result<double> read_float(GgufValueType type) {
    if (type == GgufValueType::kF64) return cursor_.scalar<double>("float");
    LLMD_ASSIGN_OR_RETURN(float value, cursor_.scalar<float>("float"));
    return static_cast<double>(value);
  }

  template <typename T>
  Result<int64_t> read_integer_as() {
    LLMD_ASSIGN_OR_RETURN(T value, cursor_.scalar<T>("integer"));
    return static_cast<int64_t>(value);
  }

  Result<int64_t> read_integer(GgufValueType type) {
    switch (type) {
      case GgufValueType::kU8:
        return read_integer_as<uint8_t>();
      case GgufValueType::kI8:
        return read_integer_as<int8_t>();
      case GgufValueType::kU16:
        return read_integer_as<uint16_t>();
      case GgufValueType::kI16:
        return read_integer_as<int16_t>();
      case GgufValueType::kU32:
        return read_integer_as<uint32_t>();
      case GgufValueType::kI32:
        return read_integer_as<int32_t>();
      case GgufValueType::kU64:
        return read_integer_as<uint64_t>();
      default:
        return read_integer_as<int64_t>();
    }
  }

  static uint64_t float_bytes(GgufValueType type) {
    return type == GgufValueType::kF32 ? 4 : type == GgufValueType::kF64 ? 8 : 0;
  }

  static uint64_t integer_bytes(GgufValueType type) {
    switch (type) {
      case GgufValueType::kU8:
      case GgufValueType::kI8:
        return 1;
      case GgufValueType::kU16:
      case GgufValueType::kI16:
        return 2;
      case GgufValueType::kU32:
      case GgufValueType::kI32:
        return 4;
      case GgufValueType::kU64:
      case GgufValueType::kI64:
        return 8;
      default:
        return 0;
    }
  }

  Status find_alignment() {
    auto found = header_.metadata.find("general.alignment");
    if (found == header_.metadata.end()) return {};
    if (found->second.type != GgufValueType::kU32) {
      return cursor_.invalid("key 'general.alignment' is not of type u32", alignment_offset_);
    }
    alignment_ = static_cast<uint64_t>(std::get<int64_t>(found->second.value));
    if (!std::has_single_bit(alignment_) || alignment_ < kAlignmentMin || alignment_ > kAlignmentMax) {
      return cursor_.invalid("general.alignment is " + std::to_string(alignment_) + ", not a power of two from " +
                                 std::to_string(kAlignmentMin) + " to " + std::to_string(kAlignmentMax),
                             alignment_offset_);
    }
    return {};
  }

  Status read_tensor(uint64_t index) {
    GgufTensor tensor;
    uint64_t start = cursor_.position();
    std::string number = "tensor " + std::to_string(index);
    LLMD_ASSIGN_OR_RETURN(tensor.name, cursor_.string("name of " + number, kTensorNameBytesMax));
    if (tensor.name.empty()) return cursor_.invalid(number + " has an empty name", start);
    std::string who = "tensor " + gguf::quoted(tensor.name);
    if (!gguf::is_clean_utf8(tensor.name)) return cursor_.invalid(who + ": the name is not clean UTF-8", start);
    if (!names_.insert(tensor.name).second) return cursor_.invalid(who + " occurs twice", start);
    Status rest = read_tensor_shape(tensor);
    if (rest.ok()) rest = read_tensor_type(tensor);
    if (!rest.ok()) return prefixed(who, std::move(rest).error());
    offset_fields_.push_back(cursor_.position());
    Result<uint64_t> offset = cursor_.scalar<uint64_t>("tensor offset");
    if (!offset.ok()) return prefixed(who, std::move(offset).error());
    tensor.file_offset = *offset;  // relative until place_tensors()
    LLMD_RETURN_IF_ERROR(take(2 * heap_bytes(tensor.name), start));
    header_.tensors.push_back(std::move(tensor));
    return {};
  }

  Status read_tensor_shape(GgufTensor& tensor) {
    uint64_t start = cursor_.position();
    LLMD_ASSIGN_OR_RETURN(tensor.n_dims, cursor_.scalar<uint32_t>("number of dims"));
    if (tensor.n_dims < 1 || tensor.n_dims > tensor.dims.size()) {
      return cursor_.invalid("it has " + std::to_string(tensor.n_dims) + " dims, not 1 to 4", start);
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor.n_dims; ++i) {
      uint64_t at = cursor_.position();
      LLMD_ASSIGN_OR_RETURN(tensor.dims[i], cursor_.scalar<uint64_t>("dims"));
      if (tensor.dims[i] == 0) return cursor_.invalid("dim " + std::to_string(i) + " is zero", at);
      elements = gguf::checked_mul(elements, tensor.dims[i]).value_or(UINT64_MAX);
      if (elements > kElementsMax) {
        return cursor_.invalid("dim " + std::to_string(i) + " makes it more than 2^48 elements", at);
      }
    }
    return {};
  }

  Status read_tensor_type(GgufTensor& tensor) {
    uint64_t start = cursor_.position();
    LLMD_ASSIGN_OR_RETURN(tensor.type_id, cursor_.scalar<uint32_t>("tensor type"));
    const TensorTypeInfo* info = tensor_type_info(tensor.type_id);
    if (!info) return cursor_.invalid("unknown tensor type " + std::to_string(tensor.type_id), start);
    if (info->block_elements == 0) {
      return cursor_.invalid("its type " + std::to_string(tensor.type_id) + ", " + std::string(info->name) +
                                 ", is not supported: this file was made for ik_llama.cpp; use a quantisation made "
                                 "for llama.cpp (Q4_K_M, IQ4_XS, Q8_0, ...)",
                             start);
    }
    tensor.type = static_cast<TensorType>(tensor.type_id);
    if (tensor.dims[0] % info->block_elements != 0) {
      return cursor_.invalid("its rows of " + std::to_string(tensor.dims[0]) + " are not a multiple of the " +
                                 std::to_string(info->block_elements) + "-element blocks of " + std::string(info->name),
                             start);
    }
    uint64_t blocks = tensor.element_count() / info->block_elements;  // at most 2^48: checked above
    std::optional<uint64_t> bytes = gguf::checked_mul(blocks, info->block_bytes);
    if (!bytes) return cursor_.invalid("its size in bytes does not fit 64 bits", start);
    tensor.bytes = *bytes;
    return {};
  }

  // Offsets become absolute; every tensor lies inside the file, and on no other.
  Status place_tensors() {
    std::optional<uint64_t> data_start = gguf::checked_align(cursor_.position(), alignment_);
    if (!data_start) return cursor_.invalid("the data section begins beyond 64 bits", cursor_.position());
    header_.file.data_start = *data_start;
    std::vector<size_t> order(header_.tensors.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
      LLMD_RETURN_IF_ERROR(place_tensor(header_.tensors[i], offset_fields_[i]));
    }
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return header_.tensors[a].file_offset < header_.tensors[b].file_offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor& before = header_.tensors[order[i - 1]];
      const GgufTensor& tensor = header_.tensors[order[i]];
      if (before.file_offset + before.bytes > tensor.file_offset) {
        return cursor_.invalid("tensor " + gguf::quoted(tensor.name) + " overlaps tensor " + gguf::quoted(before.name),
                               offset_fields_[order[i]]);
      }
    }
    return {};
  }

  Status place_tensor(GgufTensor& tensor, uint64_t field) {
    std::string who = "tensor " + gguf::quoted(tensor.name);
    if (tensor.file_offset % alignment_ != 0) {
      return cursor_.invalid(who + ": offset " + std::to_string(tensor.file_offset) + " is not a multiple of the " +
                                 std::to_string(alignment_) + "-byte alignment",
                             field);
    }
    std::optional<uint64_t> begin = gguf::checked_add(header_.file.data_start, tensor.file_offset);
    std::optional<uint64_t> end = begin ? gguf::checked_add(*begin, tensor.bytes) : std::nullopt;
    if (!end || *end > file_bytes_) {
      return cursor_.invalid(who + ": its " + std::to_string(tensor.bytes) + " bytes at offset " +
                                 std::to_string(tensor.file_offset) + " of the data section (byte " +
                                 std::to_string(header_.file.data_start) + ") end beyond the file of " +
                                 std::to_string(file_bytes_) + " bytes; is the download complete?",
                             field);
    }
    tensor.file_offset = *begin;
    return {};
  }

  GgufCursor cursor_;
  const uint64_t file_bytes_;
  uint64_t& budget_;
  GgufHeader header_;
  uint64_t alignment_ = kAlignmentDefault;
  uint64_t alignment_offset_ = 0;
  std::vector<uint64_t> offset_fields_;  // where the offset of each tensor stands in the file
  std::unordered_set<std::string> names_;
};

}  // namespace

Result<GgufHeader> GgufReader::read_file(GgufSource& source, uint64_t& budget) {
  return HeaderReader(source, budget).run();
}

}  // namespace llmd
