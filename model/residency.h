// Residency: where routed experts live. One pool of slots under a fixed budget; nobody else moves experts.
//
// ExpertPool (model/expert_pool.h) decides which expert is in which slot; here the slots get memory and reads.
// acquire() gives the expert's slot pinned: a hit at once, a miss with its reads prepared, or null when every slot of
// the class is pinned. start_reads() then queues what was missed: all gate and up matrices, then all down matrices.
//
//   slot: [ region 0: ..gate.. ][ region 1: ..up.. ][ region 2: ..down.. ]     (model/expert_catalog.h)
//
// Only the thread that leads the step calls it; the reader writes a slot's memory while it is loading. Nothing is
// allocated after construction. A read that fails leaves the slot empty and the Error with the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

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

  bool reads_finished() const {
    for (int32_t i = 0; i < reads_count; i++)
      if (!reads[i].finished()) return false;
    return true;
  }
};

struct ResidencyStatistics : PoolStatistics {
  uint64_t read_errors = 0;
  uint64_t bytes_read = 0;  // needed bytes of what was read, without block rounding
};

class Residency {
 public:
  Residency(const ExpertCatalog& catalog, std::span<const DirectFile> files, Reader& reader, const PoolLayout& layout,
            std::span<std::byte> memory);
  ~Residency();

  /// Has experts compared with their checksums as they come in; null: none (as at first). It must outlive this.
  void set_checker(ExpertChecker* checker) { checker_ = checker; }

  /// The next acquires belong to this layer.
  void begin_layer(int32_t layer, ExpertUse use) { pool_.begin_layer(layer, use); }
  /// Queues nothing yet: misses' reads start with start_reads(), so that a layer can order them.
  ExpertSlot* acquire(int32_t layer, int32_t expert, ExpertUse use);
  /// Submits the reads of the misses acquired since the last call: all gate and up matrices, then all down matrices.
  void start_reads(ExpertUse use);
  bool is_resident(int32_t layer, int32_t expert) const { return pool_.find(layer, expert) >= 0; }
  /// True when the slot can be computed with, or has failed (ask settle()).
  bool ready(const ExpertSlot& slot) const { return !pool_.loading(slot.index) || slot.reads_finished(); }
  /// Ends a miss once its reads are finished: the slot becomes resident, or the error is returned (it stays pinned).
  Status settle(ExpertSlot& slot);
  void release(ExpertSlot* slot);
  /// Reads experts layer by layer until every slot is taken or every expert is in. For benchmarks of a resident model.
  Status fill();
  /// Sleeps until another read of this pool has finished; `seen` is the caller's count and starts at completions().
  uint32_t completions() const { return gate_.completed.load(std::memory_order_acquire); }
  uint32_t wait(uint32_t seen) const { return wait_for_any(gate_, seen); }

  /// How many experts a sweep of this layer may hold at once.
  uint32_t sweep_slots(int32_t layer) const { return pool_.sweep_slots(catalog_->layer(layer).size_class); }
  ResidencyStatistics statistics() const;
  const ExpertCatalog& catalog() const { return *catalog_; }
  const ExpertPool& pool() const { return pool_; }

 private:
  void prepare_reads(ExpertSlot& slot, const ExpertLayer& layer);
  Status check_bytes(ExpertSlot& slot);

  const ExpertCatalog* catalog_;
  std::span<const DirectFile> files_;
  Reader* reader_;
  std::span<std::byte> memory_;
  ReadGate gate_;
  uint32_t submitted_ = 0;  // reads given to the reader; gate_ counts those that are over
  ExpertPool pool_;
  std::unique_ptr<ExpertSlot[]> slots_;  // by slot number of the pool
  std::vector<Read*> pending_first_, pending_down_;
  ResidencyStatistics counts_;  // of its own; the pool has the others
  ExpertChecker* checker_ = nullptr;
};

}  // namespace llmd
