#include "model/expert_checker.h"

#include <cmath>

#include "io/check.h"
#include "io/crc32c.h"

namespace llmd {

ExpertChecker::ExpertChecker(const ModelChecksums& checksums, const ExpertCatalog& catalog, double rate)
    : checksums_(&checksums), step_(static_cast<uint64_t>(std::llround(rate * static_cast<double>(kOne)))) {
  LLMD_CHECK(step_ <= kOne);
  ranges_.resize(static_cast<size_t>(catalog.layers()) * 3);
  for (int32_t i = 0; i < catalog.layers(); i++) {
    const ExpertLayer& layer = catalog.layer(i);
    for (int32_t t = 0; t < layer.tensors_count; t++) {
      const ExpertTensor& tensor = layer.tensors[t];
      const ChecksumRange* found = checksums.layout().find(tensor.shard, tensor.file_offset);
      LLMD_CHECK(found != nullptr && found->slice_bytes == tensor.expert_bytes);
      ranges_[static_cast<size_t>(i) * 3 + static_cast<size_t>(t)] = found;
    }
  }
}

bool ExpertChecker::matches(int32_t layer, int32_t tensor, int32_t expert, const std::byte* data) const {
  const ChecksumRange& found = range(layer, tensor);
  return crc32c({data, found.slice_bytes}) == checksums_->value(found, static_cast<uint32_t>(expert));
}

Error ExpertChecker::mismatch(int32_t layer, int32_t tensor, int32_t expert) {
  step_ = kOne;
  return checksums_->mismatch(range(layer, tensor), static_cast<uint32_t>(expert));
}

}  // namespace llmd
