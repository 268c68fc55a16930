// ProcessorBench: how long this processor computes for one decoded token and for a chunk of prompt tokens.
//
// A synthetic pass: every shape of weight matrix that the model has, multiplied by all threads with weights of zeros in
// the model's own types, taken from a working set larger than the caches. What is not a matrix (norms, softmax,
// context) is left out, so the times are those of an empty context, a few per cent low. Takes a second or two and at
// most 192 MiB; one thread calls it. Errors: memory.
#pragma once

#include "model/architecture.h"
#include "model/expert_catalog.h"
#include "model/gguf/gguf.h"

namespace llmd {

struct ProcessorTimes {
  double other_seconds = 0;   // a decoded token without its shared and routed experts
  double shared_seconds = 0;  // the shared expert of one layer
  double expert_seconds = 0;  // one routed expert
  double chunk_seconds = 0;   // a chunk of prompt tokens, all of it
};

Result<ProcessorTimes> measure_processor(const GgufModel& model, const Architecture& architecture,
                                         const ExpertCatalog& catalog, int threads, int32_t chunk_tokens);

}  // namespace llmd
