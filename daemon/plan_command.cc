// `llmd plan`: the budget table (or one JSON object), from metadata alone; with --measure, the speed to expect, too.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/commands.h"
#include "daemon/model_loader.h"
#include "daemon/plan_measure.h"
#include "daemon/serve_limits.h"

namespace llmd {
namespace {

nlohmann::ordered_json plan_json(const MemoryPlan& plan) {
  return {{"budget_bytes", plan.budget_bytes},
          {"total_bytes", plan.total_bytes()},
          {"core_bytes", plan.core_bytes},
          {"kv_bytes", plan.kv_bytes},
          {"activation_bytes", plan.activation_bytes},
          {"pool_bytes", plan.pool_bytes},
          {"http_bytes", plan.http_bytes},
          {"process_bytes", plan.process_bytes},
          {"floor_bytes", plan.floor_bytes},
          {"full_bytes", plan.full_bytes},
          {"context_tokens", plan.context_tokens},
          {"kv_tokens", plan.kv_tokens},
          {"kv_token_bytes", plan.kv_token_bytes},
          {"prefill_chunk", plan.prefill_chunk},
          {"pool_experts", plan.pool_slots},
          {"experts", plan.experts_total},
          {"expert_bytes", plan.expert_bytes_total},
          {"expert_bytes_per_token", plan.expert_bytes_token},
          {"warnings", plan.warnings}};
}

}  // namespace

int run_plan(const Options& options) {
  Result<LoadedModel> model = open_model(options, kHttpBudgetBytes);
  if (!model.ok()) return report(model.error());
  const MemoryPlan& plan = model->runtime->plan();
  std::optional<PlanMeasurement> measured;
  if (options.measure) {
    Result<PlanMeasurement> result = measure_plan(*model->gguf, *model->runtime, reader_path(options.read_path));
    if (!result.ok()) return report(result.error());
    measured = std::move(result).value();
  }
  if (options.json) {
    nlohmann::ordered_json out = plan_json(plan);
    if (measured) out["measured"] = measurement_json(*measured);
    std::printf("%s\n", out.dump().c_str());
    return 0;
  }
  std::printf("memory plan for %s\n%s", options.model.c_str(), plan_table(plan).c_str());
  std::printf("\none token uses %s of experts; everything would fit from %s on, and at least %s is needed\n",
              human_bytes(plan.expert_bytes_token).c_str(), human_bytes(plan.full_bytes).c_str(),
              human_bytes(plan.floor_bytes).c_str());
  for (const std::string& note : model->runtime->notes()) std::printf("note: %s\n", note.c_str());
  for (const std::string& warning : plan.warnings) std::printf("warning: %s\n", warning.c_str());
  if (measured) std::printf("\n%s", measurement_text(*measured).c_str());
  return 0;
}

}  // namespace llmd
