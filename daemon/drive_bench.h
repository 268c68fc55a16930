// DriveBench: the product's own reader against the drive, with nothing computed beside it.
//
// Random reads of a model's expert slices at stated sizes and numbers of bytes in flight; how long a finished read
// waits until a compute thread sees it; and what the I/O thread costs. For `llmd bench io` and `llmd plan --measure`.
// One thread uses it; it allocates its own buffers (at most 128 MiB). Errors: those of opening, of memory and of reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/arena.h"
#include "io/depth_sweep.h"
#include "io/reader.h"
#include "model/expert_catalog.h"
#include "model/gguf/gguf.h"

namespace llmd {

struct DriveRun {
  uint64_t slice_bytes = 0;  // mean of the reads
  uint64_t bytes_in_flight = 0;
  uint64_t reads = 0, bytes = 0;
  double seconds = 0;
  double io_thread_share = 0;  // of one core, over the run
  double bytes_per_second() const { return static_cast<double>(bytes) / seconds; }
};

/// Microseconds from the moment the I/O thread has a read to the moment another thread sees it.
struct HandOff {
  uint64_t samples = 0;
  double p50 = 0, p90 = 0, p99 = 0, max = 0;
};

class DriveBench {
 public:
  enum class Waiter { kSleeping, kSpinning };

  static Result<std::unique_ptr<DriveBench>> open(const GgufModel& model, const ExpertCatalog& catalog,
                                                  ReaderOptions::Path path);

  /// Reads for about `seconds`. `slice_bytes` 0: whole expert matrices, as residency reads them; else slices of that
  /// size anywhere among the experts.
  Result<DriveRun> random_reads(uint64_t slice_bytes, uint64_t bytes_in_flight, double seconds);
  /// One expert at a time, all its matrices at once: seconds from the request to the last byte (median).
  Result<double> lone_expert_seconds(double seconds);
  /// random_reads() of expert matrices at a depth that keeps the drive busy, watched from outside the I/O thread.
  Result<HandOff> hand_off(Waiter waiter, double seconds);

  const std::vector<DirectFile>& files() const { return files_; }
  Reader& reader() { return *reader_; }

 private:
  struct Range {  // the same matrix of all experts of a layer, or a whole file where a model has no experts
    uint32_t shard;
    uint64_t begin, stride, count;
  };
  DriveBench() = default;
  uint64_t random();
  void aim(Read& read, uint64_t slice_bytes, std::byte* buffer);
  void aim_at(Read& read, const Range& range, uint64_t index, std::byte* buffer);
  /// `count` reads with buffers of their own for slices of `slice_bytes` (0: matrices).
  Status prepare(uint64_t slice_bytes, size_t count);

  std::vector<DirectFile> files_;
  std::unique_ptr<Reader> reader_;
  std::vector<Range> ranges_;
  size_t tensors_per_expert_ = 1;
  uint64_t matrix_bytes_max_ = 0;
  std::unique_ptr<Arena> arena_;
  ReadGate gate_;
  uint32_t submitted_ = 0;
  std::vector<std::unique_ptr<Read>> reads_;
  std::vector<std::byte*> buffers_;
  uint64_t random_state_ = 0x9e3779b97f4a7c15u;
};

/// The value below which `share` of the samples lie; sorts them. 0 when there are none.
double percentile(std::vector<double>& samples, double share);

}  // namespace llmd
