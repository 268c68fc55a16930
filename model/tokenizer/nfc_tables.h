// The data behind to_nfc(): canonical decompositions, the pairs that never compose again, and combining classes.
//
// Of Unicode 9.0 on purpose: that is what the reference tokenizers' library has, so newer characters with a
// decomposition and newer marks stay as they are there and here. Constant data, sorted by code point; any thread.
#pragma once

#include <cstdint>
#include <span>

namespace llmd {

struct CanonicalDecomposition {
  char32_t composed, first, second;  // second 0: a singleton, which never composes again
};
struct CodePointRange {
  char32_t first, last;
};
struct CombiningClass {
  char32_t first, last;
  uint8_t value;  // never 0
};

std::span<const CanonicalDecomposition> canonical_decompositions();
/// Characters with a two-part decomposition that are not made again from the parts.
std::span<const CodePointRange> composition_exclusions();
std::span<const CombiningClass> combining_classes();

}  // namespace llmd
