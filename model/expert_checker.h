// ExpertChecker: samples the experts that are read and compares them with the model's checksums (--verify-reads RATE).
//
// Which reads are sampled follows from a counter, so that a run can be repeated: with a rate of 0.25 every fourth. Once
// one was damaged every read is checked, so that no later request gets those bytes unnoticed. The
// thread that leads the step calls it (Residency::settle); it allocates nothing unless it has an error to tell.
#pragma once

#include <cstdint>
#include <vector>

#include "io/result.h"
#include "model/checksums.h"
#include "model/expert_catalog.h"

namespace llmd {

class ExpertChecker {
 public:
  /// `checksums` must outlive the checker; `rate` is within 0 to 1.
  ExpertChecker(const ModelChecksums& checksums, const ExpertCatalog& catalog, double rate);

  /// Counts an expert that was read: whether it is one of the sampled.
  bool due() {
    credit_ += step_;
    if (credit_ < kOne) return false;
    credit_ -= kOne;
    checked_++;
    return true;
  }
  /// Whether these are the bytes of one matrix of an expert (its number in ExpertLayer::tensors).
  bool matches(int32_t layer, int32_t tensor, int32_t expert, const std::byte* data) const;
  /// The error when they are not: "model_checksum_mismatch" with file and offset. From now on every read is due.
  Error mismatch(int32_t layer, int32_t tensor, int32_t expert);

  /// Experts sampled so far.
  uint64_t checked() const { return checked_; }

 private:
  static constexpr uint64_t kOne = 1u << 30;

  const ChecksumRange& range(int32_t layer, int32_t tensor) const {
    return *ranges_[static_cast<size_t>(layer) * 3 + static_cast<size_t>(tensor)];
  }

  const ModelChecksums* checksums_;
  std::vector<const ChecksumRange*> ranges_;  // [layers, 3]
  uint64_t step_, credit_ = 0, checked_ = 0;
};

}  // namespace llmd
