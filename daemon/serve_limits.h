// What the HTTP side may take, in one place: the plan reserves it and the server keeps to it. Constants only.
//
// The worst body is one unbroken run of letters: while it is tokenized, one at a time, it takes 32 bytes per byte.
#pragma once

#include <cstdint>

namespace llmd {

inline constexpr uint64_t kBodyBytesMax = 2u << 20;
inline constexpr uint64_t kBodyBytesTotalMax = 16u << 20;
/// Connections, request bodies, tokenizing, stream buffers and replies together.
inline constexpr uint64_t kHttpBudgetBytes = 96u << 20;

}  // namespace llmd
