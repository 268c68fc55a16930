// Shapes of expert pools for tests: layers that take turns with quant recipes, at any size of expert.
#pragma once

#include <cstdint>
#include <vector>

#include "model/pool_layout.h"

namespace llmd {

// Bits a weight, times 256.
inline constexpr int64_t kBitsQ2K = 84 * 8, kBitsQ3K = 110 * 8, kBitsQ4K = 144 * 8, kBitsIq4Xs = 136 * 8,
                         kBitsQ5K = 176 * 8, kBitsQ6K = 210 * 8, kBitsQ8 = 272 * 8;

/// The types of gate and up, and of down.
struct Recipe {
  int64_t gate_up, down;
};

/// Layer i has the recipe i * recipes / layers, so that neighbours are alike.
inline PoolShape mixed_shape(int64_t width, int64_t ff, int32_t layers, int32_t experts, int32_t used,
                             const std::vector<Recipe>& recipes) {
  PoolShape shape;
  shape.experts = experts;
  shape.used = used;
  shape.layers.resize(static_cast<size_t>(layers));
  shape.classes.resize(recipes.size());
  for (size_t i = 0; i < shape.layers.size(); i++) {
    size_t recipe = i * recipes.size() / shape.layers.size();
    auto matrix = [&](int64_t bits) { return static_cast<uint64_t>(width * ff / 256 * bits / 8); };
    auto region = [&](int64_t bits) { return (matrix(bits) + 2 * 4096 - 2) / 4096 * 4096; };
    shape.layers[i].size_class = static_cast<int32_t>(recipe);
    shape.layers[i].expert_bytes = 2 * matrix(recipes[recipe].gate_up) + matrix(recipes[recipe].down);
    shape.classes[recipe].slot_bytes = 2 * region(recipes[recipe].gate_up) + region(recipes[recipe].down);
    shape.classes[recipe].layers++;
  }
  return shape;
}

}  // namespace llmd
