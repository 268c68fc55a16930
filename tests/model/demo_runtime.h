// A Runtime over the demo model, for tests: options in one struct, logits of a run as bytes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/generator.h"
#include "model/gguf/gguf.h"
#include "model/runtime.h"

namespace llmd {

inline std::string demo_path() {
  return std::string(LLMD_SOURCE_DIR) + "/demo/llmd-demo.gguf";
}

struct DemoOptions {
  std::string path = demo_path();
  uint64_t memory_bytes = 1ull << 30;
  int threads = 2;
  int32_t chunk = 0;  // 0: auto
  KvType kv_type = KvType::kF16;
  ReaderOptions::Path read_path = ReaderOptions::Path::kAuto;
  double verify_reads = 0;
  bool prefetch = false;
  ResidencyOptions residency;
  std::string state_directory;
  std::function<Result<std::unique_ptr<Reader>>(const ReaderOptions&)> make_reader;
};

struct DemoModel {
  std::unique_ptr<GgufModel> gguf;
  std::unique_ptr<Runtime> runtime;
};

inline Result<DemoModel> open_demo(const DemoOptions& options) {
  DemoModel model;
  LLMD_ASSIGN_OR_RETURN(GgufModel gguf, GgufModel::open(options.path));
  model.gguf = std::make_unique<GgufModel>(std::move(gguf));
  RuntimeOptions runtime;
  runtime.plan.memory_bytes = options.memory_bytes;
  runtime.plan.threads = options.threads;
  runtime.plan.kv_type = options.kv_type;
  runtime.plan.kv_memory_bytes = 8u << 20;  // fixed, so that the floor does not move with the budget
  if (options.chunk > 0) runtime.plan.prefill_chunk = options.chunk;
  runtime.read_path = options.read_path;
  runtime.verify_reads = options.verify_reads;
  runtime.residency = options.residency;
  runtime.prefetch = options.prefetch;
  runtime.state_directory = options.state_directory;
  runtime.make_reader = options.make_reader;
  LLMD_ASSIGN_OR_RETURN(model.runtime, Runtime::open(*model.gguf, runtime));
  return model;
}

inline DemoModel load_demo(const DemoOptions& options) {
  Result<DemoModel> model = open_demo(options);
  if (!model.ok()) {
    ADD_FAILURE() << model.error().to_string();
    return {};
  }
  Status loaded = model->runtime->load(nullptr);
  EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
  return std::move(model).value();
}

/// `count` fixed tokens of the demo vocabulary.
inline std::vector<int32_t> some_tokens(size_t count, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    tokens.push_back(static_cast<int32_t>((seed >> 33) % 1000));
  }
  return tokens;
}

}  // namespace llmd
