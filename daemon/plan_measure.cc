#include "daemon/plan_measure.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/diagnosis.h"

namespace llmd {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kDepths[] = {4 * kMiB, 8 * kMiB, 16 * kMiB, 32 * kMiB};
// Four depths, then the chosen one, then single experts: two seconds of the drive in all.
constexpr double kDepthSeconds = 0.2, kChosenSeconds = 0.9, kLoneSeconds = 0.3;

Status measure_drive(PlanMeasurement& m, DriveBench& bench) {
  for (uint64_t depth : kDepths) {
    LLMD_ASSIGN_OR_RETURN(DriveRun run, bench.random_reads(0, depth, kDepthSeconds));
    m.drive.samples.push_back({depth, run.bytes_per_second()});
  }
  m.drive.bytes_in_flight = shallowest_good_depth(m.drive.samples).bytes_in_flight;
  LLMD_ASSIGN_OR_RETURN(DriveRun run, bench.random_reads(0, m.drive.bytes_in_flight, kChosenSeconds));
  m.drive.bytes = run.bytes;
  m.drive.seconds = run.seconds;
  m.drive.bytes_per_second = run.bytes_per_second();
  LLMD_ASSIGN_OR_RETURN(m.lone_expert_seconds, bench.lone_expert_seconds(kLoneSeconds));
  return {};
}

std::string format(const char* pattern, auto... values) {
  char text[320];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

}  // namespace

Result<PlanMeasurement> measure_plan(const GgufModel& model, const Runtime& runtime, ReaderOptions::Path path) {
  PlanMeasurement m;
  const MemoryPlan& plan = runtime.plan();
  const ModelShape& shape = runtime.shape();
  const bool reads = plan.pool_slots < plan.experts_total;
  LLMD_ASSIGN_OR_RETURN(std::unique_ptr<DriveBench> bench, DriveBench::open(model, runtime.catalog(), path));
  std::vector<DiagnosisLine> lines = diagnose_files(file_facts(bench->files()));
  lines.push_back(diagnose_read_path(bench->reader().path_name(), bench->reader().path_reason(),
                                     path == ReaderOptions::Path::kThreads));
  for (const DiagnosisLine& line : lines) m.lines.push_back((line.degraded ? "degraded: " : "") + line.text);
  LLMD_RETURN_IF_ERROR(measure_drive(m, *bench));

  std::vector<std::string> notes;
  LLMD_ASSIGN_OR_RETURN(std::unique_ptr<Architecture> architecture, Architecture::create(model, notes));
  int32_t chunk = std::min(plan.prefill_chunk, kMeasuredPromptTokens);
  LLMD_ASSIGN_OR_RETURN(m.processor,
                        measure_processor(model, *architecture, runtime.catalog(), runtime.thread_count(), chunk));

  SpeedInputs& in = m.inputs;
  in.moe_layers = runtime.catalog().moe_layers();
  in.used = shape.routing.used;
  in.experts = shape.routing.experts;
  in.other_seconds = m.processor.other_seconds;
  in.shared_seconds = m.processor.shared_seconds;
  in.expert_seconds = m.processor.expert_seconds;
  in.chunk_seconds = m.processor.chunk_seconds;
  in.chunk_tokens = chunk;
  if (plan.experts_total > 0) {
    in.expert_bytes = static_cast<double>(plan.expert_bytes_total) / plan.experts_total;
    in.resident_share = static_cast<double>(plan.pool_slots) / plan.experts_total;
  }
  in.bytes_per_second = m.drive.bytes_per_second;
  in.lone_seconds = m.lone_expert_seconds;
  in.hit_rate = reads ? expected_hit_rate(plan.pool_slots, plan.experts_total) : 1;
  m.estimate = estimate_speed(in, kMeasuredPromptTokens);
  return m;
}

std::string measurement_text(const PlanMeasurement& m) {
  std::string text;
  for (const std::string& line : m.lines) text += line + "\n";
  text += format("measured: %s of random expert reads with %llu MiB in flight; one expert alone takes %.2f ms\n",
                 human_rate(m.drive.bytes_per_second).c_str(),
                 static_cast<unsigned long long>(m.drive.bytes_in_flight >> 20), 1e3 * m.lone_expert_seconds);
  text += format("measured: the processor takes %.1f ms a token, of that %.1f ms for experts\n",
                 1e3 * (m.processor.other_seconds + m.inputs.moe_layers * (m.processor.shared_seconds +
                                                                           m.inputs.used * m.processor.expert_seconds)),
                 1e3 * m.inputs.moe_layers * m.inputs.used * m.processor.expert_seconds);
  text += format(
      "expected hit rate: %.0f %% with %.0f %% of the experts in memory (1 - exp(-5.6 f^0.87); text is like "
      "that, random tokens are not)\n",
      100 * m.inputs.hit_rate, 100 * m.inputs.resident_share);
  text += format("expected decode: %.2f tokens/s (%.0f ms a token; the drive alone would take %.0f ms)\n",
                 1 / m.estimate.decode_seconds, 1e3 * m.estimate.decode_seconds, 1e3 * m.estimate.decode_drive_seconds);
  text += format(
      "expected prefill: %.1f tokens/s (%d tokens from an empty pool in %.1f s; the drive alone would take "
      "%.1f s)\n",
      kMeasuredPromptTokens / m.estimate.prefill_seconds, kMeasuredPromptTokens, m.estimate.prefill_seconds,
      m.estimate.prefill_drive_seconds);
  return text;
}

nlohmann::ordered_json measurement_json(const PlanMeasurement& m) {
  return {{"drive_bytes_per_second", m.drive.bytes_per_second},
          {"bytes_in_flight", m.drive.bytes_in_flight},
          {"lone_expert_seconds", m.lone_expert_seconds},
          {"other_seconds_per_token", m.processor.other_seconds},
          {"shared_expert_seconds", m.processor.shared_seconds},
          {"expert_seconds", m.processor.expert_seconds},
          {"chunk_seconds", m.processor.chunk_seconds},
          {"chunk_tokens", m.inputs.chunk_tokens},
          {"resident_share", m.inputs.resident_share},
          {"hit_rate", m.inputs.hit_rate},
          {"hit_rate_model", "1 - exp(-5.6 f^0.87)"},
          {"decode_tokens_per_second", 1 / m.estimate.decode_seconds},
          {"decode_drive_seconds", m.estimate.decode_drive_seconds},
          {"prompt_tokens", kMeasuredPromptTokens},
          {"prefill_tokens_per_second", kMeasuredPromptTokens / m.estimate.prefill_seconds},
          {"prefill_drive_seconds", m.estimate.prefill_drive_seconds},
          {"diagnosis", m.lines}};
}

}  // namespace llmd
