// Split models: files PREFIX-00001-of-00009.gguf, each a whole GGUF with its own tensor table, alignment and data
// section. Every shard says split.no (from 0), split.count and split.tensors.count (of all shards together); only the
// first has the model's metadata, and it may have no tensors. A tensor is never divided.
#include <cerrno>

#include "model/gguf/gguf_cursor.h"
#include "model/gguf/gguf_reader.h"

namespace llmd {
namespace {

constexpr uint64_t kShardsMax = 65535;  // split.count is a u16

std::optional<uint64_t> split_number(const GgufHeader& header, std::string_view key) {
  auto found = header.metadata.find(key);
  if (found == header.metadata.end()) return std::nullopt;
  const int64_t* number = std::get_if<int64_t>(&found->second.value);
  if (!number || *number < 0) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

Error wrong_shard(const GgufHeader& header, std::string reason) {
  return operating_error("gguf_invalid", std::move(reason), header.file.path);
}

// Messages count shards from 1, as file names do; split.no counts from 0.
Status check_shard(const GgufHeader& header, size_t index, size_t count, std::optional<uint64_t> total) {
  std::optional<uint64_t> number = split_number(header, "split.no");
  std::optional<uint64_t> its_count = split_number(header, "split.count");
  std::string expected = "shard " + std::to_string(index + 1) + " of " + std::to_string(count);
  if (!number || !its_count) {
    return wrong_shard(header, "it stands where " + expected + " should be, but is not part of a split model");
  }
  if (*number != index || *its_count != count) {
    return wrong_shard(header, "it stands where " + expected + " should be, but says that it is shard " +
                                   std::to_string(*number + 1) + " of " + std::to_string(*its_count) +
                                   "; shards were renamed or mixed");
  }
  if (split_number(header, "split.tensors.count") != total) {
    return wrong_shard(header, "it belongs to another model: split.tensors.count differs from the first shard's");
  }
  return {};
}

}  // namespace

std::optional<ShardName> parse_shard_name(const std::string& path) {
  // ...-00002-of-00009.gguf
  constexpr size_t kSuffix = 20;
  if (path.size() < kSuffix) return std::nullopt;
  std::string_view suffix = std::string_view(path).substr(path.size() - kSuffix);
  auto five_digits = [&](size_t begin) -> std::optional<uint32_t> {
    uint32_t value = 0;
    for (char c : suffix.substr(begin, 5)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + static_cast<uint32_t>(c - '0');
    }
    return value;
  };
  if (suffix[0] != '-' || suffix.substr(6, 4) != "-of-" || suffix.substr(15) != ".gguf") return std::nullopt;
  std::optional<uint32_t> number = five_digits(1), count = five_digits(10);
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  return ShardName{path.substr(0, path.size() - kSuffix), *number, *count};
}

std::string shard_path(const std::string& prefix, uint32_t number, uint32_t count) {
  auto five = [](uint32_t value) {
    std::string digits = std::to_string(value);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return prefix + "-" + five(number) + "-of-" + five(count) + ".gguf";
}

Result<uint32_t> GgufReader::shard_count(const GgufHeader& header) {
  if (!header.metadata.contains("split.count")) return uint32_t{1};
  std::optional<uint64_t> count = split_number(header, "split.count");
  if (count == uint64_t{0}) return uint32_t{1};  // says: not split
  if (!count || *count > kShardsMax) return wrong_shard(header, "split.count is not a number from 1 to 65535");
  return static_cast<uint32_t>(*count);
}

Result<GgufModel> GgufReader::join(std::vector<GgufHeader> headers) {
  LLMD_CHECK(!headers.empty());
  GgufModel model;
  std::optional<uint64_t> total = split_number(headers[0], "split.tensors.count");
  size_t tensors = 0;
  for (size_t i = 0; i < headers.size(); ++i) {
    if (headers.size() > 1) LLMD_RETURN_IF_ERROR(check_shard(headers[i], i, headers.size(), total));
    tensors += headers[i].tensors.size();
  }
  if (headers.size() > 1 && total != tensors) {
    return wrong_shard(headers[0], "split.tensors.count is " + (total ? std::to_string(*total) : "absent") +
                                       ", but the shards hold " + std::to_string(tensors) + " tensors together");
  }
  model.metadata_ = std::move(headers[0].metadata);
  model.tensors_.reserve(tensors);
  model.tensor_index_.reserve(tensors);
  for (size_t i = 0; i < headers.size(); ++i) {
    for (GgufTensor& tensor : headers[i].tensors) {
      tensor.shard = static_cast<uint32_t>(i);
      auto [place, fresh] = model.tensor_index_.try_emplace(tensor.name, model.tensors_.size());
      if (!fresh) {
        const GgufShard& other = model.shards_[model.tensors_[place->second].shard];
        return wrong_shard(headers[i], "tensor " + gguf::quoted(tensor.name) + " is also in " + other.path);
      }
      model.tensors_.push_back(std::move(tensor));
    }
    model.shards_.push_back(std::move(headers[i].file));
  }
  return model;
}

namespace {

Result<GgufHeader> read_shard(const std::string& path, uint32_t number, uint32_t count, uint64_t& budget) {
  int error_number = 0;
  Result<std::unique_ptr<GgufSource>> source = open_gguf_file(path, &error_number);
  if (!source.ok() && error_number == ENOENT) {
    return operating_error("gguf_invalid",
                           "shard " + std::to_string(number) + " of " + std::to_string(count) +
                               " is missing; all shards of a split model must stand in one folder",
                           path);
  }
  if (!source.ok()) return std::move(source).error();
  return GgufReader::read_file(**source, budget);
}

}  // namespace

Result<GgufModel> GgufModel::open(const std::string& path) {
  uint64_t budget = GgufReader::kDecodedBytesMax;
  LLMD_ASSIGN_OR_RETURN(std::unique_ptr<GgufSource> source, open_gguf_file(path));
  LLMD_ASSIGN_OR_RETURN(GgufHeader named, GgufReader::read_file(*source, budget));
  source.reset();
  LLMD_ASSIGN_OR_RETURN(uint32_t count, GgufReader::shard_count(named));
  std::vector<GgufHeader> headers;
  if (count == 1) {
    headers.push_back(std::move(named));
    return GgufReader::join(std::move(headers));
  }
  std::optional<ShardName> name = parse_shard_name(path);
  if (!name || name->count != count) {
    return wrong_shard(named, "it is one of " + std::to_string(count) +
                                  " shards, which must be named PREFIX-00001-of-" +
                                  shard_path("", 1, count).substr(10));
  }
  for (uint32_t number = 1; number <= count; ++number) {
    if (number == name->number) {
      headers.push_back(std::move(named));
      continue;
    }
    LLMD_ASSIGN_OR_RETURN(GgufHeader header,
                          read_shard(shard_path(name->prefix, number, count), number, count, budget));
    headers.push_back(std::move(header));
  }
  return GgufReader::join(std::move(headers));
}

}  // namespace llmd
