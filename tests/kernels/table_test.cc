// The choice of level: which table the processor gets, and what LLMD_CPU changes. The choice is made once a process, so
// each case runs in a process of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/kernels/kernel_testing.h"

namespace llmd {
namespace {

// Exits 0 when kernels() has the expected level after LLMD_CPU was set to `wanted` (null: unset).
[[noreturn]] void choose(const char* wanted, std::string_view expected) {
  if (wanted != nullptr) {
    setenv("LLMD_CPU", wanted, 1);
  } else {
    unsetenv("LLMD_CPU");
  }
  std::exit(kernels().level == expected ? 0 : 1);
}

std::string_view best_level() {
  if (kernels_at("avxvnni") != nullptr) return "avxvnni";
  return kernels_at("avx2") != nullptr ? "avx2" : "scalar";
}

TEST(KernelTable, TakesTheBestLevel_WhenNothingIsAsked) {
  EXPECT_EXIT(choose(nullptr, best_level()), testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(choose("", best_level()), testing::ExitedWithCode(0), "^$");
}

TEST(KernelTable, TakesTheLevelAsked) {
  EXPECT_EXIT(choose("scalar", "scalar"), testing::ExitedWithCode(0), "^$");
}

TEST(KernelTable, IgnoresAnUnknownLevel_AndSaysSo) {
  EXPECT_EXIT(choose("abacus", best_level()), testing::ExitedWithCode(0), "LLMD_CPU=abacus.*using");
}

TEST(KernelTable, HasAKernelForExactlyTheSupportedTypes) {
  for (const std::string& level : all_levels()) {
    const KernelTable* table = kernels_at(level);
    if (table == nullptr) continue;
    EXPECT_EQ(table->level, level);
    std::vector<TensorType> types = all_types();
    for (size_t id = 0; id < 64; id++) {
      bool known = std::find(types.begin(), types.end(), static_cast<TensorType>(id)) != types.end();
      EXPECT_EQ(table->matmul[id] != nullptr, known) << id;
      EXPECT_EQ(table->dequantize[id] != nullptr, known) << id;
    }
  }
  EXPECT_EQ(kernels_at("quantum"), nullptr);
  EXPECT_FALSE(type_uses_q8(TensorType::kBF16));
  EXPECT_TRUE(type_uses_q8(TensorType::kQ4_K));
}

TEST(KernelTable, KvBytesFollowTheLayouts) {
  EXPECT_EQ(kv_bytes(KvType::kF32, 576), 2304u);
  EXPECT_EQ(kv_bytes(KvType::kF16, 576), 1152u);
  EXPECT_EQ(kv_bytes(KvType::kBF16, 576), 1152u);
  EXPECT_EQ(kv_bytes(KvType::kQ8_0, 576), 612u);
}

}  // namespace
}  // namespace llmd
