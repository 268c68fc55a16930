// The bookkeeping of the expert pool: pins, victims, sweeps, and segments that move between size classes.
#include "model/expert_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/scanning_policy.h"
#include "tests/model/pool_shapes.h"

namespace llmd {
namespace {

// 8 layers of 32 experts, 4 used: half of them large, half small.
PoolShape two_classes() {
  return mixed_shape(512, 256, 8, 32, 4, {{kBitsQ4K, kBitsQ4K}, {kBitsQ2K, kBitsQ2K}});
}

// Routes rows over experts, the first ones likelier: expert e of a layer has weight 1 / (1 + e)^skew, in an order of
// the layer's own.
class Traffic {
 public:
  Traffic(const PoolShape& shape, uint32_t seed) : shape_(shape), random_(seed) {
    for (size_t layer = 0; layer < shape.layers.size(); layer++) {
      std::vector<int32_t> order(static_cast<size_t>(shape.experts));
      for (size_t e = 0; e < order.size(); e++) order[e] = static_cast<int32_t>(e);
      std::shuffle(order.begin(), order.end(), random_);
      order_.push_back(order);
    }
  }
  std::vector<int32_t> ids(int32_t layer, double skew) {
    std::vector<double> weights;
    for (int32_t e = 0; e < shape_.experts; e++) weights.push_back(std::pow(1.0 + e, -skew));
    std::vector<int32_t> ids;
    while (ids.size() < static_cast<size_t>(shape_.used)) {
      std::discrete_distribution<int32_t> draw(weights.begin(), weights.end());
      int32_t rank = draw(random_);
      weights[static_cast<size_t>(rank)] = 0;
      ids.push_back(order_[static_cast<size_t>(layer)][static_cast<size_t>(rank)]);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }

 private:
  PoolShape shape_;
  std::mt19937 random_;
  std::vector<std::vector<int32_t>> order_;
};

// One decode step; hits, misses go to the pool's statistics.
void use_layer(ExpertPool& pool, int32_t layer, const std::vector<int32_t>& ids, ExpertUse use) {
  pool.begin_layer(layer, use);
  std::vector<int32_t> held;
  for (int32_t id : ids) {
    ExpertPool::Taken taken = pool.acquire(layer, id, use);
    ASSERT_GE(taken.slot, 0);
    ASSERT_EQ(pool.find(layer, id), taken.slot);
    if (!taken.hit) pool.loaded(taken.slot);
    held.push_back(taken.slot);
  }
  for (int32_t slot : held) pool.release(slot);
}

// A step whose rows are nearly all of one class: the other class's layers always use the same experts.
void shifting_step(ExpertPool& pool, Traffic& traffic, int32_t busy_class) {
  const PoolShape& shape = pool.shape();
  for (int32_t layer = 0; layer < static_cast<int32_t>(shape.layers.size()); layer++) {
    bool busy = shape.layers[static_cast<size_t>(layer)].size_class == busy_class;
    use_layer(pool, layer, busy ? traffic.ids(layer, 0.6) : std::vector<int32_t>{0, 1, 2, 3}, ExpertUse::kDecode);
  }
}

double hit_rate(const PoolStatistics& from, const PoolStatistics& to) {
  double hits = static_cast<double>(to.decode_hits - from.decode_hits);
  return hits / (hits + static_cast<double>(to.decode_misses - from.decode_misses));
}

// The hit rate in the last half of a phase.
double settled_hit_rate(ExpertPool& pool, Traffic& traffic, int32_t busy_class, int steps) {
  for (int i = 0; i < steps / 2; i++) shifting_step(pool, traffic, busy_class);
  PoolStatistics before = pool.statistics();
  for (int i = 0; i < steps / 2; i++) shifting_step(pool, traffic, busy_class);
  return hit_rate(before, pool.statistics());
}

// A pool whose segments are split once and for all: nothing is left to move.
double best_fixed_split(const PoolShape& shape, const PoolLayout& layout, int32_t busy_class, int steps) {
  double best = 0;
  uint64_t segment_bytes = layout.segments.back().bytes;
  size_t movable = 0;
  for (const PoolSegment& segment : layout.segments) movable += segment.movable;
  for (size_t large = 0; large <= movable; large++) {
    PoolLayout fixed = layout;
    size_t seen = 0;
    for (PoolSegment& segment : fixed.segments) {
      if (!segment.movable) continue;
      segment.size_class = seen++ < large ? 0 : 1;
      segment.movable = false;
    }
    EXPECT_GT(segment_bytes, 0u);
    ExpertPool pool(shape, fixed, PolicyKind::kHeat);
    Traffic traffic(shape, 5);
    best = std::max(best, settled_hit_rate(pool, traffic, busy_class, steps));
  }
  return best;
}

TEST(ExpertPool, EndsWithinThreePointsOfAnIdealSplit_WhenTheWorkShiftsBetweenClasses) {
  PoolShape shape = two_classes();
  PoolLayout layout = lay_out_pool(shape, pool_full_bytes(shape) * 4 / 10);
  ASSERT_TRUE(layout.segments.back().movable);
  constexpr int kSteps = 1200;
  ExpertPool pool(shape, layout, PolicyKind::kHeat);
  for (int32_t busy_class : {0, 1, 0}) {
    Traffic traffic(shape, 5);
    double ideal = best_fixed_split(shape, layout, busy_class, kSteps);
    double reached = settled_hit_rate(pool, traffic, busy_class, kSteps);
    EXPECT_GT(reached, ideal - 0.03) << "class " << busy_class << " of " << ideal;
    EXPECT_GT(ideal - reached, -0.03);
  }
  EXPECT_GT(pool.statistics().segment_moves, 2u);
}

TEST(ExpertPool, LeavesSegmentsWhereTheyAre_WhenTheClassesAreWantedAlike) {
  PoolShape shape = two_classes();
  ExpertPool pool(shape, lay_out_pool(shape, pool_full_bytes(shape) * 4 / 10), PolicyKind::kHeat);
  Traffic traffic(shape, 21);
  for (int step = 0; step < 1000; step++)
    for (int32_t layer = 0; layer < 8; layer++) use_layer(pool, layer, traffic.ids(layer, 0.6), ExpertUse::kDecode);
  EXPECT_LE(pool.statistics().segment_moves, 2u);  // each costs the filling of a segment
}

TEST(ExpertPool, KeepsTheFloorOfEveryClass_WhateverIsAsked) {
  PoolShape shape = two_classes();
  PoolLayout layout = lay_out_pool(shape, pool_full_bytes(shape) * 4 / 10);
  ExpertPool pool(shape, layout, PolicyKind::kHeat);
  Traffic traffic(shape, 9);
  for (int step = 0; step < 2000; step++) {
    shifting_step(pool, traffic, step / 500 % 2);
    for (int32_t c : {0, 1}) ASSERT_GE(pool.slots(c), shape.slots_floor(static_cast<size_t>(c)));
  }
}

TEST(ExpertPool, MovesNoSegment_WhileOneOfItsSlotsIsPinnedOrLoading) {
  PoolShape shape = two_classes();
  PoolLayout layout = lay_out_pool(shape, pool_full_bytes(shape) * 4 / 10);
  ExpertPool pool(shape, layout, PolicyKind::kHeat);
  Traffic traffic(shape, 3);
  for (int i = 0; i < 400; i++) shifting_step(pool, traffic, 0);
  // Hold everything that the large class has, then let the small one be busy.
  std::vector<int32_t> held;
  for (int32_t layer = 0; layer < 4; layer++)
    for (int32_t expert = 4; expert < 32; expert++)
      if (pool.find(layer, expert) >= 0) held.push_back(pool.acquire(layer, expert, ExpertUse::kDecode).slot);
  std::vector<uint64_t> offsets;
  for (int32_t slot : held) offsets.push_back(pool.offset(slot));
  uint32_t slots = pool.slots(0);
  for (int i = 0; i < 600; i++) shifting_step(pool, traffic, 1);
  for (size_t i = 0; i < held.size(); i++) {
    EXPECT_EQ(pool.offset(held[i]), offsets[i]);
    EXPECT_EQ(pool.pins(held[i]), 1);
  }
  EXPECT_GE(pool.slots(0), held.size());
  for (int32_t slot : held) pool.release(slot);
  for (int i = 0; i < 600; i++) shifting_step(pool, traffic, 1);
  EXPECT_LT(pool.slots(0), slots);
}

TEST(ExpertPool, HasNoSlotToGive_WhenAllOfAClassArePinned) {
  PoolShape shape = mixed_shape(512, 256, 2, 32, 4, {{kBitsQ4K, kBitsQ4K}});
  ExpertPool pool(shape, lay_out_pool(shape, pool_floor_bytes(shape)), PolicyKind::kHeat);
  pool.begin_layer(0, ExpertUse::kDecode);
  std::vector<int32_t> held;
  for (int32_t expert = 0; expert < 8; expert++) held.push_back(pool.acquire(0, expert, ExpertUse::kDecode).slot);
  EXPECT_EQ(pool.acquire(0, 8, ExpertUse::kDecode).slot, -1);
  pool.release(held[3]);
  EXPECT_EQ(pool.acquire(0, 8, ExpertUse::kDecode).slot, -1);  // still loading
  pool.loaded(held[3]);
  EXPECT_EQ(pool.acquire(0, 8, ExpertUse::kDecode).slot, held[3]);
  EXPECT_EQ(pool.find(0, 3), -1);
  pool.release(held[4]);
  pool.drop(held[4]);  // its load failed
  EXPECT_EQ(pool.find(0, 4), -1);
  EXPECT_EQ(pool.acquire(0, 9, ExpertUse::kDecode).slot, held[4]);
}

// Every expert of every layer, as a long prompt does, read a few ahead.
void sweep(ExpertPool& pool) {
  const PoolShape& shape = pool.shape();
  for (int32_t layer = 0; layer < static_cast<int32_t>(shape.layers.size()); layer++) {
    size_t ahead = pool.sweep_slots(shape.layers[static_cast<size_t>(layer)].size_class);
    pool.begin_layer(layer, ExpertUse::kSweep);
    std::vector<int32_t> held;
    for (int32_t expert = 0; expert < shape.experts; expert++) {
      if (held.size() == ahead) {
        pool.release(held.front());
        held.erase(held.begin());
      }
      ExpertPool::Taken taken = pool.acquire(layer, expert, ExpertUse::kSweep);
      ASSERT_GE(taken.slot, 0);
      if (!taken.hit) pool.loaded(taken.slot);
      held.push_back(taken.slot);
    }
    for (int32_t slot : held) pool.release(slot);
  }
}

// Beside a pool that sees the same decoding and no sweep.
TEST(ExpertPool, HitsAsOftenAfterASweep_AsWithoutOne) {
  PoolShape shape = mixed_shape(512, 256, 12, 64, 6, {{kBitsQ4K, kBitsQ4K}});
  PoolLayout layout = lay_out_pool(shape, pool_full_bytes(shape) * 3 / 10);
  auto hits = [&](int sweeps) {
    ExpertPool pool(shape, layout, PolicyKind::kHeat);
    Traffic traffic(shape, 11);
    auto decode = [&](int steps) {
      for (int step = 0; step < steps; step++)
        for (int32_t layer = 0; layer < 12; layer++)
          use_layer(pool, layer, traffic.ids(layer, 1.2), ExpertUse::kDecode);
    };
    decode(200);
    for (int i = 0; i < sweeps; i++) sweep(pool);
    PoolStatistics before = pool.statistics();
    decode(20);
    return hit_rate(before, pool.statistics());
  };
  EXPECT_GT(hits(0), 0.5);
  EXPECT_GT(hits(3), hits(0) - 0.02);
}

TEST(ExpertPool, FindsASweepsExpertsAgain_InTheNextSweep) {
  PoolShape shape = mixed_shape(512, 256, 8, 32, 4, {{kBitsQ4K, kBitsQ4K}});
  ExpertPool pool(shape, lay_out_pool(shape, pool_full_bytes(shape) / 2), PolicyKind::kHeat);
  sweep(pool);
  PoolStatistics first = pool.statistics();
  EXPECT_EQ(first.hits, 0u);
  sweep(pool);
  // Going round and round, a pool of half can keep nearly half.
  EXPECT_GT(pool.statistics().hits - first.hits, 8u * 32u * 45 / 100);
}

// The default policy in plain words: the least value of all that are offered.
class PlainHeat final : public ScanningPolicy {
 public:
  explicit PlainHeat(const PoolShape& shape)
      : ScanningPolicy(shape), shape_(shape), last_(shape), lately_(count(shape), 6), long_ago_(count(shape), 256) {}
  static size_t count(const PoolShape& shape) { return shape.layers.size() * static_cast<size_t>(shape.experts); }
  void next_step() override {
    lately_.next_step();
    long_ago_.next_step();
  }
  void use(int32_t expert) override {
    last_.use(expert);
    lately_.use(expert);
    long_ago_.use(expert);
  }
  void set_rates(const std::vector<float>& rates) { long_ago_.set_rates(rates); }
  size_t choose(std::span<const int32_t> residents, int32_t running) override {
    int32_t layers = static_cast<int32_t>(shape_.layers.size());
    auto value = [&](int32_t expert) {
      int32_t distance = (expert / shape_.experts - running + layers - 1) % layers;
      return (lately_.rate(lately_[expert]) + 0.05 * long_ago_.rate(long_ago_[expert])) *
             (1 + 3.0 * (layers - 1 - distance) / layers);
    };
    size_t best = 0;
    for (size_t i = 1; i < residents.size(); i++) {
      double a = value(residents[i]), b = value(residents[best]);
      if (a < b || (a == b && last_[residents[i]] < last_[residents[best]])) best = i;
    }
    return best;
  }

