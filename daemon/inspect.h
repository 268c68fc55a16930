// `llmd inspect`: what is in a model file: architecture, sizes by role, experts, tokenizer, chat template, tensors.
//
// inspect_model() gathers it from the headers alone, in milliseconds also for a model of hundreds of gigabytes;
// inspect_json() and inspect_text() print it for programs and for people. run_inspect() (daemon/commands.h) is the
// command. Called from main. Nothing here fails: keys that are absent or odd are shown as absent. Text from the file
// reaches a terminal with its control characters escaped; in JSON, bytes that are not UTF-8 become U+FFFD.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/gguf.h"

namespace llmd {

/// What a tensor is for, by its name and block.
enum class TensorRole : uint8_t {
  kCore,           // needed by every token: attention, norms, routers, shared experts, dense layers
  kRoutedExperts,  // needed by the tokens routed to them
  kEmbeddings,     // token_embd and output
  kMtp,            // the block(s) that draft further tokens, whole
  kOther,          // not part of the transformer (frequency tables, vision parts, ...)
};
constexpr size_t kTensorRoles = 5;
std::string_view tensor_role_name(TensorRole role);

struct SizeCount {
  uint64_t tensors = 0, bytes = 0;
};

struct ExpertSummary {
  uint64_t count = 0, used = 0, shared = 0;         // per layer; used per token
  uint64_t layers = 0;                              // layers that route
  uint64_t bytes_each_min = 0, bytes_each_max = 0;  // all matrices of one expert of one layer; layers may differ
  uint64_t bytes_per_token = 0;                     // what one token reads when nothing is resident
};

struct ModelSummary {
  std::string architecture, name, file_type;  // empty: the file does not say
  uint64_t parameters = 0, tensor_bytes = 0, file_bytes = 0;
  std::vector<TensorRole> roles;  // of model.tensors(), in order
  std::array<SizeCount, kTensorRoles> by_role;
  std::map<std::string, SizeCount> by_type;
  std::optional<ExpertSummary> experts;
  std::optional<uint64_t> vocabulary;
  std::string chat_template;
};

ModelSummary inspect_model(const GgufModel& model);
std::string inspect_json(const GgufModel& model, const ModelSummary& summary);
std::string inspect_text(const GgufModel& model, const ModelSummary& summary);

/// A float key for people and JSON: 1e-06, where widening the file's f32 would give 9.999999974752427e-07.
double shortest_double(GgufValueType type, double value);

}  // namespace llmd
