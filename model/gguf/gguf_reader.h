// GgufReader: the header of one GGUF file (metadata and tensor table), checked; and the joining of split files.
//
// read_file() believes nothing that the file says: see the list of checks in gguf_reader.cc. join() turns the headers
// of all shards into one GgufModel. Memory is bounded twice: each count is checked against the bytes that are really
// in the file, and one `budget` of decoded bytes is shared by all shards of a model. Used by one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/result.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_source.h"

namespace llmd {

/// What one file holds. Tensor `shard` fields are 0; join() sets them.
struct GgufHeader {
  GgufShard file;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;
};

class GgufReader {
 public:
  /// Decoded metadata and tensor tables of one model may take this much memory; real ones take up to 60 MB.
  static constexpr uint64_t kDecodedBytesMax = 512u << 20;

  /// The header at the start of `source`. Takes what it needs from `budget`. Errors: as GgufModel::open().
  static Result<GgufHeader> read_file(GgufSource& source, uint64_t& budget);

  /// One model from the headers of its files in order (one, or all shards of a split model). Errors: "gguf_invalid"
  /// naming the shard that is wrong.
  static Result<GgufModel> join(std::vector<GgufHeader> headers);

  /// How many files the model has whose (any) header this is: `split.count`, or 1 for a model in one file.
  static Result<uint32_t> shard_count(const GgufHeader& header);
};

/// The numbers of a shard's file name PREFIX-00002-of-00009.gguf.
struct ShardName {
  std::string prefix;
  uint32_t number = 0;  // from 1
  uint32_t count = 0;
};
std::optional<ShardName> parse_shard_name(const std::string& path);
std::string shard_path(const std::string& prefix, uint32_t number, uint32_t count);

}  // namespace llmd
