// The sampler against a plain reference that sorts everything, and what each parameter must do.
#include "model/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "model/sampler_logprobs.h"

namespace llmd {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

SamplingParams all_off() {
  SamplingParams params;
  params.temperature = 1;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  return params;
}

struct Case {
  SamplingParams params;
  std::vector<float> logits;
  std::vector<int32_t> tokens, end_ids;
  int32_t generated = 0;
};

// ---- the reference: each step as its definition reads, over sorted copies of everything ----

struct Outcome {
  std::vector<int32_t> kept;  // ascending
  int32_t token = -1;
  bool close = false;  // a decision hung on the last bits of a sum
};

struct Entry {
  int32_t id;
  double logit;
};

double uniform(uint64_t seed) {  // the first number of xoshiro256** seeded by splitmix64
  uint64_t state[4];
  for (uint64_t& word : state) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    word = z ^ (z >> 31);
  }
  const uint64_t x = state[1] * 5;
  return static_cast<double>((((x << 7) | (x >> 57)) * 9) >> 11) * 0x1.0p-53;
}

std::vector<float> reference_row(const Case& c) {
  std::vector<float> row = c.logits;
  const SamplingParams& p = c.params;
  const auto at = [&row](int32_t id) -> float& { return row[static_cast<size_t>(id)]; };
  for (const TokenBias& entry : p.logit_bias) at(entry.id) += entry.bias;
  size_t first = 0;
  if (p.repeat_last_n >= 0 && static_cast<size_t>(p.repeat_last_n) < c.tokens.size())
    first = c.tokens.size() - static_cast<size_t>(p.repeat_last_n);
  const std::vector<int32_t> seen(c.tokens.begin() + static_cast<std::ptrdiff_t>(first), c.tokens.end());
  for (int32_t id = 0; id < static_cast<int32_t>(row.size()); id++) {
    const auto count = std::count(seen.begin(), seen.end(), id);
    if (count == 0) continue;
    at(id) = at(id) > 0 ? at(id) / p.repeat_penalty : at(id) * p.repeat_penalty;
    at(id) -= static_cast<float>(count) * p.frequency_penalty + p.presence_penalty;
  }
  if (p.ignore_eos || c.generated < p.min_tokens)
    for (int32_t id : c.end_ids) at(id) = kForbidden;
  if (c.generated < p.min_tokens)
    for (int32_t id : p.stop_token_ids) at(id) = kForbidden;
  return row;
}

std::vector<double> softmax(const std::vector<Entry>& entries) {
  double most = kForbidden, sum = 0;
  for (const Entry& entry : entries) most = std::max(most, entry.logit);
  std::vector<double> p;
  for (const Entry& entry : entries) p.push_back(std::exp(entry.logit - most));
  for (double value : p) sum += value;
  for (double& value : p) value /= sum;
  return p;
}

/// Cuts `entries`, in their order, where their probability reaches `wanted`.
void cut_at_mass(std::vector<Entry>& entries, const std::vector<double>& p, double wanted, bool& close) {
  double sum = 0;
  for (size_t i = 0; i < entries.size(); i++) {
    sum += p[i];
    close |= std::fabs(sum - wanted) < 1e-12;
    if (sum < wanted) continue;
    entries.resize(i + 1);
    return;
  }
}

void sort_likeliest_first(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); });
}

