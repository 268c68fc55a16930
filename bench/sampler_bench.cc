// What a token costs in the sampler, over a vocabulary of 129,280 entries, at settings clients use. The logits are
// normal with the given spread (a standard deviation of 2 to 3 is what trained models show) and one peak.
#include <benchmark/benchmark.h>

#include <random>

#include "model/sampler.h"

namespace llmd {
namespace {

constexpr int32_t kVocab = 129280;

std::vector<float> row(float spread) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits;
  for (int32_t i = 0; i < kVocab; i++) logits.push_back(normal(random));
  return logits;
}

void sample(benchmark::State& state, const SamplingParams& params) {
  const std::vector<float> logits = row(static_cast<float>(state.range(0)) / 10);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 8192; i++) tokens.push_back(i * 7919 % kVocab);
  SamplerWorkspace workspace(kVocab);
  Sampler sampler(params, {}, workspace);
  for (auto step : state) benchmark::DoNotOptimize(sampler.sample(logits, tokens, 0));
}

SamplingParams only_temperature() {
  SamplingParams params;
  params.temperature = 1;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  return params;
}

void BM_Greedy(benchmark::State& state) {
  SamplingParams params;
  params.temperature = 0;
  sample(state, params);
}
void BM_Defaults(benchmark::State& state) {
  sample(state, {});
}
void BM_DefaultsWithPenalties(benchmark::State& state) {
  SamplingParams params;
  params.repeat_penalty = 1.1f;
  params.presence_penalty = 0.5f;
  params.repeat_last_n = -1;
  sample(state, params);
}
void BM_TopP(benchmark::State& state) {
  SamplingParams params = only_temperature();
  params.temperature = 0.6f;
  params.top_p = 0.95f;
  sample(state, params);
}
void BM_MinP(benchmark::State& state) {
  SamplingParams params = only_temperature();
  params.min_p = 0.05f;
  sample(state, params);
}
void BM_TypicalP(benchmark::State& state) {
  SamplingParams params = only_temperature();
  params.typical_p = 0.95f;
  sample(state, params);
}
void BM_OnlyTemperature(benchmark::State& state) {
  sample(state, only_temperature());
}
void BM_LogSumExp(benchmark::State& state) {
  const std::vector<float> logits = row(static_cast<float>(state.range(0)) / 10);
  for (auto step : state) benchmark::DoNotOptimize(log_sum_exp(logits));
}

BENCHMARK(BM_Greedy)->Arg(25)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Defaults)->Arg(25)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_DefaultsWithPenalties)->Arg(25)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_TopP)->Arg(25)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_MinP)->Arg(25)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_TypicalP)->Arg(25)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_OnlyTemperature)->Arg(25)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_LogSumExp)->Arg(25)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace llmd
