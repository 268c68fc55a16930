// How tokens are drawn where a request says nothing: llmd's settings, else what the model file recommends, else
// llama.cpp's defaults (docs/SAMPLING.md).
//
// Reads metadata only; called once while the model is loaded. What a file recommends and llmd cannot do, or that makes
// no sense, becomes a warning and nothing else: such a file is served all the same.
#pragma once

#include <string>
#include <vector>

#include "daemon/options.h"
#include "model/gguf/gguf.h"
#include "model/sampler.h"

namespace llmd {

SamplingParams sampling_defaults(const Options& options, const GgufModel& gguf, std::vector<std::string>& warnings);

}  // namespace llmd
