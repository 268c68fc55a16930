// Which kernels this processor runs: the tables are filled once, the level is chosen by cpuid and LLMD_CPU.
#include <cpuid.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "io/check.h"
#include "model/kernels/levels.h"

namespace llmd {
namespace {

const KernelTable& scalar_table() {
  static const KernelTable table = [] {
    KernelTable t{};
    t.level = t.numerics = "scalar";
    fill_scalar_matmul(t);
    fill_scalar_ops(t);
    return t;
  }();
  return table;
}

// True when the processor has every extension the *_avx2.cc files are compiled with, and the system keeps the ymm
// registers (the first builtin asks that too; neither knows F16C by name in every compiler).
bool has_avx2() {
  constexpr unsigned kF16c = 1u << 29;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & kF16c) == 0) return false;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const KernelTable& avx2_table() {
  static const KernelTable table = [] {
    KernelTable t = scalar_table();
    t.level = t.numerics = "avx2";
    fill_avx2_legacy(t);
    fill_avx2_k(t);
    fill_avx2_convert(t);
    fill_avx2_ops(t);
    fill_avx2_gemm(t);
    fill_avx2_float(t);
    return t;
  }();
  return table;
}

// AVX-VNNI (the VEX form: Zen 5, Alder Lake and later), which compilers do not all know by name.
bool has_vnni() {
  constexpr unsigned kAvxVnni = 1u << 4;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return has_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & kAvxVnni) != 0;
}

const KernelTable& vnni_table() {
  static const KernelTable table = [] {
    KernelTable t = avx2_table();
    t.level = "avxvnni";
    fill_vnni(t);
    return t;
  }();
  return table;
}

const KernelTable* choose() {
  const KernelTable* best = has_vnni() ? &vnni_table() : has_avx2() ? &avx2_table() : &scalar_table();
  const char* wanted = std::getenv("LLMD_CPU");
  if (wanted == nullptr || *wanted == '\0') return best;
  if (const KernelTable* table = kernels_at(wanted)) return table;
  std::fprintf(stderr, "llmd: LLMD_CPU=%s is not a level this processor can run; using %s\n", wanted,
               best->level.data());
  return best;
}

}  // namespace

uint64_t kv_bytes(KvType type, int64_t n) {
  LLMD_CHECK(n >= 0);
  uint64_t count = static_cast<uint64_t>(n);
  switch (type) {
    case KvType::kF32:
      return count * 4;
    case KvType::kF16:
    case KvType::kBF16:
      return count * 2;
    case KvType::kQ8_0:
      LLMD_CHECK(n % 32 == 0);
      return count / 32 * 34;
  }
  return 0;
}

bool type_uses_q8(TensorType type) {
  return type != TensorType::kF32 && type != TensorType::kF16 && type != TensorType::kBF16;
}

const KernelTable* kernels_at(std::string_view level) {
  if (level == "scalar") return &scalar_table();
  if (level == "avx2" && has_avx2()) return &avx2_table();
  if (level == "avxvnni" && has_vnni()) return &vnni_table();
  return nullptr;
}

const KernelTable& kernels() {
  static const KernelTable* const table = choose();
  return *table;
}

}  // namespace llmd
