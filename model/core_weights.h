// CoreWeights: the tensors that every token needs, read once into the arena and pinned there.
//
// Neighbouring tensors of a file form one *run*; a run is read as whole blocks and lands so that memory address = file
// offset (mod block), so nothing is copied. locate() needs metadata only and gives the bytes for the plan; load()
// reads, and finds by these reads how many bytes in flight the drive needs (io/depth_sweep.h). One thread loads;
// afterwards lookups are for binding (not for the hot path) and the memory is read by everyone.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/depth_sweep.h"
#include "io/reader.h"
#include "model/checksums.h"
#include "model/gguf/gguf.h"
#include "model/model_shape.h"

namespace llmd {

class CoreWeights {
 public:
  /// Finds every use in the tensor table. Errors: "gguf_invalid" for a required tensor that is missing or has another
  /// shape, "type_unsupported" for one whose type has no kernel, both naming the tensor.
  static Result<CoreWeights> locate(const GgufModel& model, const std::vector<TensorUse>& uses);

  /// Memory that load() needs.
  uint64_t bytes() const { return bytes_; }
  /// Reads all runs into `memory` (aligned to 4096). `progress` gets bytes done and total, a few times a second at
  /// most. With `checksums` (may be null) each tensor is compared as it comes in. Errors: "model_checksum_mismatch"
  /// naming the first tensor that is damaged, and those of reads.
  Status load(std::span<const DirectFile> files, Reader& reader, std::span<std::byte> memory,
              const ModelChecksums* checksums, const std::function<void(uint64_t, uint64_t)>& progress);

  /// What load() learnt about the drive.
  const DriveSpeed& drive_speed() const { return drive_speed_; }

  bool has(std::string_view name) const { return tensors_.count(std::string(name)) != 0; }
  /// The whole tensor as one matrix [product of the outer dims, dims[0]]; an empty one when it is absent.
  Matrix matrix(std::string_view name) const;
  /// A float32 vector; null when it is absent.
  const float* vector(std::string_view name) const;

 private:
  struct Run {
    uint32_t shard;
    uint64_t file_begin, file_end;  // block-aligned
    uint64_t memory_offset;
  };
  struct Located {
    const GgufTensor* tensor;
    size_t run;
    const std::byte* data;
  };
  std::vector<Run> runs_;
  std::unordered_map<std::string, Located> tensors_;
  uint64_t bytes_ = 0;
  DriveSpeed drive_speed_;
};

/// The shape of a tensor as people write it: "[2048, 1408, 64] Q4_K".
std::string describe(const GgufTensor& tensor);
/// An error when the tensor's type cannot be computed with.
Status check_computable(const GgufTensor& tensor, const GgufModel& model);

}  // namespace llmd
