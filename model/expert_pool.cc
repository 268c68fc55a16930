#include "model/expert_pool.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

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
  weights_.reserve(table_.size());
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
    slots_[static_cast<size_t>(slot)] = {};
    slots_[static_cast<size_t>(slot)].segment = static_cast<int32_t>(index);
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
  pin(slot);
  if (use == ExpertUse::kDecode) {
    heat_.use(wanted);
    policy_->use(wanted);
    unlink_swept(taken.slot);
    (taken.hit ? statistics_.decode_hits : statistics_.decode_misses)++;
  } else if (use == ExpertUse::kSweep && (!taken.hit || slot.swept)) {
    unlink_swept(taken.slot);
    link_swept(taken.slot);
  }
  if (use == ExpertUse::kDecode || use == ExpertUse::kSweep) {
    (taken.hit ? statistics_.hits : statistics_.misses)++;
    statistics_.touched_bytes += of.expert_bytes;
    if (!taken.hit) statistics_.miss_bytes += of.expert_bytes;
    if (slot.guessed) statistics_.guesses_useful++;
    slot.guessed = false;
  }
  if (taken.hit) return taken;
  slot.expert = wanted;
  slot.loading = true;
  slot.guessed = use == ExpertUse::kGuess;
  if (slot.guessed) statistics_.guesses++;
  table_[static_cast<size_t>(wanted)] = taken.slot;
  return taken;
}

void ExpertPool::pin(Slot& slot) {
  if (free_to_go(slot)) policy_->withdraw(slot.expert);
  slot.pins++;
}

void ExpertPool::release(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  LLMD_CHECK(slot.pins > 0);
  slot.pins--;
  if (free_to_go(slot)) policy_->offer(slot.expert);
}

void ExpertPool::loaded(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  slot.loading = false;
  if (free_to_go(slot)) policy_->offer(slot.expert);
}

int32_t ExpertPool::take_slot(int32_t size_class, int32_t wanted, ExpertUse use) {
  Class& c = classes_[static_cast<size_t>(size_class)];
  if (c.empty.empty()) {
    if (use == ExpertUse::kWarm) return -1;
    int32_t running = use == ExpertUse::kGuess ? last_layer_ : wanted / shape_.experts;
    int32_t slot = victim(size_class, running, use);
    if (slot < 0) return -1;
    if (use == ExpertUse::kGuess && policy_->hotter(slots_[static_cast<size_t>(slot)].expert, wanted, running))
      return -1;
    evict(slot);
  }
  int32_t slot = c.empty.back();
  c.empty.pop_back();
  return slot;
}

void ExpertPool::make_room(int32_t size_class) {
  if (!classes_[static_cast<size_t>(size_class)].empty.empty()) return;
  int32_t slot = victim(size_class, 0, ExpertUse::kSweep);
  if (slot >= 0) evict(slot);
}

// A sweep gives up what it used last itself: that comes again when the next sweep has gone all the way round. Those in
// front of it in the list are in use, and a sweep holds few.
int32_t ExpertPool::victim(int32_t size_class, int32_t layer, ExpertUse use) {
  if (use == ExpertUse::kSweep) {
    int32_t slot = classes_[static_cast<size_t>(size_class)].swept_last;
    while (slot >= 0 && !free_to_go(slots_[static_cast<size_t>(slot)]))
      slot = slots_[static_cast<size_t>(slot)].swept_before;
    if (slot >= 0) return slot;
  }
  int32_t expert = policy_->victim(size_class, layer);
  return expert < 0 ? -1 : table_[static_cast<size_t>(expert)];
}

// Of an expert that is free to go.
void ExpertPool::evict(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  statistics_.evictions++;
  classes_[static_cast<size_t>(class_of(slot))].evictions++;
  policy_->withdraw(slot.expert);
  empty_slot(index);
}

void ExpertPool::drop(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  LLMD_CHECK(slot.pins == 0 && slot.loading);
  slot.loading = false;
  empty_slot(index);
}

void ExpertPool::drop_late(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  if (slot.guessed) statistics_.guesses_late++;
  slot.guessed = false;
  drop(index);
}

void ExpertPool::empty_slot(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  if (slot.guessed) statistics_.guesses_wasted++;
  slot.guessed = false;
  unlink_swept(index);
  table_[static_cast<size_t>(slot.expert)] = -1;
  slot.expert = -1;
  classes_[static_cast<size_t>(class_of(slot))].empty.push_back(index);
}

void ExpertPool::link_swept(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  Class& c = classes_[static_cast<size_t>(class_of(slot))];
  slot.swept = true;
  slot.swept_before = c.swept_last;
  slot.swept_after = -1;
  if (c.swept_last >= 0) slots_[static_cast<size_t>(c.swept_last)].swept_after = index;
  c.swept_last = index;
}

void ExpertPool::unlink_swept(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  if (!slot.swept) return;
  slot.swept = false;
  if (slot.swept_before >= 0) slots_[static_cast<size_t>(slot.swept_before)].swept_after = slot.swept_after;
  if (slot.swept_after >= 0)
    slots_[static_cast<size_t>(slot.swept_after)].swept_before = slot.swept_before;
  else
    classes_[static_cast<size_t>(class_of(slot))].swept_last = slot.swept_before;
}

void ExpertPool::set_heat(std::span<const float> rates) {
  heat_.set_rates(rates);
  policy_->heat_replaced();
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
  // Only who is among the first so many matters, not their order.
  auto sum = [&](size_t begin, size_t end) {
    begin = std::min(begin, weights_.size());
    end = std::min(end, weights_.size());
    auto from = weights_.begin() + static_cast<std::ptrdiff_t>(begin);
    auto to = weights_.begin() + static_cast<std::ptrdiff_t>(end);
    if (begin < weights_.size()) std::nth_element(weights_.begin(), from, weights_.end(), std::greater<>());
    if (end < weights_.size()) std::nth_element(from, to, weights_.end(), std::greater<>());
    return std::accumulate(from, to, 0.0);
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
    if (slots_[static_cast<size_t>(slot)].expert >= 0) evict(slot);
  }
  std::erase_if(from.empty,
                [&](int32_t slot) { return slots_[static_cast<size_t>(slot)].segment == static_cast<int32_t>(index); });
  from.slots -= segment.slots;
  open_segment(index, size_class);
  statistics_.segment_moves++;
}

}  // namespace llmd