Outcome reference(const Case& c) {
  const SamplingParams& p = c.params;
  const std::vector<float> row = reference_row(c);
  std::vector<Entry> entries;
  for (size_t i = 0; i < row.size(); i++)
    if (row[i] != kForbidden) entries.push_back({static_cast<int32_t>(i), row[i]});
  sort_likeliest_first(entries);
  Outcome out;
  if (p.temperature <= 0) {
    out.token = entries[0].id;
    return out;
  }
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < entries.size()) entries.resize(static_cast<size_t>(p.top_k));
  if (p.typical_p < 1) {
    const std::vector<double> probability = softmax(entries);
    double entropy = 0;
    for (double value : probability) entropy -= value > 0 ? value * std::log(value) : 0;
    const double log_sum = entries[0].logit - std::log(probability[0]);
    std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
      const double from_a = std::fabs(log_sum - a.logit - entropy), from_b = std::fabs(log_sum - b.logit - entropy);
      if (a.logit != b.logit && std::fabs(from_a - from_b) < 1e-9) out.close = true;
      return a.logit == b.logit ? a.id < b.id : from_a < from_b;
    });
    cut_at_mass(entries, softmax(entries), p.typical_p, out.close);
  }
  sort_likeliest_first(entries);
  if (p.top_p < 1) cut_at_mass(entries, softmax(entries), p.top_p, out.close);
  if (p.min_p > 0) {
    const double least = entries[0].logit + std::log(static_cast<double>(p.min_p));
    std::erase_if(entries, [least](const Entry& entry) { return entry.logit < least; });
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
  double most = kForbidden, sum = 0, passed = 0;
  for (const Entry& entry : entries) most = std::max(most, entry.logit);
  std::vector<double> weights;
  for (const Entry& entry : entries) {
    out.kept.push_back(entry.id);
    weights.push_back(std::exp((entry.logit - most) / p.temperature));
    sum += weights.back();
  }
  const double point = uniform(p.seed) * sum;
  for (size_t i = 0; i < weights.size() && out.token < 0; i++) {
    passed += weights[i];
    out.close |= std::fabs(point - passed) < 1e-12 * sum;
    if (point < passed) out.token = entries[i].id;
  }
  return out;
}

// ---- random cases ----

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int below(int bound) { return static_cast<int>(engine_() % static_cast<uint64_t>(bound)); }
  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }
  std::vector<float> logits(int count) {
    const double spread = one_of({0.0, 0.01, 1.0, 3.0, 20.0, 300.0});
    const double grain = one_of({0.0, 0.0, 0.5, 2.0});  // a grain makes ties
    std::normal_distribution<double> normal(real(-30, 30), spread);
    std::vector<float> out;
    for (int i = 0; i < count; i++) {
      const double value = spread == 0 ? 1.0 : normal(engine_);
      out.push_back(static_cast<float>(grain > 0 ? std::round(value / grain) * grain : value));
    }
    return out;
  }

 private:
  std::mt19937_64 engine_;
};

Case random_case(uint64_t seed, int vocab) {
  Random random(seed);
  Case c;
  SamplingParams& p = c.params;
  c.logits = random.logits(vocab);
  p.temperature = static_cast<float>(random.one_of({0.0, 1e-30, 0.01, 0.7, 1.0, 2.0, random.real(0, 2)}));
  p.top_k = random.one_of({0, -1, 1, 2, 40, vocab - 1, vocab, 2147483647, random.below(vocab) + 1});
  p.typical_p = static_cast<float>(random.one_of({1.0, 1.0, 0.0, 0.2, 0.95, random.real(0, 1)}));
  p.top_p = static_cast<float>(random.one_of({1.0, 0.0, 0.5, 0.95, random.real(0, 1)}));
  p.min_p = static_cast<float>(random.one_of({0.0, 0.05, 1.0, 1e-9, random.real(0, 1)}));
  p.repeat_penalty = static_cast<float>(random.one_of({1.0, 1.0, 1.1, 2.0, 0.5}));
  p.presence_penalty = static_cast<float>(random.one_of({0.0, 0.0, 1.5, -2.0}));
  p.frequency_penalty = static_cast<float>(random.one_of({0.0, 0.0, 0.3, -2.0}));
  p.repeat_last_n = random.one_of({64, 0, -1, 1, 7, 100000});
  p.seed = seed * 77;
  const auto token = [&] { return static_cast<int32_t>(random.below(vocab)); };
  for (int i = random.one_of({0, 1, 30, 300}); i > 0; i--) c.tokens.push_back(random.below(2) ? token() : token() % 5);
  for (int i = random.one_of({0, 0, 1, 6}); i > 0; i--)
    p.logit_bias.push_back({token(), random.one_of({-100.0f, 100.0f, 1.5f, -3.0f, kForbidden})});
  for (int i = random.below(4); i > 0; i--) c.end_ids.push_back(token());
  for (int i = random.below(3); i > 0; i--) p.stop_token_ids.push_back(token());
  p.ignore_eos = random.below(3) == 0;
  p.min_tokens = random.one_of({0, 0, 5});
  c.generated = random.below(10);
  return c;
}

