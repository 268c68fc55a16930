// MemoryPlan: who gets how much of the budget, decided from metadata before anything is allocated.
//
//   budget = core weights + KV + activations + expert pool + HTTP + process
//
// Everything but the pool is fixed first; the pool takes the rest. A budget below the floor (a pool of two layers'
// experts for one row, a chunk of 16 rows) is refused with the table. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/core_weights.h"
#include "model/expert_catalog.h"
#include "model/pool_layout.h"

namespace llmd {

struct PlanRequest {
  uint64_t memory_bytes = 0;                // the ceiling on everything
  std::optional<int32_t> context_tokens;    // absent: min(trained, 32,768)
  std::optional<uint64_t> kv_memory_bytes;  // absent: max(one context, 10 % of the budget)
  std::optional<int32_t> prefill_chunk;     // absent: as many as cost little of the pool, at most 4096
  KvType kv_type = KvType::kF16;
  int threads = 1;
  uint64_t http_bytes = 0;  // connections, bodies, stream buffers
};

struct MemoryPlan {
  uint64_t budget_bytes = 0;
  uint64_t core_bytes = 0, kv_bytes = 0, activation_bytes = 0, pool_bytes = 0, http_bytes = 0, process_bytes = 0;
  uint64_t total_bytes() const {
    return core_bytes + kv_bytes + activation_bytes + pool_bytes + http_bytes + process_bytes;
  }
  uint64_t floor_bytes = 0;  // the smallest budget that would do with these settings
  uint64_t full_bytes = 0;   // the budget from which on every expert is resident
  int32_t context_tokens = 0;
  uint64_t kv_tokens = 0;  // tokens that the KV partition holds, over all requests
  uint64_t kv_token_bytes = 0;
  int32_t prefill_chunk = 0;
  PoolLayout pool;
  uint64_t expert_bytes_total = 0, expert_bytes_token = 0;
  uint32_t pool_slots = 0, experts_total = 0;
  std::vector<std::string> warnings;

  /// The arena's size: all partitions but HTTP and process.
  uint64_t arena_bytes() const { return core_bytes + kv_bytes + activation_bytes + pool_bytes; }
};

/// Errors: operating "plan_does_not_fit", whose message has the numbers; client-like "invalid_context" for a context
/// longer than the model's or a chunk of less than one token.
Result<MemoryPlan> make_plan(const PlanRequest& request, Architecture& architecture, const CoreWeights& core,
                             const ExpertCatalog& catalog, const GgufModel& model);

/// The table people read, one line per part, in GiB.
std::string plan_table(const MemoryPlan& plan);
/// "3.21 GiB", "412 MiB".
std::string human_bytes(uint64_t bytes);

}  // namespace llmd
