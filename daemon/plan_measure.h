// measure_plan(): the expected speed of a plan on this machine, from two seconds of the drive and about one of the
// processor. For `llmd plan --measure`; one thread; errors are those of the parts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/drive_bench.h"
#include "daemon/processor_bench.h"
#include "daemon/speed_model.h"
#include "model/runtime.h"

namespace llmd {

/// The prompt whose reading is predicted.
inline constexpr int32_t kMeasuredPromptTokens = 512;

struct PlanMeasurement {
  std::vector<std::string> lines;  // the diagnosis of drive and read path
  DriveSpeed drive;                // random reads of expert matrices
  double lone_expert_seconds = 0;
  ProcessorTimes processor;
  SpeedInputs inputs;
  SpeedEstimate estimate;
};

Result<PlanMeasurement> measure_plan(const GgufModel& model, const Runtime& runtime, ReaderOptions::Path path);
std::string measurement_text(const PlanMeasurement& measurement);
nlohmann::ordered_json measurement_json(const PlanMeasurement& measurement);

}  // namespace llmd
