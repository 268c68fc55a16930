#include "model/checksums.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "io/atomic_file.h"
#include "io/crc32c.h"

namespace llmd {
namespace {

// The head of the file, as docs/formats/checksums.md has it.
constexpr char kMagic[8] = {'L', 'L', 'M', 'D', 'C', 'R', 'C', '\n'};
constexpr uint32_t kVersion = 1;
constexpr size_t kHeadBytes = 32, kChecksumBytes = 4;
constexpr size_t kFileBytesMax = 256u << 20;  // 64 million checksums: far beyond any model

template <typename T>
void append(std::vector<std::byte>& out, T value) {
  size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

template <typename T>
T number_at(std::span<const std::byte> bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Error invalid(const std::string& path, const std::string& what) {
  return operating_error("checksums_invalid", what, path);
}

std::string remake(const GgufModel& model) {
  return "make it again with: llmd verify --write " + model.shards()[0].path;
}

Result<std::vector<std::byte>> read_whole(const std::string& path, const GgufModel& model) {
  std::error_code error;
  uintmax_t size = std::filesystem::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory)
    return operating_error(
        "checksums_missing",
        "there are no checksums of this model; make them with: llmd verify --write " + model.shards()[0].path, path);
  if (!error && size > kFileBytesMax) return invalid(path, "this is not a file of checksums");
  std::vector<std::byte> bytes(error ? 0 : size);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!error && !file) error = std::error_code(errno, std::generic_category());
  if (error) return operating_error("file_open", "the checksums cannot be read: " + error.message(), path);
  return bytes;
}

}  // namespace

std::string ModelChecksums::default_path(const GgufModel& model) {
  return model.shards()[0].path + ".crc";
}

ModelChecksums::ModelChecksums(ChecksumLayout layout, std::vector<uint32_t> values)
    : layout_(std::move(layout)), values_(std::move(values)) {
  LLMD_CHECK(values_.size() == layout_.count());
}

Result<ModelChecksums> ModelChecksums::read(const std::string& path, const GgufModel& model) {
  LLMD_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_whole(path, model));
  return parse(path, bytes, model);
}

// The file's own checksum comes before anything else that it says, so that damage is not taken for another model.
Result<ModelChecksums> ModelChecksums::parse(const std::string& path, std::span<const std::byte> bytes,
                                             const GgufModel& model) {
  if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return invalid(path, "this is not a file of checksums");
  if (bytes.size() < kHeadBytes + kChecksumBytes) return invalid(path, "the checksums are cut short; " + remake(model));
  uint32_t version = number_at<uint32_t>(bytes, 8);
  if (version != kVersion)
    return invalid(path, "the checksums have version " + std::to_string(version) + ", this llmd reads version " +
                             std::to_string(kVersion) + "; " + remake(model));
  size_t body = bytes.size() - kChecksumBytes;
  if (crc32c(bytes.first(body)) != number_at<uint32_t>(bytes, body))
    return invalid(path, "the file of checksums is itself damaged or cut short; " + remake(model));

  ChecksumLayout layout(model);
  size_t shards = model.shards().size();
  bool same = number_at<uint32_t>(bytes, 12) == shards && number_at<uint64_t>(bytes, 16) == layout.count() &&
              number_at<uint64_t>(bytes, 24) == layout.identity() &&
              body == kHeadBytes + shards * 8 + layout.count() * kChecksumBytes;
  for (size_t i = 0; same && i < shards; i++)
    same = number_at<uint64_t>(bytes, kHeadBytes + i * 8) == model.shards()[i].file_bytes;
  if (!same)
    return invalid(path, "the checksums are of another model, or the model was replaced or damaged; if it is the one " +
                             std::string("you want, ") + remake(model));
  std::vector<uint32_t> values(layout.count());
  std::memcpy(values.data(), bytes.data() + kHeadBytes + shards * 8, values.size() * kChecksumBytes);
  return ModelChecksums(std::move(layout), std::move(values));
}

std::vector<std::byte> ModelChecksums::serialize() const {
  const std::vector<GgufShard>& shards = layout_.model().shards();
  std::vector<std::byte> out;
  out.reserve(kHeadBytes + shards.size() * 8 + values_.size() * kChecksumBytes + kChecksumBytes);
  for (char c : kMagic) append(out, c);
  append(out, kVersion);
  append(out, static_cast<uint32_t>(shards.size()));
  append(out, layout_.count());
  append(out, layout_.identity());
  for (const GgufShard& shard : shards) append(out, shard.file_bytes);
  for (uint32_t value : values_) append(out, value);
  append(out, crc32c(out));
  return out;
}

Status ModelChecksums::write(const std::string& path) const {
  return write_file_atomically(path, serialize());
}

Error ModelChecksums::mismatch(const ChecksumRange& range, uint32_t slice) const {
  return operating_error("model_checksum_mismatch",
                         ChecksumLayout::describe(range, slice) +
                             " does not match its checksum: the file or the memory it was read into is damaged",
                         layout_.model().shards()[range.shard].path, range.slice_offset(slice));
}

}  // namespace llmd