bool allows_something(const Case& c) {
  const std::vector<float> row = reference_row(c);
  return std::any_of(row.begin(), row.end(), [](float logit) { return logit != kForbidden; });
}

/// False when the case hung on rounding and was not compared.
bool compare(const Case& c, SamplerWorkspace& workspace, uint64_t seed) {
  const Outcome expected = reference(c);
  if (expected.close) return false;
  Sampler sampler(c.params, c.end_ids, workspace);
  const int32_t token = sampler.sample(c.logits, c.tokens, c.generated);
  std::vector<int32_t> kept;
  for (const Candidate& candidate : sampler.kept()) kept.push_back(candidate.id);
  EXPECT_EQ(kept, expected.kept) << "seed " << seed;
  EXPECT_EQ(token, expected.token) << "seed " << seed;
  return true;
}

TEST(Sampler, KeepsAndDrawsAsThePlainReference_ForRandomParameters) {
  int compared = 0, cases = 0;
  for (int vocab : {1, 2, 9, 64, 700, 5000}) {
    SamplerWorkspace workspace(vocab);
    const int rounds = vocab < 1000 ? 2000 : 150;
    for (int round = 0; round < rounds; round++) {
      const uint64_t seed = static_cast<uint64_t>(vocab) * 100003 + static_cast<uint64_t>(round);
      const Case c = random_case(seed, vocab);
      if (!allows_something(c)) continue;
      cases++;
      compared += compare(c, workspace, seed);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(compared, cases * 8 / 10);  // or the comparison says little
  EXPECT_GT(compared, 5000);
}

TEST(Sampler, KeepsAndDrawsAsThePlainReference_WithEachFilterAlone) {
  constexpr int kVocab = 3000;
  SamplerWorkspace workspace(kVocab);
  int compared = 0;
  for (int filter = 0; filter < 5; filter++) {
    for (uint64_t seed = 0; seed < 60; seed++) {
      Case c;
      Random random(seed);
      c.logits = random.logits(kVocab);
      c.params = all_off();
      c.params.seed = seed;
      if (filter == 1) c.params.top_k = random.below(kVocab) + 1;
      if (filter == 2) c.params.top_p = static_cast<float>(random.real(0, 1));
      if (filter == 3) c.params.min_p = static_cast<float>(random.real(0, 1));
      if (filter == 4) c.params.typical_p = static_cast<float>(random.real(0, 1));
      compared += compare(c, workspace, seed);
    }
  }
  EXPECT_GT(compared, 200);
}

// ---- what each parameter must do ----

struct Draws {
  explicit Draws(const SamplingParams& params, int vocab) : workspace(vocab), sampler(params, {}, workspace) {}
  std::vector<int32_t> take(const std::vector<float>& logits, int count) {
    std::vector<int32_t> out;
    for (int i = 0; i < count; i++) out.push_back(sampler.sample(logits, {}, i));
    return out;
  }
  SamplerWorkspace workspace;
  Sampler sampler;
};

TEST(Sampler, DrawsTheSameTokens_ForTheSameSeed_WhoeverSharesItsWorkspace) {
  SamplingParams params = all_off();
  params.seed = 4;
  const std::vector<float> logits = Random(1).logits(50);
  const std::vector<int32_t> alone = Draws(params, 50).take(logits, 40);
  EXPECT_EQ(Draws(params, 50).take(logits, 40), alone);

  SamplerWorkspace shared(50);
  SamplingParams other = params;
  other.seed = 5;
  other.top_k = 3;
  other.repeat_penalty = 1.5f;
  Sampler mine(params, {}, shared), neighbour(other, {}, shared);
  std::vector<int32_t> beside, neighbours;
  for (int i = 0; i < 40; i++) {
    neighbours.push_back(neighbour.sample(logits, neighbours, i));
    beside.push_back(mine.sample(logits, beside, i));
  }
  EXPECT_EQ(beside, alone);
  EXPECT_NE(neighbours, alone);
}

TEST(Sampler, DrawsInProportion_AtTemperatureOneAndTwo) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  for (float temperature : {1.0f, 2.0f}) {
    SamplingParams params = all_off();
    params.temperature = temperature;
    std::vector<int> counts(3);
    for (int32_t token : Draws(params, 3).take(logits, 40000)) counts[static_cast<size_t>(token)]++;
    std::vector<double> wanted;
    for (double p : {0.5, 0.3, 0.2}) wanted.push_back(std::pow(p, 1.0 / temperature));
    const double sum = wanted[0] + wanted[1] + wanted[2];
    for (size_t i = 0; i < 3; i++) EXPECT_NEAR(counts[i], 40000 * wanted[i] / sum, 500) << i;
  }
}

TEST(Sampler, TakesTheLowestId_WhenLogitsAreEqual) {
  SamplingParams params = all_off();
  params.temperature = 0;
  EXPECT_EQ(Draws(params, 4).take({1, 5, 5, 5}, 1)[0], 1);
  params.temperature = 1;
  params.top_k = 2;
  Draws draws(params, 4);
  for (int32_t token : draws.take({1, 5, 5, 5}, 50)) EXPECT_TRUE(token == 1 || token == 2);
}

TEST(Sampler, GivesTheLikeliest_AtTemperatureZero_WhateverTheFilters) {
  SamplingParams params;
  params.temperature = 0;
  params.typical_p = 0.1f;  // alone it would drop the likeliest
  EXPECT_EQ(Draws(params, 4).take({2, 0, 0.5, 0}, 1)[0], 0);
}

TEST(Sampler, ForcesAndForbidsTokens_ByBias) {
  SamplingParams params;
  params.logit_bias = {{2, 100}};
  for (int32_t token : Draws(params, 4).take({9, 8, -7, 8}, 50)) EXPECT_EQ(token, 2);
  params.logit_bias = {{0, kForbidden}, {1, -100}};
  for (int32_t token : Draws(params, 4).take({9, 9, 1, 1}, 50)) EXPECT_GE(token, 2);
}

TEST(Sampler, CountsOnlyTheLastTokens_ForPenalties) {
  SamplingParams params;
  params.temperature = 0;
  params.presence_penalty = 2;
  params.repeat_last_n = 2;
  SamplerWorkspace workspace(3);
  Sampler sampler(params, {}, workspace);
  const std::vector<float> logits = {3, 2, 0};
  EXPECT_EQ(sampler.sample(logits, std::vector<int32_t>{0, 2, 2}, 3), 0);
  EXPECT_EQ(sampler.sample(logits, std::vector<int32_t>{2, 0, 2}, 3), 1);
  params.repeat_last_n = -1;
  EXPECT_EQ(Sampler(params, {}, workspace).sample(logits, std::vector<int32_t>{0, 2, 2}, 3), 1);
  params.presence_penalty = 0;
  params.frequency_penalty = 0.6f;
  EXPECT_EQ(Sampler(params, {}, workspace).sample(logits, std::vector<int32_t>{0, 2, 2}, 3), 0);
  EXPECT_EQ(Sampler(params, {}, workspace).sample(logits, std::vector<int32_t>{0, 0, 2}, 3), 1);
}

TEST(Sampler, HoldsEndTokensBack_UntilMinTokens_AndAlwaysWhenIgnored) {
  SamplingParams params;
  params.temperature = 0;
  params.min_tokens = 2;
  params.stop_token_ids = {1};
  SamplerWorkspace workspace(4);
  const std::vector<int32_t> end_ids = {0};
  const std::vector<float> logits = {9, 8, 7, 0};
  Sampler early(params, end_ids, workspace);
  EXPECT_EQ(early.sample(logits, {}, 1), 2);
  EXPECT_EQ(early.sample(logits, {}, 2), 0);
  params.ignore_eos = true;
  Sampler ignoring(params, end_ids, workspace);
  EXPECT_EQ(ignoring.sample(logits, {}, 1), 2);
  EXPECT_EQ(ignoring.sample(logits, {}, 2), 1);
  EXPECT_TRUE(ignoring.ends(0) && ignoring.ends(1));
  EXPECT_FALSE(ignoring.ends(2));
}

TEST(Sampler, GivesATokenAllTheSame_WhenEveryTokenIsForbidden) {
  SamplingParams params;
  params.logit_bias = {{0, kForbidden}, {1, kForbidden}};
  Draws draws(params, 2);
  for (int32_t token : draws.take({0, 50}, 5)) EXPECT_EQ(token, 1);
}

// ---- the arithmetic ----

TEST(SamplerMath, GivesExponentials_WithinAFewUnits) {
  std::vector<float> values;
  std::mt19937_64 random(3);
  for (int i = 0; i < 20011; i++) values.push_back(-700.0f * static_cast<float>(random() % 100000) / 100000.0f);
  values.push_back(-5000);
  values.push_back(kForbidden);
  std::vector<double> out(values.size());
  exponentials(values, 0, 1, out);
  for (size_t i = 0; i < values.size(); i++) {
    const double exact = std::exp(std::max(static_cast<double>(values[i]), -700.0));
    ASSERT_NEAR(out[i] / exact, 1, 2e-15) << values[i];
  }
  const std::vector<float> zero = {0};
  exponentials(zero, 0, 1, out);
  EXPECT_EQ(out[0], 1.0);
}

TEST(SamplerMath, FindsTheFirstLargest_AtEveryPlace) {
  for (size_t size = 1; size < 40; size++) {
    for (size_t at = 0; at < size; at++) {
      std::vector<float> values(size, -3);
      values[at] = 7;
      if (at + 3 < size) values[at + 3] = 7;
      ASSERT_EQ(largest(values), at) << size;
    }
  }
}

TEST(SamplerMath, SumsInLogSpace_WithoutOverflow) {
  const std::vector<float> large(1000, 5000.0f);
  EXPECT_NEAR(log_sum_exp(large), 5000 + std::log(1000.0), 1e-12);
  const std::vector<float> small = {-5000, kForbidden};
  EXPECT_NEAR(log_sum_exp(small), -5000, 1e-12);
}

// ---- log-probabilities ----

TEST(TokenLogprobs, AreThoseOfTheWholeDistribution) {
  for (uint64_t seed = 0; seed < 60; seed++) {
    Random random(seed);
    const int vocab = random.one_of({1, 3, 20, 21, 1000});
    const std::vector<float> logits = random.logits(vocab);
    std::vector<Entry> entries;
    for (int32_t i = 0; i < vocab; i++) entries.push_back({i, logits[static_cast<size_t>(i)]});
    sort_likeliest_first(entries);
    long double sum = 0;
    for (const Entry& entry : entries) sum += std::exp(static_cast<long double>(entry.logit - entries[0].logit));
    const int32_t chosen = random.below(vocab), top = random.below(kTopLogprobsMax + 1);
    const TokenLogprobs out = token_logprobs(logits, chosen, top);
    const auto exact = [&](double logit) { return static_cast<double>(logit - entries[0].logit - std::log(sum)); };
    EXPECT_EQ(out.chosen.id, chosen);
    EXPECT_NEAR(out.chosen.logprob, exact(logits[static_cast<size_t>(chosen)]), 1e-9);
    ASSERT_EQ(out.top_count, std::min(top, vocab)) << "seed " << seed;
    for (size_t i = 0; i < static_cast<size_t>(out.top_count); i++) {
      EXPECT_EQ(out.top[i].id, entries[i].id) << "seed " << seed;
      EXPECT_NEAR(out.top[i].logprob, exact(entries[i].logit), 1e-9);
    }
  }
}

}  // namespace
}  // namespace llmd
