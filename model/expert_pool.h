// ExpertPool: which expert is in which slot. The bookkeeping of residency, without memory and reads, so that a recorded
// trace can be replayed through the very same code (model/cache_replay.h).
//
//   segment 0        segment 1        segment 2          a segment belongs to one size class at a time
//   [slot][slot]...  [slot][slot]...  [ slot ][ slot ]   (model/pool_layout.h)
//   table[layer][expert] -> slot, or -1
//
// A slot is empty, loading or resident, and pinned while a layer uses it; pinned and loading slots are nobody's victim.
// Misses take an empty slot of their class or the policy's victim (model/replacement.h), which knows at any time what
// it may give up: a miss does not look through the slots. A *sweep* (prefill) touches every expert once: its uses are
// not told to the policy, and it takes again the slots it used itself before it takes one from decoding, so it holds no
// more of those than it reads ahead. A *guess* (prefetch) takes an empty slot, or one whose expert is not wanted more.
//
// Every few steps the classes are compared: where the experts that one class would gain with another segment are wanted
// more, in bytes per step, than those that another class would lose, and this pays for filling the segment, a segment
// moves. A segment with a pinned or loading slot stays. Thread: the one that leads the step. Nothing is allocated after
// construction; nothing fails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/expert_heat.h"
#include "model/pool_layout.h"
#include "model/replacement.h"

namespace llmd {

/// kGuess and kWarm: for nobody yet; they count as no use. A guess takes no slot of an expert that is hotter, warming
/// only empty ones.
enum class ExpertUse : uint8_t { kDecode, kSweep, kGuess, kWarm };

struct PoolStatistics {
  uint64_t hits = 0, misses = 0;  // of sweeps and decoding
  uint64_t decode_hits = 0, decode_misses = 0;
  uint64_t evictions = 0, segment_moves = 0;
  uint64_t miss_bytes = 0;     // needed bytes of the misses, without block rounding
  uint64_t touched_bytes = 0;  // bytes of all acquired experts
  // Loaded on a guess: used since, given up unused, or dropped before the drive had begun. The others are still held.
  uint64_t guesses = 0, guesses_useful = 0, guesses_wasted = 0, guesses_late = 0;
};

class ExpertPool {
 public:
  /// Steps after which half of an expert's heat is gone: long, for segments and for what is kept over a restart.
  static constexpr double kHalfLifeSteps = 256;

  struct Taken {
    int32_t slot = -1;  // -1: every slot of the class is pinned or loading
    bool hit = false;
  };

  ExpertPool(const PoolShape& shape, const PoolLayout& layout, PolicyKind policy);
  /// With a policy of the caller's, for replays.
  ExpertPool(const PoolShape& shape, const PoolLayout& layout, std::unique_ptr<ReplacementPolicy> policy);
  ExpertPool(const ExpertPool&) = delete;
  ExpertPool& operator=(const ExpertPool&) = delete;

  /// The next acquires belong to this layer. A decode layer not above the last one begins a step.
  void begin_layer(int32_t layer, ExpertUse use);
  int32_t find(int32_t layer, int32_t expert) const { return table_[number(layer, expert)]; }
  /// Pins the expert's slot. A miss is loading until loaded() or drop().
  Taken acquire(int32_t layer, int32_t expert, ExpertUse use);
  void loaded(int32_t slot);
  void release(int32_t slot);
  /// Takes back that the slot's expert counts as touched.
  void not_touched(int32_t slot) {
    statistics_.touched_bytes -= shape_.layers[static_cast<size_t>(layer(slot))].expert_bytes;
  }
  /// Sees to it that the class has an empty slot, if it has one that is neither pinned nor loading.
  void make_room(int32_t size_class);
  /// Empties an unpinned slot whose load failed.
  void drop(int32_t slot);
  /// Empties an unpinned slot that loads on a guess and has not begun to.
  void drop_late(int32_t slot);

