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
/// Records that the KV store knows of; its index takes 1.6 KiB for each.
inline constexpr uint64_t kStoreRecordsMax = 6144;
/// The index, the headers of pages that wait to be written, and the buffer they are written from.
inline constexpr uint64_t kStoreBudgetBytes = 14u << 20;

}  // namespace llmd
