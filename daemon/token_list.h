// The token ids that benchmarks feed: the same for every version, budget and engine that is compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/result.h"

namespace llmd {

/// `count` ids below `vocab`: those in a file, separated by blanks, commas or line ends, or, where `path` is empty,
/// pseudo-random ones (a 64-bit LCG, fixed seed). Errors: operating "file_open"; client "invalid_token".
Result<std::vector<int32_t>> token_list(const std::string& path, size_t count, int32_t vocab);

}  // namespace llmd
