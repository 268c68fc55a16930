// The model whose file of checksums is fuzzed: a core tensor and three experts.
#pragma once

#include "tests/gguf/gguf_builder.h"

namespace llmd {

inline GgufModel fuzz_model() {
  testing::GgufBuilder builder;
  builder.text("general.architecture", "deepseek2");
  builder.tensor({"output_norm.weight", {64}, 0}).tensor({"blk.1.ffn_up_exps.weight", {32, 3, 3}, 8});
  Result<GgufModel> model = testing::read_gguf(builder.build());
  LLMD_CHECK(model.ok());
  return std::move(model).value();
}

}  // namespace llmd
