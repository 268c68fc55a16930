// Kernels beside the machine's own limits: weights read per second for one activation row (decode), operations per
// second for 64 and 512 (prefill), memory bandwidth of a plain sum and the peak of independent fused multiply-adds.
//
// One thread. The matrices of the decode runs are larger than the last-level cache. LLMD_CPU chooses the level.
#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "model/kernels/kernels.h"

namespace llmd {
namespace {

constexpr int64_t kInputs = 2048;
constexpr uint64_t kDecodeBytes = 256ull << 20;

/// Weights of any type, in huge pages as the arena's are.
std::span<uint8_t> random_bytes() {
  static const std::span<uint8_t> bytes = [] {
    constexpr size_t kHugePage = 2 << 20;
    size_t size = kDecodeBytes + kHugePage;
    auto* memory = static_cast<uint8_t*>(std::aligned_alloc(kHugePage, size));
    madvise(memory, size, MADV_HUGEPAGE);
    std::mt19937_64 random(1);
    for (size_t i = 0; i + 8 <= size; i += 8) {
      uint64_t word = random() & 0xbfbfbfbfbfbfbfbf;  // exponents stay small: no infinities, whatever a byte means
      std::memcpy(memory + i, &word, 8);
    }
    return std::span(memory, size);
  }();
  return bytes;
}

struct Rows {
  std::vector<float> f32, scales;
  std::vector<int8_t> values;
  std::vector<int16_t> sums;
  Activations view() const { return {f32.data(), kInputs, values.data(), scales.data(), sums.data()}; }
};

Rows random_rows(int64_t count) {
  Rows rows;
  std::mt19937 random(2);
  rows.f32.resize(static_cast<size_t>(count * kInputs));
  for (float& value : rows.f32) value = std::normal_distribution<float>()(random);
  rows.values.resize(rows.f32.size());
  rows.scales.resize(rows.f32.size() / 32);
  rows.sums.resize(rows.f32.size() / 16);
  kernels().quantize_row(rows.f32.data(), count * kInputs, rows.values.data(), rows.scales.data(), rows.sums.data());
  return rows;
}

// args: type, activation rows
void bm_matmul(benchmark::State& state) {
  auto type = static_cast<TensorType>(state.range(0));
  int64_t count = state.range(1);
  Rows rows = random_rows(count);
  MatmulArgs args;
  args.weights = reinterpret_cast<const std::byte*>(random_bytes().data());
  args.row_bytes = tensor_row_bytes(type, kInputs);
  args.n_in = kInputs;
  int64_t all = static_cast<int64_t>(kDecodeBytes / args.row_bytes) / 16 * 16;
  args.row_end = count == 1 ? all : 1408;
  args.x = rows.view();
  args.x_count = count;
  std::vector<float> out(static_cast<size_t>(count * args.row_end));
  args.out = out.data();
  args.out_stride = args.row_end;
  MatmulFn matmul = kernels().matmul[static_cast<size_t>(type)];
  for (auto _ : state) {
    matmul(args);
    benchmark::ClobberMemory();
  }
  double runs = static_cast<double>(state.iterations());
  double weights = runs * static_cast<double>(args.row_end) * static_cast<double>(kInputs);
  double bytes = runs * static_cast<double>(args.row_end) * static_cast<double>(args.row_bytes);
  state.counters["GOP/s"] =
      benchmark::Counter(weights * 2e-9 * static_cast<double>(count), benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
  state.SetLabel(std::string(tensor_type_name(type)) + " x" + std::to_string(count));
}

void matmul_cases(benchmark::internal::Benchmark* bench) {
  using enum TensorType;
  for (TensorType type : {kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K,
                          kIQ4_NL, kIQ4_XS, kMXFP4}) {
    for (int64_t count : {1, 4, 64, 512}) bench->Args({static_cast<int64_t>(type), count});
  }
}
BENCHMARK(bm_matmul)->Apply(matmul_cases)->Unit(benchmark::kMillisecond);

void bm_memory_sum(benchmark::State& state) {
  std::span<const uint8_t> bytes = random_bytes();
  for (auto _ : state) {
    uint64_t sum[4] = {};
    constexpr size_t kPart = kDecodeBytes / 4;  // four streams: one alone does not fill the memory channels
    for (size_t i = 0; i < kPart; i += 64) {
      for (size_t part = 0; part < 4; part++) {
        uint64_t line[8];
        std::memcpy(line, bytes.data() + part * kPart + i, 64);
        sum[part] += line[0] + line[1] + line[2] + line[3] + line[4] + line[5] + line[6] + line[7];
      }
    }
    benchmark::DoNotOptimize(sum);
  }
  double total = static_cast<double>(state.iterations()) * static_cast<double>(kDecodeBytes);
  state.counters["GB/s"] = benchmark::Counter(total * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(bm_memory_sum)->Unit(benchmark::kMillisecond);

// Two vectors of fused multiply-adds a cycle is what AVX2 processors do: twelve chains keep both units busy.
__attribute__((target("avx2,fma"))) void bm_fma_peak(benchmark::State& state) {
  constexpr int64_t kRounds = 4096;
  __m256 chain[12];
  for (__m256& c : chain) c = _mm256_set1_ps(1.0f);
  __m256 factor = _mm256_set1_ps(1.0f + 1e-7f), term = _mm256_set1_ps(1e-7f);
  for (auto _ : state) {
    for (int64_t i = 0; i < kRounds; i++) {
#pragma GCC unroll 12
      for (__m256& c : chain) c = _mm256_fmadd_ps(c, factor, term);
    }
    for (__m256& c : chain) benchmark::DoNotOptimize(c);
  }
  state.counters["GOP/s"] = benchmark::Counter(static_cast<double>(state.iterations()) * kRounds * 12 * 16 * 1e-9,
                                               benchmark::Counter::kIsRate);
}
BENCHMARK(bm_fma_peak);

// args: m, n, k. A 6 x 16 x 256 product stays in the first-level cache: it shows the peak.
void bm_gemm(benchmark::State& state) {
  int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  std::vector<float> a(static_cast<size_t>(m * k), 0.5f), b(static_cast<size_t>(k * n), 0.25f);
  std::vector<float> c(static_cast<size_t>(m * n));
  for (auto _ : state) {
    kernels().gemm(a.data(), k, b.data(), n, c.data(), n, m, n, k, false);
    benchmark::ClobberMemory();
  }
  double flops = static_cast<double>(state.iterations()) * 2e-9 * static_cast<double>(m * n * k);
  state.counters["GOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsRate);
}
BENCHMARK(bm_gemm)
    ->Args({6, 16, 256})
    ->Args({16, 256, 576})
    ->Args({64, 256, 192})
    ->Args({128, 512, 256})
    ->Args({512, 512, 512});

void count_values(benchmark::State& state, int64_t n) {
  double total = static_cast<double>(state.iterations()) * static_cast<double>(n);
  state.counters["Gvalues/s"] = benchmark::Counter(total * 1e-9, benchmark::Counter::kIsRate);
}

void bm_quantize(benchmark::State& state) {
  Rows rows = random_rows(1);
  for (auto _ : state) {
    kernels().quantize_row(rows.f32.data(), kInputs, rows.values.data(), rows.scales.data(), rows.sums.data());
    benchmark::ClobberMemory();
  }
  count_values(state, kInputs);
}
BENCHMARK(bm_quantize);

void bm_silu_mul(benchmark::State& state) {
  Rows rows = random_rows(3);
  float* x = rows.f32.data();
  for (auto _ : state) {
    kernels().silu_mul(x, x + kInputs, kInputs, x + 2 * kInputs);
    benchmark::ClobberMemory();
  }
  count_values(state, kInputs);
}
BENCHMARK(bm_silu_mul);

void bm_rms_norm(benchmark::State& state) {
  Rows rows = random_rows(3);
  float* x = rows.f32.data();
  for (auto _ : state) {
    kernels().rms_norm(x, x + kInputs, 1e-6f, kInputs, x + 2 * kInputs);
    benchmark::ClobberMemory();
  }
  count_values(state, kInputs);
}
BENCHMARK(bm_rms_norm);

void bm_softmax_block(benchmark::State& state) {
  Rows rows = random_rows(1);
  std::vector<float> x(256);
  for (auto _ : state) {
    std::memcpy(x.data(), rows.f32.data(), 256 * sizeof(float));
    KernelTable::MaxSum result = kernels().softmax_block(x.data(), 256);
    benchmark::DoNotOptimize(result);
  }
  count_values(state, 256);
}
BENCHMARK(bm_softmax_block);

void bm_kv(benchmark::State& state) {
  auto type = static_cast<KvType>(state.range(0));
  bool store = state.range(1) != 0;
  Rows rows = random_rows(1);
  std::vector<std::byte> stored(kv_bytes(type, kInputs));
  kernels().kv_store(type, rows.f32.data(), kInputs, stored.data());
  for (auto _ : state) {
    if (store) {
      kernels().kv_store(type, rows.f32.data(), kInputs, stored.data());
    } else {
      kernels().kv_load(type, stored.data(), kInputs, rows.f32.data());
    }
    benchmark::ClobberMemory();
  }
  count_values(state, kInputs);
}
BENCHMARK(bm_kv)->ArgNames({"type", "store"})->ArgsProduct({{0, 1, 2, 3}, {0, 1}});

void bm_dequantize(benchmark::State& state) {
  auto type = static_cast<TensorType>(state.range(0));
  std::vector<float> out(kInputs);
  for (auto _ : state) {
    kernels().dequantize[static_cast<size_t>(type)](reinterpret_cast<const std::byte*>(random_bytes().data()), kInputs,
                                                    out.data());
    benchmark::ClobberMemory();
  }
  count_values(state, kInputs);
  state.SetLabel(std::string(tensor_type_name(type)));
}
BENCHMARK(bm_dequantize)->Arg(1)->Arg(2)->Arg(6)->Arg(8)->Arg(12)->Arg(14);

}  // namespace
}  // namespace llmd
