// What segments lose to rounding at the sizes of real experts, and that every class has its floor.
#include "model/pool_layout.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/model/pool_shapes.h"

namespace llmd {
namespace {

// gate and up, down: as the common mixes have them.
const std::vector<std::vector<Recipe>> kMixes = {
    {{kBitsQ4K, kBitsQ4K}},
    {{kBitsQ4K, kBitsQ4K}, {kBitsQ4K, kBitsQ6K}},
    {{kBitsQ2K, kBitsQ3K}, {kBitsQ2K, kBitsQ2K}},
    {{kBitsQ3K, kBitsQ4K}, {kBitsQ3K, kBitsQ5K}},
    {{kBitsQ5K, kBitsQ5K}, {kBitsQ5K, kBitsQ6K}},
    {{kBitsQ2K, kBitsQ3K}, {kBitsQ3K, kBitsQ4K}, {kBitsQ4K, kBitsQ6K}},
    {{kBitsIq4Xs, kBitsQ5K}, {kBitsQ4K, kBitsQ6K}, {kBitsQ8, kBitsQ8}},
    {{kBitsQ2K, kBitsQ2K}, {kBitsQ2K, kBitsQ3K}, {kBitsQ3K, kBitsQ5K}, {kBitsQ6K, kBitsQ6K}},
};

double loss(const PoolShape& shape, const PoolLayout& layout, uint64_t bytes) {
  uint64_t used = 0;
  for (size_t c = 0; c < shape.classes.size(); c++) {
    uint64_t expert = 0;
    for (const PoolShape::Layer& layer : shape.layers)
      if (layer.size_class == static_cast<int32_t>(c)) expert = layer.expert_bytes;
    used += layout.slots[c] * expert;
  }
  return 1 - static_cast<double>(used) / static_cast<double>(bytes);
}

struct Model {
  const char* name;
  int64_t width, ff;
  int32_t layers, experts, used;
  std::vector<uint64_t> pools;
};
const Model kModels[] = {
    {"v2-lite", 2048, 1408, 26, 64, 6, {1ull << 30, 3ull << 30, 5ull << 30}},
    {"r1", 7168, 2048, 58, 256, 8, {12ull << 30, 44ull << 30, 100ull << 30, 200ull << 30}},
};

TEST(PoolLayout, LosesUnderThreePercent_AtRealExpertSizesOfMixedTypes) {
  for (const Model& model : kModels) {
    for (const std::vector<Recipe>& mix : kMixes) {
      PoolShape shape = mixed_shape(model.width, model.ff, model.layers, model.experts, model.used, mix);
      for (uint64_t base : model.pools) {
        for (uint64_t bytes = base; bytes < base + base / 2; bytes += base / 37) {
          if (bytes < pool_floor_bytes(shape) || bytes > pool_full_bytes(shape)) continue;
          PoolLayout layout = lay_out_pool(shape, bytes);
          ASSERT_LE(layout.bytes, bytes);
          EXPECT_LT(loss(shape, layout, bytes), 0.03) << model.name << " " << mix.size() << " sizes, pool " << bytes;
          // Also when a segment has moved to any other class.
          for (const PoolSegment& segment : layout.segments) {
            if (!segment.movable) continue;
            for (const PoolClass& c : shape.classes) {
              EXPECT_LT(segment.bytes % c.slot_bytes, segment.bytes * 3 / 100) << model.name << " " << bytes;
              EXPECT_GE(segment.slots(c.slot_bytes), 8u);
            }
          }
        }
      }
    }
  }
}

TEST(PoolLayout, HasTheFloorOfEveryClassInFixedSegments_FromTheFloorUp) {
  PoolShape shape = mixed_shape(2048, 1408, 26, 64, 6, kMixes[5]);
  for (uint64_t bytes = pool_floor_bytes(shape); bytes < 2 * pool_full_bytes(shape); bytes += bytes / 9) {
    PoolLayout layout = lay_out_pool(shape, bytes);
    ASSERT_LE(layout.bytes, bytes);
    uint64_t end = 0;
    std::vector<uint32_t> fixed(shape.classes.size());
    for (const PoolSegment& segment : layout.segments) {
      EXPECT_EQ(segment.offset, end);
      EXPECT_EQ(segment.offset % 4096, 0u);
      end += segment.bytes;
      size_t at = static_cast<size_t>(segment.size_class);
      if (!segment.movable) fixed[at] += segment.slots(shape.classes[at].slot_bytes);
    }
    EXPECT_EQ(end, layout.bytes);
    for (size_t c = 0; c < fixed.size(); c++) EXPECT_GE(fixed[c], shape.slots_floor(c));
  }
}

TEST(PoolLayout, HoldsEveryExpertExactly_WhenThereIsRoom) {
  PoolShape shape = mixed_shape(2048, 1408, 26, 64, 6, kMixes[5]);
  PoolLayout layout = lay_out_pool(shape, pool_full_bytes(shape));
  EXPECT_EQ(layout.bytes, pool_full_bytes(shape));
  for (size_t c = 0; c < shape.classes.size(); c++) EXPECT_EQ(layout.slots[c], shape.slots_full(c));
}

}  // namespace
}  // namespace llmd
