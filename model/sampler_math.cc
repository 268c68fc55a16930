#include "model/sampler_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "io/check.h"

namespace llmd {
namespace {

constexpr size_t kBlock = 256;
constexpr size_t kLanes = 2;  // of the vectors every machine has
using Lanes = double __attribute__((vector_size(kLanes * sizeof(double))));
using BitLanes = uint64_t __attribute__((vector_size(kLanes * sizeof(double))));

// exp(v) = 2^k * exp(r), |r| <= ln(2)/2: k by adding a number that leaves it in the low bits, exp(r) by its series.
[[gnu::always_inline]] inline void exp_lanes(const float* values, double offset, double scale, double* out) {
  constexpr double kLog2e = 1.4426950408889634074, kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10, kRound = 6755399441055744.0;  // 1.5 * 2^52
  Lanes v = (Lanes{values[0], values[1]} - offset) * scale;
  const Lanes least = Lanes{} - 700.0;
  v = v > least ? v : least;
  const Lanes shifted = v * kLog2e + kRound;
  const Lanes k = shifted - kRound;
  const Lanes r = (v - k * kLn2High) - k * kLn2Low;
  // The series in pairs, pairs of pairs and so on: few steps wait for one another.
  const Lanes r2 = r * r, r4 = r2 * r2;
  const Lanes a = (r + 1.0) + r2 * (r * (1.0 / 6) + 0.5);
  const Lanes b = (r * (1.0 / 120) + 1.0 / 24) + r2 * (r * (1.0 / 5040) + 1.0 / 720);
  const Lanes c = (r * (1.0 / 362880) + 1.0 / 40320) + r2 * (r * (1.0 / 39916800) + 1.0 / 3628800);
  Lanes sum = a + r4 * (b + r4 * (c + r4 * (1.0 / 479001600)));
  const BitLanes power = ((BitLanes)shifted + 1023) << 52;
  sum *= (Lanes)power;
  std::memcpy(out, &sum, sizeof sum);
}

}  // namespace

size_t largest(std::span<const float> values) {
  LLMD_CHECK(!values.empty());
  constexpr size_t kStride = 8;
  std::array<float, kStride> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + kStride <= values.size(); i += kStride)
    for (size_t lane = 0; lane < kStride; lane++)
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
  float most = *std::max_element(lanes.begin(), lanes.end());
  for (; i < values.size(); i++) most = std::max(most, values[i]);
  return static_cast<size_t>(std::find(values.begin(), values.end(), most) - values.begin());
}

void exponentials(std::span<const float> values, double offset, double scale, std::span<double> out) {
  LLMD_CHECK(out.size() >= values.size());
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) exp_lanes(values.data() + i, offset, scale, out.data() + i);
  if (i == values.size()) return;
  std::array<float, kLanes> rest;
  std::array<double, kLanes> results;
  rest.fill(values[i]);
  std::copy(values.begin() + static_cast<std::ptrdiff_t>(i), values.end(), rest.begin());
  exp_lanes(rest.data(), offset, scale, results.data());
  std::copy_n(results.begin(), values.size() - i, out.begin() + static_cast<std::ptrdiff_t>(i));
}

void exponentials(std::span<const Candidate> candidates, double offset, double scale, std::span<double> out) {
  std::array<float, kBlock> block;
  for (size_t begin = 0; begin < candidates.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, candidates.size() - begin);
    for (size_t i = 0; i < count; i++) block[i] = candidates[begin + i].logit;
    exponentials(std::span(block).first(count), offset, scale, out.subspan(begin));
  }
}

double log_sum_exp(std::span<const float> values) {
  const double most = values[largest(values)];
  std::array<double, kBlock> block;
  std::array<double, 4> sums{};
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, values.size() - begin);
    block.fill(0);
    exponentials(values.subspan(begin, count), most, 1, block);
    for (size_t i = 0; i < kBlock; i += sums.size())
      for (size_t lane = 0; lane < sums.size(); lane++) sums[lane] += block[i + lane];
  }
  return most + std::log(std::accumulate(sums.begin(), sums.end(), 0.0));
}

size_t likeliest(std::span<const float> row, size_t k, std::span<Candidate> buffer) {
  LLMD_CHECK(k > 0 && buffer.size() >= row.size());
  // Gathers what beats the k-th so far and now and then forgets all but k. Ids ascend, so a later equal never beats it.
  const size_t prune_at = std::max<size_t>(2 * k, 512);
  const auto cut = [&](size_t count) {
    const auto begin = buffer.begin(), nth = begin + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(begin, nth, begin + static_cast<std::ptrdiff_t>(count), likelier);
    return nth->logit;
  };
  float bar = -std::numeric_limits<float>::infinity();
  size_t count = 0;
  for (size_t i = 0; i < row.size(); i++) {
    if (!(row[i] > bar)) continue;
    buffer[count++] = {row[i], static_cast<int32_t>(i)};
    if (count < prune_at) continue;
    bar = cut(count);
    count = k;
  }
  if (count > k) cut(count);
  return std::min(count, k);
}

Weighted mass_boundary(std::span<Weighted> items, double wanted) {
  constexpr std::ptrdiff_t kFew = 16;
  LLMD_CHECK(!items.empty());
  auto begin = items.begin(), end = items.end();
  double before = 0;  // the weight of what stands before `begin`
  while (end - begin > kFew) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, kept_before);
    double upper = before;
    for (auto item = begin; item != middle; ++item) upper += item->weight;
    if (upper >= wanted) {
      end = middle;
    } else {
      begin = middle;
      before = upper;
    }
  }
  std::sort(begin, end, kept_before);
  for (; begin + 1 != end; ++begin) {
    before += begin->weight;
    if (before >= wanted) break;
  }
  return *begin;
}

}  // namespace llmd
