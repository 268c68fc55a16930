// Residency: where routed experts live. One pool of slots under a fixed budget; nobody else moves experts.
//
// ExpertPool (model/expert_pool.h) decides which expert is in which slot; here the slots get memory and reads.
// acquire() gives the expert's slot pinned: a hit at once, a miss with its reads prepared, or null when every slot of
// the class is pinned. start_reads() then queues what was missed: all gate and up matrices, then all down matrices.
//
//   slot: [ region 0: ..gate.. ][ region 1: ..up.. ][ region 2: ..down.. ]     (model/expert_catalog.h)
//
// A read that fails is tried once more. Then its error goes to the caller, the slot is emptied, and the expert is *bad*
// for a while: refusal() answers at once with the same error instead of hammering the drive, then one read in the
// background finds out whether it has healed. A read that is older than the limit fails the request (overdue()), but
// the slot is the kernel's until its own completion: release() leaves it to be collected later.
//
// Experts that the next layer may want are read on a guess (prefetch()), in idle time of the drive. When that layer
// begins, those that the drive has not begun are dropped; one that it has begun is finished, as a demand if the layer
// does want it, and else stays in the pool as an expert that nobody has used.
//
// What earlier runs learnt warms the pool after READY while nothing runs (maintain()): idle-priority reads into empty
// slots, never all of them. The first layer that runs takes back what the drive has not started.
//
// Only the thread that leads the step calls it; the reader writes a slot's memory while it is loading. Nothing is
// allocated after construction, but for errors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/clock.h"
#include "io/reader.h"
#include "model/expert_catalog.h"
#include "model/expert_checker.h"
#include "model/expert_pool.h"

namespace llmd {

struct ExpertSlot {
  int32_t index = -1;  // in the pool
  int32_t layer = -1, expert = -1;
  Matrix gate, up, down;
  Read reads[3];
  int32_t reads_count = 0;
  bool retried = false;

  bool reads_finished() const {
    for (int32_t i = 0; i < reads_count; i++)
      if (!reads[i].finished()) return false;
    return true;
  }
};

struct ResidencyOptions {
  uint64_t read_timeout_ns = 0;             // a read older than this fails its request; 0: never
  uint64_t bad_expert_ns = 10'000'000'000;  // how long an expert that cannot be read is refused without trying
  const Clock* clock = &real_clock();       // of bad_expert_ns; ages are by the reader's own clock
};

struct ResidencyStatistics : PoolStatistics {
  uint64_t bytes_read = 0;   // needed bytes of what was read on demand or by a sweep, without block rounding
  uint64_t read_errors = 0;  // experts that could not be read, after the retry
  uint64_t read_retries = 0, reads_overdue = 0;
  uint64_t warm_reads = 0, warm_bytes = 0;  // experts
  uint64_t prefetch_bytes = 0;              // as bytes_read, of guesses that the drive has begun or may still begin
  uint64_t bad_experts = 0;                 // now
};

/// An expert that could not be read.
struct BadExpert {
  int32_t layer = 0, expert = 0;
  uint64_t until_ns = 0;  // by ResidencyOptions::clock
  Error error;
};

class Residency {
 public:
  Residency(const ExpertCatalog& catalog, std::span<const DirectFile> files, Reader& reader, const PoolLayout& layout,
            std::span<std::byte> memory, const ResidencyOptions& options = {});
  ~Residency();

  /// Has experts compared with their checksums as they come in; null: none (as at first). It must outlive this.
  void set_checker(ExpertChecker* checker) { checker_ = checker; }

