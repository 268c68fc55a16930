// Residency: where routed experts live. One pool of slots under a fixed budget; nobody else moves experts.
//
// A slot is empty, loading, or resident, and pinned while a layer uses it. acquire() gives the expert's slot pinned:
// a hit at once, a miss after its reads were queued, or null when every slot of the class is pinned. Victims are the
// least recently used unpinned slots. A *sweep* (prefill) touches every expert once: what it loads is the first to go
// again and its hits do not count as use, so that it does not drive out what decoding needs.
//
//   per size class:  [slot][slot]...      recency list: most recent <-> ... <-> next victim      free list
//   table[layer][expert] -> slot
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

namespace llmd {

enum class ExpertUse : uint8_t { kDecode, kSweep };

/// The slots of each size class that a number of pool bytes buys. At least floor slots each.
struct PoolSplit {
  std::vector<uint32_t> slots;  // per size class
  uint64_t bytes = 0;           // what they take
};

struct ExpertSlot {
  int32_t layer = -1, expert = -1;  // -1: empty
  int32_t size_class = 0;
  int32_t pins = 0;
  bool loading = false;
  std::byte* memory = nullptr;
  Matrix gate, up, down;
  Read reads[3];
  int32_t reads_count = 0;
  int32_t newer = -1, older = -1;  // recency list, by slot index

  bool reads_finished() const {
    for (int32_t i = 0; i < reads_count; i++)
      if (!reads[i].finished()) return false;
    return true;
  }
};

struct ResidencyStatistics {
  uint64_t hits = 0, misses = 0, evictions = 0, read_errors = 0;
  uint64_t bytes_read = 0;     // needed bytes of the misses, without block rounding
  uint64_t touched_bytes = 0;  // bytes of all acquired experts
};

class Residency {
 public:
  /// The fewest pool bytes that work: two layers' experts for one row, in every class that has layers.
  static uint64_t floor_bytes(const ExpertCatalog& catalog, int32_t used);
  /// Pool bytes beyond which every expert is resident.
  static uint64_t full_bytes(const ExpertCatalog& catalog);
  /// Shares out `bytes` (at least floor_bytes) over the classes in proportion to what they could use.
  static PoolSplit split(const ExpertCatalog& catalog, int32_t used, uint64_t bytes);

  Residency(const ExpertCatalog& catalog, std::span<const DirectFile> files, Reader& reader, const PoolSplit& split,
            std::span<std::byte> memory);
  ~Residency();

  /// Queues nothing yet: misses' reads start with start_reads(), so that a layer can order them.
  ExpertSlot* acquire(int32_t layer, int32_t expert, ExpertUse use);
  /// Submits the reads of the misses acquired since the last call: all gate and up matrices, then all down matrices.
  void start_reads(ExpertUse use);
  bool is_resident(int32_t layer, int32_t expert) const;
  /// True when the slot can be computed with, or has failed (ask error()).
  bool ready(const ExpertSlot& slot) const { return !slot.loading || slot.reads_finished(); }
  /// Ends a miss once its reads are finished: the slot becomes resident, or the error is returned (it stays pinned).
  Status settle(ExpertSlot& slot);
  void release(ExpertSlot* slot);
  /// Reads experts layer by layer until every slot is taken or every expert is in. For benchmarks of a resident model.
  Status fill();
  /// Sleeps until another read of this pool has finished; `seen` is the caller's count and starts at completions().
  uint32_t completions() const { return gate_.completed.load(std::memory_order_acquire); }
  uint32_t wait(uint32_t seen) const { return wait_for_any(gate_, seen); }

  uint32_t slots(int32_t size_class) const { return classes_[static_cast<size_t>(size_class)].slots; }
  const ResidencyStatistics& statistics() const { return statistics_; }
  const ExpertCatalog& catalog() const { return *catalog_; }

 private:
  struct SizeClass {
    uint32_t first = 0, slots = 0;
    int32_t newest = -1, oldest = -1;
    std::vector<int32_t> free;
  };

  int32_t& entry(int32_t layer, int32_t expert) {
    return table_[static_cast<size_t>(layer) * static_cast<size_t>(catalog_->experts_per_layer()) +
                  static_cast<size_t>(expert)];
  }
  int32_t take_slot(SizeClass& size_class);
  void prepare_reads(ExpertSlot& slot, const ExpertLayer& layer);
  void unlink(SizeClass& size_class, int32_t index);
  void link_newest(SizeClass& size_class, int32_t index);
  void link_oldest(SizeClass& size_class, int32_t index);
  void empty(ExpertSlot& slot);
  int32_t index_of(const ExpertSlot& slot) const { return static_cast<int32_t>(&slot - slots_.get()); }

  const ExpertCatalog* catalog_;
  std::span<const DirectFile> files_;
  Reader* reader_;
  ReadGate gate_;
  uint32_t submitted_ = 0;  // reads given to the reader; gate_ counts those that are over
  std::unique_ptr<ExpertSlot[]> slots_;
  std::vector<SizeClass> classes_;
  std::vector<int32_t> table_;
  std::vector<Read*> pending_first_, pending_down_;
  ResidencyStatistics statistics_;
};

}  // namespace llmd
