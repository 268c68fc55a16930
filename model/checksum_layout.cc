#include "model/checksum_layout.h"

#include <algorithm>

namespace llmd {
namespace {

// FNV-1a: it tells models apart, and nobody gains from making two collide.
class Hash {
 public:
  void add(uint64_t number) {
    for (int i = 0; i < 8; i++) add_byte(static_cast<uint8_t>(number >> (8 * i)));
  }
  void add(const std::string& text) {
    add(text.size());
    for (char c : text) add_byte(static_cast<uint8_t>(c));
  }
  uint64_t value() const { return value_; }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  uint64_t value_ = 0xcbf29ce484222325u;
};

uint32_t slices_of(const GgufTensor& tensor) {
  bool experts = tensor.name.find("_exps.") != std::string::npos && tensor.n_dims == 3;
  return experts && tensor.dims[2] <= ChecksumLayout::kSlicesMax ? static_cast<uint32_t>(tensor.dims[2]) : 1;
}

}  // namespace

ChecksumLayout::ChecksumLayout(const GgufModel& model) : model_(&model) {
  Hash hash;
  for (uint32_t i = 0; i < model.shards().size(); i++) {
    hash.add(model.shards()[i].data_start);
    ranges_.push_back({nullptr, i, 0, model.shards()[i].data_start, 1, 0});
  }
  for (const GgufTensor& tensor : model.tensors()) {
    hash.add(tensor.name);
    for (uint64_t number : {uint64_t{tensor.type_id}, tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3],
                            uint64_t{tensor.shard}, tensor.file_offset, tensor.bytes})
      hash.add(number);
    uint32_t slices = slices_of(tensor);
    ranges_.push_back({&tensor, tensor.shard, tensor.file_offset, tensor.bytes / slices, slices, 0});
  }
  identity_ = hash.value();
  std::sort(ranges_.begin(), ranges_.end(), [](const ChecksumRange& a, const ChecksumRange& b) {
    return std::pair(a.shard, a.offset) < std::pair(b.shard, b.offset);
  });
  for (ChecksumRange& range : ranges_) {
    range.first = count_;
    count_ += range.slices;
  }
}

const ChecksumRange* ChecksumLayout::find(uint32_t shard, uint64_t offset) const {
  auto found = std::lower_bound(
      ranges_.begin(), ranges_.end(), std::pair(shard, offset),
      [](const ChecksumRange& range, const auto& place) { return std::pair(range.shard, range.offset) < place; });
  return found != ranges_.end() && found->shard == shard && found->offset == offset ? &*found : nullptr;
}

std::string ChecksumLayout::describe(const ChecksumRange& range, uint32_t slice) {
  if (range.tensor == nullptr) return "the header";
  return "tensor " + range.tensor->name + (range.slices > 1 ? ", expert " + std::to_string(slice) : "");
}

}  // namespace llmd
