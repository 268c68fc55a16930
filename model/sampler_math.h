// What sampling computes over a vocabulary, without sorting it: exponentials, their sum, the largest logits, and the
// likeliest tokens that together hold a given mass.
//
// Pure functions of their arguments, in double, with no allocation; any thread. Exponentials are the project's own
// (a polynomial the compiler turns into vector instructions), within a few units in the last place of the exact value,
// and the same on every machine. Logits are finite or -infinity, which counts for nothing; the lists are not empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace llmd {

struct Candidate {
  float logit = 0;
  int32_t id = 0;
};

/// The order of likelihood: the larger logit first, of equal ones the lower id.
inline bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// The first of the largest.
size_t largest(std::span<const float> values);

/// out[i] = exp((values[i] - offset) * scale), where the exponent is at most 0; one below -700 counts as -700.
void exponentials(std::span<const float> values, double offset, double scale, std::span<double> out);
void exponentials(std::span<const Candidate> candidates, double offset, double scale, std::span<double> out);

/// log(sum of exp(values[i])).
double log_sum_exp(std::span<const float> values);

/// The k likeliest of a row, in no order, at the front of `buffer`, which has room for the whole row. Returns how many
/// those are: fewer than k when fewer logits are finite.
size_t likeliest(std::span<const float> row, size_t k, std::span<Candidate> buffer);

/// An item of a list to be cut by mass: a smaller key is kept first, of equal ones the lower id.
struct Weighted {
  double key = 0;  // at least 0
  double weight = 0;
  int32_t id = 0;
};

inline bool kept_before(const Weighted& a, const Weighted& b) {
  return a.key < b.key || (a.key == b.key && a.id < b.id);
}

/// The last item of the shortest prefix, in the order above, whose weight reaches `wanted`; of the whole list when it
/// does not. Reorders the items.
Weighted mass_boundary(std::span<Weighted> items, double wanted);

}  // namespace llmd
