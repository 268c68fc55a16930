#include "model/pool_layout.h"

#include <algorithm>

#include "io/check.h"

namespace llmd {
namespace {

constexpr uint64_t kSegmentSlotsMin = 8, kSegmentSlotsMax = 64;
// Enough segments that moving one is a small step: fewer only where rounding would lose too much.
constexpr uint64_t kSegmentsWanted = 16, kSegmentsMin = 4;
constexpr double kLossWanted = 0.01, kLossAccepted = 0.025;

uint64_t largest_slot(const PoolShape& shape) {
  uint64_t largest = 0;
  for (const PoolClass& c : shape.classes) largest = std::max(largest, c.slot_bytes);
  return largest;
}

// What a segment of this size loses to rounding in the class that fills it worst.
double worst_loss(const PoolShape& shape, uint64_t segment_bytes) {
  uint64_t lost = 0;
  for (const PoolClass& c : shape.classes) lost = std::max(lost, segment_bytes % c.slot_bytes);
  return static_cast<double>(lost) / static_cast<double>(segment_bytes);
}

// Multiples of each class's slot are tried, so that at least one class loses nothing: the smallest that loses little,
// or else the one that loses least.
uint64_t choose_segment_bytes(const PoolShape& shape, uint64_t bytes) {
  uint64_t largest = largest_slot(shape), least = kSegmentSlotsMin * largest;
  uint64_t most = std::clamp(bytes / kSegmentsMin, least, kSegmentSlotsMax * largest);
  std::vector<uint64_t> candidates;
  for (const PoolClass& c : shape.classes)
    for (uint64_t size = (least + c.slot_bytes - 1) / c.slot_bytes * c.slot_bytes; size <= most; size += c.slot_bytes)
      candidates.push_back(size);
  std::sort(candidates.begin(), candidates.end());
  uint64_t best = candidates.front();
  for (uint64_t size : candidates) {
    double accepted = size * kSegmentsWanted <= bytes ? kLossWanted : kLossAccepted;
    if (worst_loss(shape, best) <= accepted) break;
    if (worst_loss(shape, size) < worst_loss(shape, best)) best = size;
  }
  return best;
}

// How much of what lies above the floors a class should start with: as much of it as it could use.
std::vector<double> shares(const PoolShape& shape) {
  std::vector<double> share;
  double sum = 0;
  for (size_t c = 0; c < shape.classes.size(); c++) {
    share.push_back(static_cast<double>(shape.slots_full(c) - shape.slots_floor(c)) *
                    static_cast<double>(shape.classes[c].slot_bytes));
    sum += share.back();
  }
  for (double& s : share) s = sum > 0 ? s / sum : 0;
  return share;
}

// Gives each movable segment to the class that is farthest below its share and still has experts to put there.
void assign_segments(const PoolShape& shape, uint64_t segment_bytes, uint64_t count, std::vector<uint32_t>& slots,
                     std::vector<int32_t>& assigned) {
  std::vector<double> share = shares(shape), has(shape.classes.size(), 0);
  for (uint64_t i = 0; i < count; i++) {
    int32_t best = -1;
    double best_lack = 0;
    for (size_t c = 0; c < shape.classes.size(); c++) {
      double lack = share[c] * static_cast<double>(count * segment_bytes) - has[c];
      if (slots[c] >= shape.slots_full(c) || (best >= 0 && lack <= best_lack)) continue;
      best = static_cast<int32_t>(c);
      best_lack = lack;
    }
    if (best < 0) return;
    size_t at = static_cast<size_t>(best);
    has[at] += static_cast<double>(segment_bytes);
    slots[at] += static_cast<uint32_t>(segment_bytes / shape.classes[at].slot_bytes);
    assigned.push_back(best);
  }
}

// Adds slots of the class to its fixed segment while there are bytes and experts for them.
void grow(const PoolShape& shape, size_t size_class, uint64_t& bytes, std::vector<uint32_t>& fixed) {
  uint64_t slot = shape.classes[size_class].slot_bytes;
  uint64_t more = std::min<uint64_t>(bytes / slot, shape.slots_full(size_class) - fixed[size_class]);
  fixed[size_class] += static_cast<uint32_t>(more);
  bytes -= more * slot;
}

}  // namespace

uint32_t PoolShape::slots_full(size_t size_class) const {
  return static_cast<uint32_t>(classes[size_class].layers) * static_cast<uint32_t>(experts);
}

uint32_t PoolShape::slots_floor(size_t size_class) const {
  return static_cast<uint32_t>(std::min(classes[size_class].layers, 2) * used);
}

uint64_t PoolShape::token_bytes() const {
  uint64_t bytes = 0;
  for (const Layer& layer : layers)
    if (layer.size_class >= 0) bytes += layer.expert_bytes * static_cast<uint64_t>(used);
  return bytes;
}

uint64_t pool_floor_bytes(const PoolShape& shape) {
  uint64_t bytes = 0;
  for (size_t c = 0; c < shape.classes.size(); c++) bytes += shape.classes[c].slot_bytes * shape.slots_floor(c);
  return bytes;
}

uint64_t pool_full_bytes(const PoolShape& shape) {
  uint64_t bytes = 0;
  for (size_t c = 0; c < shape.classes.size(); c++) bytes += shape.classes[c].slot_bytes * shape.slots_full(c);
  return bytes;
}

PoolLayout lay_out_pool(const PoolShape& shape, uint64_t bytes) {
  LLMD_CHECK(bytes >= pool_floor_bytes(shape));
  const size_t classes = shape.classes.size();
  PoolLayout layout;
  std::vector<uint32_t> fixed;
  for (size_t c = 0; c < classes; c++) fixed.push_back(shape.slots_floor(c));
  uint64_t rest = bytes - pool_floor_bytes(shape), segment_bytes = 0;
  layout.slots = fixed;
  std::vector<int32_t> movable;
  if (bytes >= pool_full_bytes(shape)) {
    for (size_t c = 0; c < classes; c++) grow(shape, c, rest, fixed);
  } else if (classes > 1 && rest >= 2 * kSegmentSlotsMin * largest_slot(shape)) {
    segment_bytes = choose_segment_bytes(shape, rest);
    assign_segments(shape, segment_bytes, rest / segment_bytes, layout.slots, movable);
    rest -= movable.size() * segment_bytes;
  } else {
    std::vector<double> share = shares(shape);
    for (size_t c = 0; c < classes; c++) {
      uint64_t part = static_cast<uint64_t>(share[c] * static_cast<double>(bytes - pool_floor_bytes(shape)));
      uint64_t left = part;
      grow(shape, c, left, fixed);
      rest -= part - left;
    }
  }
  for (size_t c = 0; c < classes; c++) grow(shape, c, rest, fixed);  // what is left over
  layout.slots = fixed;
  for (size_t c = 0; c < classes; c++) {
    uint64_t fixed_bytes = fixed[c] * shape.classes[c].slot_bytes;
    layout.segments.push_back({layout.bytes, fixed_bytes, static_cast<int32_t>(c), false});
    layout.bytes += fixed_bytes;
  }
  for (int32_t size_class : movable) {
    layout.segments.push_back({layout.bytes, segment_bytes, size_class, true});
    layout.bytes += segment_bytes;
    size_t at = static_cast<size_t>(size_class);
    layout.slots[at] += static_cast<uint32_t>(segment_bytes / shape.classes[at].slot_bytes);
  }
  return layout;
}

}  // namespace llmd
