#include "model/heat_file.h"

#include <bit>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "io/atomic_file.h"

namespace llmd {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr char kMagic[] = {'l', 'l', 'm', 'd', 'h', 'e', 'a', 't'};
constexpr size_t kHeadBytes = sizeof(kMagic) + 2 * sizeof(uint64_t);
constexpr float kRateMax = 1e6f;

class Fnv {
 public:
  void add(const void* data, size_t bytes) {
    const unsigned char* at = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < bytes; i++) value_ = (value_ ^ at[i]) * 0x100000001b3u;
  }
  template <typename T>
  void add_value(T value) {
    add(&value, sizeof(value));
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

uint64_t checksum(const std::vector<char>& bytes, size_t count) {
  Fnv fnv;
  fnv.add(bytes.data(), count);
  return fnv.value();
}

}  // namespace

uint64_t model_identity(const GgufModel& model) {
  Fnv fnv;
  for (const GgufShard& shard : model.shards()) fnv.add_value(shard.file_bytes);
  for (const GgufTensor& tensor : model.tensors()) {
    fnv.add(tensor.name.data(), tensor.name.size());
    fnv.add_value(static_cast<uint32_t>(tensor.type));
    for (uint64_t dim : tensor.dims) fnv.add_value(dim);
    fnv.add_value(tensor.shard);
    fnv.add_value(tensor.file_offset);
  }
  return fnv.value();
}

std::string heat_path(const std::string& directory, uint64_t identity) {
  char name[32];
  std::snprintf(name, sizeof(name), "heat-%016llx", static_cast<unsigned long long>(identity));
  return (std::filesystem::path(directory) / name).string();
}

Result<std::vector<float>> load_heat(const std::string& path, uint64_t identity, size_t experts) {
  Error invalid =
      operating_error("heat_invalid", "the learnt heat is damaged or of another model; it is ignored", path);
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return operating_error("heat_missing", "no heat has been learnt yet", path);
  std::vector<char> bytes(kHeadBytes + experts * sizeof(float) + sizeof(uint64_t) + 1);
  size_t count = std::fread(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  if (count != bytes.size() - 1) return invalid;
  uint64_t head[2], sum;
  std::memcpy(head, bytes.data() + sizeof(kMagic), sizeof(head));
  std::memcpy(&sum, bytes.data() + count - sizeof(sum), sizeof(sum));
  if (std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0 || head[0] != identity || head[1] != experts ||
      sum != checksum(bytes, count - sizeof(sum)))
    return invalid;
  std::vector<float> rates(experts);
  std::memcpy(rates.data(), bytes.data() + kHeadBytes, experts * sizeof(float));
  for (float rate : rates)
    if (!(rate >= 0 && rate <= kRateMax)) return invalid;
  return rates;
}

Status save_heat(const std::string& path, uint64_t identity, std::span<const float> rates) {
  std::vector<char> bytes;
  auto append = [&](const void* data, size_t count) {
    bytes.insert(bytes.end(), static_cast<const char*>(data), static_cast<const char*>(data) + count);
  };
  const uint64_t head[2] = {identity, rates.size()};
  append(kMagic, sizeof(kMagic));
  append(head, sizeof(head));
  append(rates.data(), rates.size_bytes());
  const uint64_t sum = checksum(bytes, bytes.size());
  append(&sum, sizeof(sum));

  return write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

}  // namespace llmd
