// `llmd bench cache`: a recorded routing trace, replayed through every replacement policy and Belady's optimum.
//
// --memory is what the pool has; with --model it is the whole budget, as for serve, and the model's plan says how much
// of it the pool gets.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/commands.h"
#include "daemon/model_loader.h"
#include "daemon/serve_limits.h"
#include "model/cache_replay.h"

namespace llmd {
namespace {

Result<uint64_t> pool_bytes(const Options& options, const RoutingTrace& trace) {
  uint64_t bytes = 0, floor = pool_floor_bytes(trace.shape);
  if (!options.model.empty()) {
    LLMD_ASSIGN_OR_RETURN(LoadedModel model, open_model(options, kHttpBudgetBytes));
    bytes = model.runtime->plan().pool_bytes;
  } else if (options.memory_bytes) {
    bytes = *options.memory_bytes;
  } else {
    return client_error("usage", "llmd bench cache needs the pool's size (--memory), or a --model with its --memory");
  }
  if (bytes < floor)
    return operating_error("plan_does_not_fit", "a pool of " + human_bytes(bytes) + " is below the floor of " +
                                                    human_bytes(floor) + " for this trace; raise --memory");
  return bytes;
}

void print_table(const RoutingTrace& trace, uint64_t bytes, const std::vector<ReplayResult>& results) {
  double full = static_cast<double>(pool_full_bytes(trace.shape));
  std::printf("pool of %s: %.1f %% of all experts, %.2f tokens' experts; %llu decode steps counted\n",
              human_bytes(bytes).c_str(), 100 * static_cast<double>(bytes) / full,
              static_cast<double>(bytes) / static_cast<double>(trace.shape.token_bytes()),
              static_cast<unsigned long long>(results[0].steps));
  for (const ReplayResult& result : results)
    std::printf("  %-14s hit rate %5.1f %%, %9.1f MB a step\n", result.policy.c_str(), 100 * result.hit_rate(),
                result.bytes_per_step() / 1e6);
}

void print_json(const RoutingTrace& trace, uint64_t bytes, const std::vector<ReplayResult>& results) {
  nlohmann::ordered_json out = {{"pool_bytes", bytes},
                                {"pool_full_bytes", pool_full_bytes(trace.shape)},
                                {"token_bytes", trace.shape.token_bytes()},
                                {"steps", results[0].steps}};
  for (const ReplayResult& result : results)
    out["policies"][result.policy] = {{"hit_rate", result.hit_rate()},
                                      {"bytes_per_step", result.bytes_per_step()},
                                      {"segment_moves", result.segment_moves}};
  std::printf("%s\n", out.dump().c_str());
}

}  // namespace

int run_bench_cache(const Options& options) {
  Result<RoutingTrace> trace = RoutingTrace::load(options.trace_file);
  if (!trace.ok()) return report(trace.error());
  Result<uint64_t> bytes = pool_bytes(options, *trace);
  if (!bytes.ok()) return report(bytes.error());
  std::vector<ReplayResult> results;
  for (PolicyKind kind : kPolicyKinds) results.push_back(replay(*trace, *bytes, kind));
  results.push_back(replay(*trace, *bytes, std::nullopt));
  if (options.json)
    print_json(*trace, *bytes, results);
  else
    print_table(*trace, *bytes, results);
  return 0;
}

}  // namespace llmd
