#include "model/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "io/check.h"

namespace llmd {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// splitmix64: spreads a small seed over the generator's state.
uint64_t mix(uint64_t& seed) {
  uint64_t z = (seed += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t rotate(uint64_t x, int by) {
  return (x << by) | (x >> (64 - by));
}

bool contains(std::span<const int32_t> ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Buckets of a sixteenth of a nat find the one where the mass is reached; the last takes all that is further away.
constexpr size_t kBuckets = 512;

size_t bucket_of(double key) {
  return key < (kBuckets - 1) / 16.0 ? static_cast<size_t>(key * 16) : kBuckets - 1;
}

}  // namespace

SamplerWorkspace::SamplerWorkspace(int32_t vocab_size) {
  const auto size = static_cast<size_t>(vocab_size);
  row.resize(size);
  counts.resize(size);
  kept.reserve(size);
  chosen.resize(size);
  weights.resize(size);
  boundary.resize(size);
}

Sampler::Sampler(const SamplingParams& params, std::span<const int32_t> end_ids, SamplerWorkspace& workspace)
    : params_(params), end_ids_(end_ids), workspace_(&workspace) {
  const auto known = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < workspace.row.size(); };
  for (const TokenBias& entry : params.logit_bias) LLMD_CHECK(known(entry.id));
  for (int32_t id : params.stop_token_ids) LLMD_CHECK(known(id));
  for (int32_t id : end_ids) LLMD_CHECK(known(id));
  uint64_t seed = params.seed;
  for (uint64_t& word : state_) word = mix(seed);
}

bool Sampler::ends(int32_t token) const {
  return contains(end_ids_, token) || contains(params_.stop_token_ids, token);
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> tokens, int32_t generated) {
  LLMD_CHECK(logits.size() == workspace_->row.size());
  workspace_->kept.clear();
  std::span<const float> row = adjust(logits, tokens, generated);
  size_t first = largest(row);
  if (row[first] == kForbidden) {  // everything is forbidden, which cannot be honoured
    row = logits;
    first = largest(row);
  }
  if (params_.temperature <= 0) return static_cast<int32_t>(first);
  largest_ = row[first];
  take_top_k(row);
  take_typical_p();
  take_top_p();
  take_min_p();
  return draw();
}

// The logits with biases, penalties and forbidden end tokens; the row itself where there are none.
std::span<const float> Sampler::adjust(std::span<const float> logits, std::span<const int32_t> tokens,
                                       int32_t generated) {
  const bool penalties = params_.repeat_last_n != 0 && (params_.repeat_penalty != 1 || params_.presence_penalty != 0 ||
                                                        params_.frequency_penalty != 0);
  const bool early = generated < params_.min_tokens, no_end = early || params_.ignore_eos;
  if (!penalties && !no_end && params_.logit_bias.empty()) return logits;
  std::span<float> row = workspace_->row;
  std::copy(logits.begin(), logits.end(), row.begin());
  const auto at = [row](int32_t id) -> float& { return row[static_cast<size_t>(id)]; };
  for (const TokenBias& entry : params_.logit_bias) at(entry.id) += entry.bias;
  if (penalties) penalise(row, tokens);
  if (no_end)
    for (int32_t id : end_ids_) at(id) = kForbidden;
  if (early)
    for (int32_t id : params_.stop_token_ids) at(id) = kForbidden;
  return row;
}

void Sampler::penalise(std::span<float> row, std::span<const int32_t> tokens) {
  const auto last_n = static_cast<size_t>(params_.repeat_last_n);
  if (params_.repeat_last_n > 0 && last_n < tokens.size()) tokens = tokens.last(last_n);
  std::vector<int32_t>& counts = workspace_->counts;
  for (int32_t token : tokens) counts[static_cast<size_t>(token)]++;
  for (int32_t token : tokens) {
    int32_t& count = counts[static_cast<size_t>(token)];
    if (count == 0) continue;  // seen before among these
    float& logit = row[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
    logit -= static_cast<float>(count) * params_.frequency_penalty + params_.presence_penalty;
    count = 0;
  }
}

void Sampler::take_top_k(std::span<const float> row) {
  std::vector<Candidate>& kept = workspace_->kept;
  Candidate last{kForbidden, 0};  // nothing forbidden is likelier
  if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < row.size()) {
    const size_t count = likeliest(row, static_cast<size_t>(params_.top_k), workspace_->chosen);
    const auto begin = workspace_->chosen.begin();
    last = *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(count), likelier);
  }
  for (size_t i = 0; i < row.size(); i++) {
    if (row[i] < last.logit || row[i] == kForbidden) continue;
    const Candidate candidate{row[i], static_cast<int32_t>(i)};
    if (!likelier(last, candidate)) kept.push_back(candidate);
  }
}

// Keeps the candidates that `keep` wants, in their order. Without a branch, since what is kept is hard to foresee.
template <typename Keep>
void Sampler::keep_if(Keep keep) {
  std::vector<Candidate>& kept = workspace_->kept;
  size_t count = 0;
  for (size_t i = 0; i < kept.size(); i++) {
    const Candidate candidate = kept[i];
    kept[count] = candidate;
    count += keep(candidate);
  }
  kept.resize(count);
}

// Keeps the candidates with the smallest keys, as many as hold the given share of the weight.
template <typename KeyOf>
void Sampler::keep_share(double share, KeyOf key_of) {
  const std::vector<Candidate>& kept = workspace_->kept;
  const std::vector<double>& weights = workspace_->weights;
  std::array<double, kBuckets> masses{};
  for (size_t i = 0; i < kept.size(); i++) masses[bucket_of(key_of(kept[i]))] += weights[i];
  const double wanted = share * std::accumulate(masses.begin(), masses.end(), 0.0);
  size_t bucket = 0;
  double before = 0;
  while (bucket + 1 < kBuckets && (masses[bucket] == 0 || before + masses[bucket] < wanted)) before += masses[bucket++];

  std::vector<Weighted>& items = workspace_->boundary;
  size_t count = 0;
  for (size_t i = 0; i < kept.size(); i++) {
    const double key = key_of(kept[i]);
    if (bucket_of(key) == bucket) items[count++] = {key, weights[i], kept[i].id};
  }
  if (count == 0) return;  // the share is that of all
  const Weighted last = mass_boundary(std::span(items).first(count), wanted - before);
  keep_if([&](const Candidate& candidate) {
    const double key = key_of(candidate);
    return (key < last.key) | ((key == last.key) & (candidate.id <= last.id));
  });
}

// Locally typical sampling (Meister et al., 2022): the candidates whose surprise is nearest to the entropy. With x the
// logit, the one is log(sum) - x and the other log(sum) - mean(x).
void Sampler::take_typical_p() {
  const std::vector<Candidate>& kept = workspace_->kept;
  if (params_.typical_p >= 1 || kept.size() < 2) return;
  std::vector<double>& weights = workspace_->weights;
  exponentials(kept, largest_, 1, weights);
  double sum = 0, weighted = 0;
  for (size_t i = 0; i < kept.size(); i++) {
    sum += weights[i];
    weighted += weights[i] * (kept[i].logit - largest_);
  }
  const double mean = largest_ + weighted / sum;
  keep_share(params_.typical_p, [mean](const Candidate& c) { return std::fabs(c.logit - mean); });
}

void Sampler::take_top_p() {
  if (params_.top_p >= 1 || workspace_->kept.size() < 2) return;
  exponentials(workspace_->kept, largest_, 1, workspace_->weights);
  keep_share(params_.top_p, [most = largest_](const Candidate& c) { return most - c.logit; });
}

// Against the likeliest of what is left.
void Sampler::take_min_p() {
  if (params_.min_p <= 0) return;
  const double least = largest_kept() + std::log(static_cast<double>(params_.min_p));
  keep_if([least](const Candidate& candidate) { return candidate.logit >= least; });
}

double Sampler::largest_kept() const {
  float most = kForbidden;
  for (const Candidate& candidate : workspace_->kept) most = std::max(most, candidate.logit);
  return most;
}

int32_t Sampler::draw() {
  const std::vector<Candidate>& kept = workspace_->kept;
  LLMD_CHECK(!kept.empty());
  std::vector<double>& weights = workspace_->weights;
  exponentials(kept, largest_kept(), 1.0 / params_.temperature, weights);
  double sum = 0;
  for (size_t i = 0; i < kept.size(); i++) sum += weights[i];
  const double point = next_uniform() * sum;
  double passed = 0;
  for (size_t i = 0; i < kept.size(); i++) {
    passed += weights[i];
    if (point < passed) return kept[i].id;
  }
  return kept.back().id;  // not reached: the same sum in the same order
}

// xoshiro256**, top 53 bits as a double in [0, 1).
double Sampler::next_uniform() {
  uint64_t result = rotate(state_[1] * 5, 7) * 9, t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate(state_[3], 45);
  return static_cast<double>(result >> 11) * 0x1.0p-53;
}

}  // namespace llmd