 private:
  PoolShape shape_;
  LastUse last_;
  ExpertHeat lately_, long_ago_;
};

// Long enough that the counts are rescaled several times, with sweeps between and heat that is restored.
TEST(ExpertPool, GivesUpTheSameExperts_AsAScanOfAllSlots) {
  PoolShape shape = two_classes();
  PoolLayout layout = lay_out_pool(shape, pool_full_bytes(shape) * 4 / 10);
  auto plain_policy = std::make_unique<PlainHeat>(shape);
  PlainHeat* plain_heat = plain_policy.get();
  ExpertPool pool(shape, layout, PolicyKind::kHeat), plain(shape, layout, std::move(plain_policy));
  auto restore = [&](uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<float> rates(PlainHeat::count(shape));
    for (float& rate : rates) rate = static_cast<float>(random() % 1000 + 1) * 1e-3f;
    pool.set_heat(rates);
    plain.set_heat(rates);
    plain_heat->set_rates(rates);
  };
  Traffic traffic(shape, 17);
  restore(1);
  for (int step = 0; step < 1500; step++) {
    for (int32_t layer = 0; layer < 8; layer++) {
      std::vector<int32_t> ids = traffic.ids(layer, step < 700 ? 0.4 : 1.0);
      use_layer(pool, layer, ids, ExpertUse::kDecode);
      use_layer(plain, layer, ids, ExpertUse::kDecode);
    }
    if (step % 400 == 399) {
      sweep(pool);
      sweep(plain);
    }
    if (step == 900) restore(2);
    for (int32_t layer = 0; layer < 8; layer++)
      for (int32_t expert = 0; expert < shape.experts; expert++)
        ASSERT_EQ(pool.find(layer, expert), plain.find(layer, expert)) << "step " << step;
  }
  EXPECT_EQ(pool.evictions(0), plain.evictions(0));
  EXPECT_GT(pool.evictions(0), 2000u);
}

TEST(ExpertPool, TakesNoHotterExpertsSlot_ForAGuess) {
  PoolShape shape = mixed_shape(512, 256, 4, 32, 4, {{kBitsQ4K, kBitsQ4K}});
  ExpertPool pool(shape, lay_out_pool(shape, pool_floor_bytes(shape)), PolicyKind::kHeat);
  std::vector<float> rates(4 * 32, 0.1f);
  rates[3 * 32 + 30] = 0.9f;
  rates[3 * 32 + 31] = 0.001f;
  pool.set_heat(rates);
  pool.begin_layer(2, ExpertUse::kDecode);
  for (int32_t expert = 0; expert < static_cast<int32_t>(pool.slots(0)); expert++)
    use_layer(pool, 1, {expert}, ExpertUse::kSweep);
  ASSERT_EQ(pool.empty_slots(0), 0u);
  PoolStatistics before = pool.statistics();
  EXPECT_EQ(pool.acquire(3, 31, ExpertUse::kGuess).slot, -1);
  EXPECT_EQ(pool.statistics().evictions, before.evictions);
  ExpertPool::Taken taken = pool.acquire(3, 30, ExpertUse::kGuess);
  ASSERT_GE(taken.slot, 0);
  EXPECT_FALSE(taken.hit);
  EXPECT_EQ(pool.statistics().evictions, before.evictions + 1);
  EXPECT_EQ(pool.statistics().misses, before.misses);  // a guess is no use
  EXPECT_EQ(pool.statistics().touched_bytes, before.touched_bytes);
}

}  // namespace
}  // namespace llmd
