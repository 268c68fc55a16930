// How fast a model will run under a budget: the stated hit-rate model and the arithmetic of a token.
//
// Pure functions over a few measured numbers (daemon/speed_bench.h); docs/PERFORMANCE.md explains and checks them. For
// the start-up diagnosis and `llmd plan --measure`. Any thread; nothing fails.
#pragma once

#include <cstdint>

namespace llmd {

/// The expected share of a decoded token's experts that are in the pool when `resident` of all `experts` fit:
/// 1 - exp(-5.6 f^0.87) for the share f, that is 53, 81 and 95 % for 10, 25 and 50 %. Trained models on text and
/// skewed test files (synth_gguf.py --routing-skew) lie near it; uniform routing hits only f.
double expected_hit_rate(uint64_t resident, uint64_t experts);

/// The expected share of a layer's experts that `tokens` neighbouring tokens touch, by the same model: a working set
/// grows by what misses a cache of its size (Denning). 47, 84 and 98 % for 32, 256 and 512 tokens with 6 of 64.
double expected_touched_share(int32_t tokens, int32_t used, int32_t experts);

struct SpeedInputs {
  int32_t moe_layers = 0, used = 0, experts = 0;  // experts of a layer, and how many a token uses
  // Compute time of one decoded token, in seconds.
  double other_seconds = 0;   // attention, routers, dense layers, output: what is not beside a layer's reads
  double shared_seconds = 0;  // the shared expert of one layer
  double expert_seconds = 0;  // one routed expert
  // Compute time of a chunk of prompt tokens.
  double chunk_seconds = 0;
  int32_t chunk_tokens = 0;
  // The drive.
  double expert_bytes = 0;      // that a missed expert reads
  double bytes_per_second = 0;  // random reads of experts, at the depth that the reader uses
  double lone_seconds = 0;      // one expert alone, from request to last byte
  double hit_rate = 0;          // of decoded tokens
  double resident_share = 0;    // of all experts, what the pool holds
};

struct SpeedEstimate {
  double decode_seconds = 0;        // a token
  double decode_drive_seconds = 0;  // of them the drive needs, were it alone
  double prefill_seconds = 0;       // the whole prompt
  double prefill_drive_seconds = 0;
};

/// Decoding with a full pool; a prompt of `prompt_tokens` from an empty pool.
SpeedEstimate estimate_speed(const SpeedInputs& inputs, int32_t prompt_tokens);

}  // namespace llmd