  /// The next acquires belong to this layer.
  void begin_layer(int32_t layer, ExpertUse use);
  /// The error of an expert that is not worth trying now; null: acquire it.
  const Error* refusal(int32_t layer, int32_t expert) const;
  /// Queues nothing yet: misses' reads start with start_reads(), so that a layer can order them.
  ExpertSlot* acquire(int32_t layer, int32_t expert, ExpertUse use);
  /// Submits the reads of the misses acquired since the last call: all gate and up matrices, then all down matrices.
  void start_reads(ExpertUse use);
  /// Reads those of the experts that are not there, the first first, while the drive is idle: the layer may want them.
  /// Takes no slot of an expert that is hotter, nor of one of these.
  void prefetch(int32_t layer, std::span<const int32_t> experts);
  bool is_resident(int32_t layer, int32_t expert) const { return pool_.find(layer, expert) >= 0; }
  /// True when the slot can be computed with, or has failed (ask settle()). Starts the one retry of failed reads.
  bool ready(ExpertSlot& slot);
  /// Ends a miss once its reads are finished: the slot becomes resident, or the error is returned (it stays pinned).
  Status settle(ExpertSlot& slot);
  /// A slot whose reads are not finished is collected when they are.
  void release(ExpertSlot* slot);
  /// The same for one that was acquired on a guess and not used: it does not count as touched.
  void release_unused(ExpertSlot* slot);
  /// The error of a slot whose oldest read has exceeded the limit.
  std::optional<Error> overdue(const ExpertSlot& slot);
  /// Ends what has landed for nobody; returns how many slots that freed. Bounded by what was given up or warms.
  size_t collect();
  /// As overdue(), of any slot that is loading for nobody: while those keep every slot of a class from being used.
  std::optional<Error> overdue_unowned();

  /// Sleeps until another read of this pool has finished, or, where there is a limit on reads, for a while; `seen` is
  /// the caller's count and starts at completions().
  uint32_t completions() const { return gate_.completed.load(std::memory_order_acquire); }
  uint32_t wait(uint32_t seen) const;

  /// What earlier runs learnt: expected uses per step of every expert. Warms the pool from now on.
  void set_heat(std::span<const float> rates);
  std::vector<float> heat() const { return pool_.heat().rates(); }
  /// Collects what has landed for nobody, tries bad experts again and, when idle, goes on warming. Between steps.
  /// False: nothing is on its way.
  bool maintain(bool idle);
  /// Reads experts layer by layer until every slot is taken or every expert is in. For benchmarks of a resident model.
  Status fill();

  /// How many experts a sweep of this layer may hold at once.
  uint32_t sweep_slots(int32_t layer) const { return pool_.sweep_slots(catalog_->layer(layer).size_class); }
  ResidencyStatistics statistics() const;
  const std::vector<BadExpert>& bad() const { return bad_; }
  const ExpertCatalog& catalog() const { return *catalog_; }
  const ExpertPool& pool() const { return pool_; }

 private:
  static constexpr size_t kBadMax = 64;
  void prepare_reads(ExpertSlot& slot, const ExpertLayer& layer);
  Status check_bytes(ExpertSlot& slot);
  void begin_slot(ExpertSlot& slot, int32_t index, int32_t layer, int32_t expert);
  void queue_read(ExpertSlot& slot, Read& read);
  void hurry(ExpertSlot& slot, ExpertUse use);
  void add_unfinished(ExpertSlot& slot);
  static bool taken_back(const Read& read);
  bool start_quietly(int32_t layer, int32_t expert, ExpertUse urgency);
  void mark_bad(const ExpertSlot& slot, const Error& error);
  void mark_good(const ExpertSlot& slot);
  void probe_bad();
  void warm();
  void stop_warming();
  void stop_guesses();
  void submit_guesses();
  bool too_old(const ExpertSlot& slot) const;

  const ExpertCatalog* catalog_;
  std::span<const DirectFile> files_;
  Reader* reader_;
  std::span<std::byte> memory_;
  const ResidencyOptions options_;
  ReadGate gate_;
  uint32_t submitted_ = 0;  // reads given to the reader; gate_ counts those that are over
  ExpertPool pool_;
  std::unique_ptr<ExpertSlot[]> slots_;  // by slot number of the pool
  std::vector<Read*> pending_first_, pending_down_;
  std::vector<int32_t> guesses_;     // slots that load for the layer to come
  std::vector<int32_t> guess_pins_;  // scratch, as the next
  std::vector<Read*> guess_reads_;
  std::vector<int32_t> unowned_;     // slots that may be loading with nobody to wait for them
  std::vector<Read*> taking_back_;   // scratch
  std::vector<BadExpert> bad_;       // at most kBadMax, the oldest first
  std::vector<int32_t> warm_order_;  // layer * experts + id, hottest first
  size_t warm_next_ = 0;
  uint64_t warming_bytes_ = 0;  // on their way
  ResidencyStatistics counts_;  // of its own; the pool has the others
  ExpertChecker* checker_ = nullptr;
};

}  // namespace llmd
