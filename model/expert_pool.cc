#include "model/expert_pool.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "io/check.h"

namespace llmd {
namespace {

// How often the classes are compared, and over how many steps a move must pay for filling the segment.
constexpr uint64_t kBalanceSteps = 8;
constexpr double kPaybackSteps = 64;

}  // namespace

ExpertPool::ExpertPool(const PoolShape& shape, const PoolLayout& layout, PolicyKind policy)
    : ExpertPool(shape, layout, nullptr) {
  policy_ = make_policy(policy, shape_, heat_);
}

ExpertPool::ExpertPool(const PoolShape& shape, const PoolLayout& layout, std::unique_ptr<ReplacementPolicy> policy)
    : shape_(shape),
      heat_(shape.layers.size() * static_cast<size_t>(shape.experts), kHalfLifeSteps),
      policy_(std::move(policy)),
      classes_(shape.classes.size()),
      table_(shape.layers.size() * static_cast<size_t>(shape.experts), -1) {
  uint64_t smallest = UINT64_MAX;
  for (const PoolClass& c : shape_.classes) smallest = std::min(smallest, c.slot_bytes);
  size_t numbers = 0;
  for (const PoolSegment& place : layout.segments) {
    Segment segment{place, place.size_class, static_cast<int32_t>(numbers), 0};
    uint64_t slot = place.movable ? smallest : shape_.classes[static_cast<size_t>(place.size_class)].slot_bytes;
    numbers += place.slots(slot);
    segments_.push_back(segment);
    if (place.movable) segment_bytes_ = place.bytes;
  }
  slots_.resize(numbers);
  candidates_.reserve(numbers);
  candidate_slots_.reserve(numbers);
  weights_.reserve(std::max(numbers, table_.size()));
  for (Class& c : classes_) c.empty.reserve(numbers);
  for (size_t s = segments_.size(); s > 0; s--) open_segment(s - 1, segments_[s - 1].size_class);
}

// Cuts a segment into empty slots of a class. The lowest is taken first.
void ExpertPool::open_segment(size_t index, int32_t size_class) {
  Segment& segment = segments_[index];
  Class& c = classes_[static_cast<size_t>(size_class)];
  segment.size_class = size_class;
  segment.slots = segment.place.slots(shape_.classes[static_cast<size_t>(size_class)].slot_bytes);
  for (uint32_t i = segment.slots; i > 0; i--) {
    int32_t slot = segment.first_slot + static_cast<int32_t>(i - 1);
    slots_[static_cast<size_t>(slot)] = {-1, static_cast<int32_t>(index), 0, false, 0};
    c.empty.push_back(slot);
  }
  c.slots += segment.slots;
}

uint64_t ExpertPool::offset(int32_t index) const {
  const Segment& segment = segments_[static_cast<size_t>(slots_[static_cast<size_t>(index)].segment)];
  return segment.place.offset + static_cast<uint64_t>(index - segment.first_slot) *
                                    shape_.classes[static_cast<size_t>(segment.size_class)].slot_bytes;
}

uint32_t ExpertPool::sweep_slots(int32_t size_class) const {
  return std::max<uint32_t>(2, slots(size_class) / 16);
}

void ExpertPool::begin_layer(int32_t layer, ExpertUse use) {
  if (use != ExpertUse::kDecode) return;
  if (layer <= last_layer_) {
    heat_.next_step();
    policy_->next_step();
    if (++steps_ % kBalanceSteps == 0 && segment_bytes_ > 0) balance();
  }
  last_layer_ = layer;
}

ExpertPool::Taken ExpertPool::acquire(int32_t layer, int32_t expert, ExpertUse use) {
  const PoolShape::Layer& of = shape_.layers[static_cast<size_t>(layer)];
  const int32_t wanted = static_cast<int32_t>(number(layer, expert));
  Taken taken{find(layer, expert), true};
  if (taken.slot < 0) taken = {take_slot(of.size_class, wanted, use), false};
  if (taken.slot < 0) return taken;
  Slot& slot = slots_[static_cast<size_t>(taken.slot)];
  slot.pins++;
  if (use == ExpertUse::kDecode) {
    heat_.use(wanted);
    policy_->use(wanted);
    slot.sweep = 0;
    (taken.hit ? statistics_.decode_hits : statistics_.decode_misses)++;
  } else if (use == ExpertUse::kSweep && (!taken.hit || slot.sweep > 0)) {
    slot.sweep = ++sweep_uses_;
  }
  if (use != ExpertUse::kWarm) {
    (taken.hit ? statistics_.hits : statistics_.misses)++;
    statistics_.touched_bytes += of.expert_bytes;
    if (!taken.hit) statistics_.miss_bytes += of.expert_bytes;
  }
  if (taken.hit) return taken;
  slot.expert = wanted;
  slot.loading = true;
  table_[static_cast<size_t>(wanted)] = taken.slot;
  return taken;
}

int32_t ExpertPool::take_slot(int32_t size_class, int32_t wanted, ExpertUse use) {
  Class& c = classes_[static_cast<size_t>(size_class)];
  if (!c.empty.empty()) {
    int32_t slot = c.empty.back();
    c.empty.pop_back();
    return slot;
  }
  return use == ExpertUse::kWarm ? -1 : evict_victim(size_class, wanted, use);
}

int32_t ExpertPool::evict_victim(int32_t size_class, int32_t wanted, ExpertUse use) {
  int32_t slot = victim(size_class, wanted, use);
  if (slot < 0) return -1;
  statistics_.evictions++;
  classes_[static_cast<size_t>(size_class)].evictions++;
  evict(slot);
  return slot;
}

void ExpertPool::make_room(int32_t size_class) {
  Class& c = classes_[static_cast<size_t>(size_class)];
  if (!c.empty.empty()) return;
  int32_t slot = evict_victim(size_class, -1, ExpertUse::kSweep);
  if (slot >= 0) c.empty.push_back(slot);
}

int32_t ExpertPool::victim(int32_t size_class, int32_t wanted, ExpertUse use) {
  candidates_.clear();
  candidate_slots_.clear();
  int32_t swept = -1;  // what a sweep used last: it comes again when the next sweep has gone all the way round
  for (const Segment& segment : segments_) {
    if (segment.size_class != size_class) continue;
    for (int32_t i = segment.first_slot; i < segment.first_slot + static_cast<int32_t>(segment.slots); i++) {
      const Slot& slot = slots_[static_cast<size_t>(i)];
      if (slot.expert < 0 || slot.pins > 0 || slot.loading) continue;
      if (slot.sweep > 0 && (swept < 0 || slot.sweep > slots_[static_cast<size_t>(swept)].sweep)) swept = i;
      candidates_.push_back(slot.expert);
      candidate_slots_.push_back(i);
    }
  }
  if (candidates_.empty()) return -1;
  if (use == ExpertUse::kSweep && swept >= 0) return swept;
  return candidate_slots_[policy_->victim(candidates_, wanted)];
}

void ExpertPool::evict(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  table_[static_cast<size_t>(slot.expert)] = -1;
  slot.expert = -1;
  slot.sweep = 0;
}

void ExpertPool::release(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  LLMD_CHECK(slot.pins > 0);
  slot.pins--;
}

void ExpertPool::drop(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  LLMD_CHECK(slot.pins == 0 && slot.loading);
  slot.loading = false;
  evict(index);
  classes_[static_cast<size_t>(class_of(slot))].empty.push_back(index);
}

// ---------------------------------------------------------------- segments

// Moves at most one segment, from the class that loses least by it to the one that gains most.
void ExpertPool::balance() {
  size_t from = 0, to = 0;
  for (size_t c = 0; c < classes_.size(); c++) {
    weigh(c);
    if (classes_[c].loss < classes_[from].loss) from = c;
    if (classes_[c].gain > classes_[to].gain) to = c;
  }
  double profit = (classes_[to].gain - classes_[from].loss) * kPaybackSteps;
  if (from == to || profit <= static_cast<double>(segment_bytes_)) return;
  int32_t segment = coldest_segment(static_cast<int32_t>(from));
  if (segment >= 0) move_segment(static_cast<size_t>(segment), static_cast<int32_t>(to));
}

// What one segment more would keep the class from reading, and one less would make it read, in bytes per step: the
// experts that come next by heat after as many as there are slots, and the last of those. Which experts are resident at
// the moment does not count: the policy looks at shorter times, and what it left out would always look like a gain.
void ExpertPool::weigh(size_t index) {
  Class& c = classes_[index];
  weights_.clear();
  for (size_t layer = 0; layer < shape_.layers.size(); layer++) {
    if (shape_.layers[layer].size_class != static_cast<int32_t>(index)) continue;
    for (int32_t expert = 0; expert < shape_.experts; expert++) {
      float heat = heat_[static_cast<int32_t>(number(static_cast<int32_t>(layer), expert))];
      weights_.push_back(heat_.rate(heat) * static_cast<double>(shape_.layers[layer].expert_bytes));
    }
  }
  std::sort(weights_.begin(), weights_.end(), std::greater<>());
  auto sum = [&](size_t begin, size_t end) {
    double total = 0;
    for (size_t i = begin; i < std::min(end, weights_.size()); i++) total += weights_[i];
    return total;
  };
  size_t count = static_cast<size_t>(segment_bytes_ / shape_.classes[index].slot_bytes);
  bool has_movable = std::any_of(segments_.begin(), segments_.end(), [&](const Segment& segment) {
    return segment.place.movable && segment.size_class == static_cast<int32_t>(index);
  });
  c.gain = sum(c.slots, c.slots + count);
  c.loss = has_movable ? sum(c.slots - count, c.slots) : std::numeric_limits<double>::infinity();
}

// The movable segment of the class whose residents are wanted least; -1 when each has a slot in use.
int32_t ExpertPool::coldest_segment(int32_t size_class) {
  int32_t coldest = -1;
  double coldest_heat = 0;
  for (size_t s = 0; s < segments_.size(); s++) {
    const Segment& segment = segments_[s];
    if (!segment.place.movable || segment.size_class != size_class) continue;
    double heat = 0;
    bool held = false;
    for (uint32_t i = 0; i < segment.slots; i++) {
      const Slot& slot = slots_[static_cast<size_t>(segment.first_slot) + i];
      held = held || slot.pins > 0 || slot.loading;
      if (slot.expert >= 0) heat += static_cast<double>(heat_[slot.expert]);
    }
    if (held || (coldest >= 0 && heat >= coldest_heat)) continue;
    coldest = static_cast<int32_t>(s);
    coldest_heat = heat;
  }
  return coldest;
}

void ExpertPool::move_segment(size_t index, int32_t size_class) {
  Segment& segment = segments_[index];
  Class& from = classes_[static_cast<size_t>(segment.size_class)];
  for (uint32_t i = 0; i < segment.slots; i++) {
    int32_t slot = segment.first_slot + static_cast<int32_t>(i);
    if (slots_[static_cast<size_t>(slot)].expert < 0) continue;
    statistics_.evictions++;
    from.evictions++;
    evict(slot);
  }
  std::erase_if(from.empty,
                [&](int32_t slot) { return slots_[static_cast<size_t>(slot)].segment == static_cast<int32_t>(index); });
  from.slots -= segment.slots;
  open_segment(index, size_class);
  statistics_.segment_moves++;
}

}  // namespace llmd