  /// Where the slot's memory begins in the pool.
  uint64_t offset(int32_t slot) const;
  bool loading(int32_t slot) const { return slots_[static_cast<size_t>(slot)].loading; }
  /// Loaded on a guess and not used yet.
  bool guessed(int32_t slot) const { return slots_[static_cast<size_t>(slot)].guessed; }
  int32_t pins(int32_t slot) const { return slots_[static_cast<size_t>(slot)].pins; }
  int32_t layer(int32_t slot) const { return slots_[static_cast<size_t>(slot)].expert / shape_.experts; }
  int32_t expert(int32_t slot) const { return slots_[static_cast<size_t>(slot)].expert % shape_.experts; }
  /// Slots of the class now, and those of them that are empty; slot numbers of all classes are below slot_numbers().
  uint32_t slots(int32_t size_class) const { return classes_[static_cast<size_t>(size_class)].slots; }
  uint32_t empty_slots(int32_t size_class) const {
    return static_cast<uint32_t>(classes_[static_cast<size_t>(size_class)].empty.size());
  }
  size_t slot_numbers() const { return slots_.size(); }
  /// How many slots of the class a sweep may fill ahead without taking more than a sixteenth of it from decoding.
  uint32_t sweep_slots(int32_t size_class) const;
  uint64_t evictions(int32_t size_class) const { return classes_[static_cast<size_t>(size_class)].evictions; }

  /// What earlier runs learnt: uses per step of every expert.
  void set_heat(std::span<const float> rates);
  const ExpertHeat& heat() const { return heat_; }
  const PoolStatistics& statistics() const { return statistics_; }
  const PoolShape& shape() const { return shape_; }

 private:
  struct Slot {
    int32_t expert = -1;  // layer * experts + id; -1: empty
    int32_t segment = 0;
    int32_t pins = 0;
    bool loading = false;
    bool guessed = false;
    bool swept = false;  // used by a sweep, and by no decode step since: in the class's list
    int32_t swept_before = -1, swept_after = -1;
  };
  struct Segment {
    PoolSegment place;
    int32_t size_class = 0;
    int32_t first_slot = 0;
    uint32_t slots = 0;
  };
  struct Class {
    uint32_t slots = 0;
    uint64_t evictions = 0;
    std::vector<int32_t> empty;  // slots
    int32_t swept_last = -1;     // head of the list of slots that a sweep used, the latest first
    double gain = 0, loss = 0;   // of one segment more or less, in bytes per step
  };

  size_t number(int32_t layer, int32_t expert) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(shape_.experts) + static_cast<size_t>(expert);
  }
  int32_t class_of(const Slot& slot) const { return segments_[static_cast<size_t>(slot.segment)].size_class; }
  /// May be given up.
  static bool free_to_go(const Slot& slot) { return slot.expert >= 0 && slot.pins == 0 && !slot.loading; }
  void pin(Slot& slot);
  int32_t take_slot(int32_t size_class, int32_t wanted, ExpertUse use);
  int32_t victim(int32_t size_class, int32_t layer, ExpertUse use);
  void evict(int32_t slot);
  void empty_slot(int32_t slot);
  void link_swept(int32_t slot);
  void unlink_swept(int32_t slot);
  void open_segment(size_t segment, int32_t size_class);

  void balance();
  void weigh(size_t size_class);
  int32_t coldest_segment(int32_t size_class);
  void move_segment(size_t segment, int32_t size_class);

  PoolShape shape_;
  ExpertHeat heat_;
  std::unique_ptr<ReplacementPolicy> policy_;
  std::vector<Slot> slots_;
  std::vector<Segment> segments_;
  std::vector<Class> classes_;
  std::vector<int32_t> table_;
  uint64_t segment_bytes_ = 0;  // of a movable segment; 0: there are none
  uint64_t steps_ = 0;
  int32_t last_layer_ = -1;  // that decoding has begun
  std::vector<double> weights_;
  PoolStatistics statistics_;
};

}  // namespace llmd
