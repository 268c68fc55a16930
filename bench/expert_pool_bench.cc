// What a decode miss costs the leading thread in bookkeeping: the pool of a model of R1's shape (58 layers of 256
// experts, 8 used) with so many slots, nothing but misses. The second number is of size classes, whose segments are
// weighed against each other every 8 steps.
#include <benchmark/benchmark.h>

#include <random>

#include "model/expert_pool.h"

namespace llmd {
namespace {

PoolShape shape_of(int32_t classes) {
  PoolShape shape;
  shape.experts = 256;
  shape.used = 8;
  for (int32_t c = 0; c < classes; c++) shape.classes.push_back({static_cast<uint64_t>(16 + c) << 20, 0});
  for (int32_t layer = 0; layer < 58; layer++) {
    int32_t c = layer * classes / 58;
    shape.layers.push_back({c, shape.classes[static_cast<size_t>(c)].slot_bytes});
    shape.classes[static_cast<size_t>(c)].layers++;
  }
  return shape;
}

void misses(benchmark::State& state) {
  PoolShape shape = shape_of(static_cast<int32_t>(state.range(1)));
  uint64_t bytes = static_cast<uint64_t>(state.range(0)) * shape.classes[0].slot_bytes;
  ExpertPool pool(shape, lay_out_pool(shape, bytes), PolicyKind::kHeat);
  std::mt19937 random(1);
  // Any expert that is not there; experts wanted lately differ, so that the counts do.
  auto step = [&] {
    uint64_t before = pool.statistics().decode_misses;
    for (int32_t layer = 0; layer < 58; layer++) {
      pool.begin_layer(layer, ExpertUse::kDecode);
      int32_t held[8], count = 0;
      while (count < 8) {
        int32_t expert = static_cast<int32_t>(random() % 256);
        if (pool.find(layer, expert) >= 0) continue;
        int32_t slot = pool.acquire(layer, expert, ExpertUse::kDecode).slot;
        pool.loaded(slot);
        held[count++] = slot;
      }
      for (int32_t i = 0; i < count; i++) pool.release(held[i]);
    }
    return pool.statistics().decode_misses - before;
  };
  while (pool.statistics().evictions < 1000) step();
  uint64_t all = 0;
  for (auto _ : state) all += step();
  state.counters["per_miss"] =
      benchmark::Counter(static_cast<double>(all), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK(misses)->Args({1000, 1})->Args({10000, 1})->Args({10000, 3})->Unit(benchmark::kMicrosecond)->MinTime(1);

}  // namespace
}  // namespace llmd
