// The heat file: what experts a model's users wanted, kept over restarts (model/expert_heat.h).
//
//   <state directory>/heat-<identity, 16 hex digits>
//     "llmdheat"                                  8 bytes
//     identity of the model, number of experts    2 x u64
//     expected uses per step of each expert       experts x f32
//     FNV-1a of everything before                 u64                 all little-endian
//
// The identity is made of the sizes of the model's files and their tensor table, not of paths: a moved or renamed model
// keeps its heat, another one never gets it. Written beside, synced, then renamed: a crash leaves the old file or the
// new one. Any thread, one writer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/result.h"
#include "model/gguf/gguf.h"

namespace llmd {

uint64_t model_identity(const GgufModel& model);
std::string heat_path(const std::string& directory, uint64_t identity);

/// Errors: "heat_missing" (there is no file, which is normal), "heat_invalid" (not of this model, or damaged).
Result<std::vector<float>> load_heat(const std::string& path, uint64_t identity, size_t experts);
/// Errors: "file_write", naming the file.
Status save_heat(const std::string& path, uint64_t identity, std::span<const float> rates);

}  // namespace llmd
