// PoolLayout: how the bytes of the expert pool are cut into segments, and which size class starts with which.
//
//   [ fixed: class 0 | fixed: class 1 | ... ][ movable ][ movable ][ movable ] ...
//     the floor of each class, for ever        equal sizes, each of one class at a time
//
// A file that mixes quant types has experts of several sizes. Each class keeps a fixed segment with its floor (two
// layers' experts for one row) and what is left over elsewhere; the rest is cut into movable segments, at least 8 slots
// each. Their size is chosen so that every class fills them with little left over. A pool with one class, or one that
// holds everything, needs no movable segments. Pure functions of metadata; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmd {

struct PoolClass {
  uint64_t slot_bytes = 0;  // multiple of 4096
  int32_t layers = 0;
};

/// What the pool needs to know of a model: the size of every layer's experts.
struct PoolShape {
  struct Layer {
    int32_t size_class = -1;    // -1: no experts in this layer
    uint64_t expert_bytes = 0;  // what a miss reads, without block rounding
  };
  int32_t experts = 0, used = 0;  // of a layer; of those, by one row
  std::vector<Layer> layers;
  std::vector<PoolClass> classes;

  /// The slots with which every expert of the class is resident, and the fewest that work.
  uint32_t slots_full(size_t size_class) const;
  uint32_t slots_floor(size_t size_class) const;
  /// Bytes of all experts that one row uses.
  uint64_t token_bytes() const;
};

struct PoolSegment {
  uint64_t offset = 0, bytes = 0;
  int32_t size_class = 0;  // at the start
  bool movable = false;
  uint32_t slots(uint64_t slot_bytes) const { return static_cast<uint32_t>(bytes / slot_bytes); }
};

struct PoolLayout {
  std::vector<PoolSegment> segments;
  uint64_t bytes = 0;           // what the segments take
  std::vector<uint32_t> slots;  // per size class, at the start
};

/// The fewest pool bytes that work, and those beyond which every expert is resident.
uint64_t pool_floor_bytes(const PoolShape& shape);
uint64_t pool_full_bytes(const PoolShape& shape);
/// Lays out `bytes`, at least the floor. More than pool_full_bytes() is left unused.
PoolLayout lay_out_pool(const PoolShape& shape, uint64_t bytes);

}  // namespace llmd
