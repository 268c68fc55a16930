// What the HTTP side may take, in one place: the plan reserves it and the server keeps to it. Constants only.
#pragma once

#include <cstdint>

namespace llmd {

/// Connections, request bodies, stream buffers and replies together.
inline constexpr uint64_t kHttpBudgetBytes = 64u << 20;

}  // namespace llmd
