#include "model/plan.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "model/sampler.h"
#include "model/step.h"

namespace llmd {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr int32_t kContextDefaultMax = 32768;
constexpr int32_t kChunkMin = 16, kChunkResident = 512, kChunkAutoMax = 4096;

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

uint64_t activations_for(Architecture& architecture, int32_t rows, int threads) {
  Carver carver(nullptr);
  Step step(architecture, nullptr, nullptr);
  step.carve(carver, rows, threads);
  return round_up(carver.used_bytes(), 4096);
}

// Program, libraries, stacks, the ring, the tensor table, and the vocabulary in its several forms. Measured on the
// running daemon (bench/RESULTS.md, "process line") and rounded up.
uint64_t process_for(const GgufModel& model, int threads) {
  uint64_t entries = 0;
  const GgufArray* vocabulary = model.get_array("tokenizer.ggml.tokens");
  const uint64_t sampler_bytes = SamplerWorkspace::bytes(vocabulary ? vocabulary->size() : 0);
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    const GgufArray* array = model.get_array(key);
    entries += array ? array->size() : 0;
  }
  return 56 * kMiB + entries * 256 + static_cast<uint64_t>(threads) * kMiB / 2 + model.tensors().size() * 512 +
         sampler_bytes;
}

Status does_not_fit(const MemoryPlan& plan) {
  return operating_error("plan_does_not_fit", "the budget of " + human_bytes(plan.budget_bytes) +
                                                  " is too small: at least " + human_bytes(plan.floor_bytes) +
                                                  " is needed (raise --memory, or lower --ctx, --kv-memory or "
                                                  "--prefill-chunk)\n" +
                                                  plan_table(plan));
}

void warn_small_pool(MemoryPlan& plan, const ExpertCatalog& catalog) {
  if (catalog.moe_layers() == 0 || plan.pool_bytes >= plan.full_bytes) return;
  uint64_t token_slots = static_cast<uint64_t>(plan.expert_bytes_token);
  if (plan.pool.bytes < token_slots) {
    plan.warnings.push_back("the expert pool (" + human_bytes(plan.pool.bytes) +
                            ") holds less than the experts of one token (" + human_bytes(token_slots) +
                            "): many experts are read again for every token; " +
                            human_bytes(token_slots - plan.pool.bytes) + " more memory would change that");
  }
}

// The longest chunk that leaves enough for the pool. A prompt reads the missing experts once a chunk: where they do not
// fit, long chunks are worth a little of the pool.
void choose_chunk(MemoryPlan& plan, int32_t least, uint64_t pool_full,
                  const std::function<uint64_t(int32_t)>& bytes_of) {
  uint64_t left = plan.budget_bytes - plan.floor_bytes;
  uint64_t others = plan.core_bytes + plan.kv_bytes + plan.http_bytes + plan.process_bytes;
  for (int32_t chunk = kChunkAutoMax; chunk > least; chunk /= 2) {
    uint64_t bytes = bytes_of(std::min(chunk, plan.context_tokens));
    bool streams = others + bytes + pool_full > plan.budget_bytes;
    if (bytes > left / (chunk > kChunkResident ? 24 : 8) || (chunk > kChunkResident && !streams)) continue;
    plan.prefill_chunk = std::min(chunk, plan.context_tokens);
    plan.activation_bytes = bytes;
    return;
  }
}

}  // namespace

std::string human_bytes(uint64_t bytes) {
  char text[32];
  double value = static_cast<double>(bytes);
  if (bytes >= 10ull << 30)
    std::snprintf(text, sizeof(text), "%.1f GiB", value / (1 << 30));
  else if (bytes >= 1ull << 30)
    std::snprintf(text, sizeof(text), "%.2f GiB", value / (1 << 30));
  else if (bytes >= 10 * kMiB)
    std::snprintf(text, sizeof(text), "%.0f MiB", value / (1 << 20));
  else
    std::snprintf(text, sizeof(text), "%.2f MiB", value / (1 << 20));
  return text;
}

Result<MemoryPlan> make_plan(const PlanRequest& request, Architecture& architecture, const CoreWeights& core,
                             const ExpertCatalog& catalog, const GgufModel& model) {
  const ModelShape& shape = architecture.shape();
  MemoryPlan plan;
  plan.budget_bytes = request.memory_bytes;
  plan.context_tokens = request.context_tokens.value_or(std::min(shape.context_trained, kContextDefaultMax));
  if (plan.context_tokens < 1 || plan.context_tokens > shape.context_trained)
    return operating_error("invalid_context", "--ctx " + std::to_string(plan.context_tokens) +
                                                  " is outside what the model was trained for: 1.." +
                                                  std::to_string(shape.context_trained));
  plan.expert_bytes_total = catalog.total_bytes();
  plan.expert_bytes_token = catalog.token_bytes();
  plan.experts_total = static_cast<uint32_t>(catalog.moe_layers() * catalog.experts_per_layer());
  plan.core_bytes = round_up(core.bytes(), 4096);
  plan.http_bytes = request.http_bytes;
  plan.process_bytes = process_for(model, request.threads);

  KvLayout kv(architecture.kv_streams(request.kv_type));
  uint64_t page = kv.page_bytes();
  plan.kv_token_bytes = kv.bytes_per_token();
  uint64_t one_context = round_up(static_cast<uint64_t>(plan.context_tokens), kKvPageTokens) / kKvPageTokens * page;
  plan.kv_bytes = request.kv_memory_bytes.value_or(std::max(one_context, request.memory_bytes / 10)) / page * page;
  if (plan.kv_bytes < one_context)
    return operating_error("plan_does_not_fit", "--kv-memory " + human_bytes(*request.kv_memory_bytes) +
                                                    " holds less than one context of " +
                                                    std::to_string(plan.context_tokens) + " tokens, which takes " +
                                                    human_bytes(one_context) + "; raise it or lower --ctx");
  plan.kv_tokens = plan.kv_bytes / page * kKvPageTokens;

  uint64_t pool_floor = pool_floor_bytes(catalog.pool_shape());
  uint64_t pool_full = pool_full_bytes(catalog.pool_shape());
  int32_t chunk_least = request.prefill_chunk.value_or(std::min(kChunkMin, plan.context_tokens));
  // A step holds a chunk of one prompt and the decode rows of others.
  auto activations = [&](int32_t chunk) {
    return activations_for(architecture, chunk + kDecodeRowsMax, request.threads);
  };
  plan.prefill_chunk = chunk_least;
  plan.activation_bytes = activations(chunk_least);
  uint64_t fixed = plan.core_bytes + plan.kv_bytes + plan.http_bytes + plan.process_bytes;
  plan.floor_bytes = fixed + plan.activation_bytes + pool_floor;
  plan.pool_bytes = pool_floor;
  if (plan.floor_bytes > plan.budget_bytes) return does_not_fit(plan).error();

  if (!request.prefill_chunk) choose_chunk(plan, chunk_least, pool_full, activations);
  fixed += plan.activation_bytes;
  plan.full_bytes = fixed + pool_full;
  plan.pool = lay_out_pool(catalog.pool_shape(), std::min(pool_full, plan.budget_bytes - fixed));
  plan.pool_bytes = plan.pool.bytes;
  for (uint32_t slots : plan.pool.slots) plan.pool_slots += slots;
  warn_small_pool(plan, catalog);
  return plan;
}

std::string plan_table(const MemoryPlan& plan) {
  std::string text;
  auto line = [&](const char* name, uint64_t bytes, const std::string& note) {
    char row[160];
    std::snprintf(row, sizeof(row), "  %-22s %12s   %s\n", name, human_bytes(bytes).c_str(), note.c_str());
    text += row;
  };
  line("core weights", plan.core_bytes, "attention, shared experts, routers, embeddings; pinned");
  line("KV", plan.kv_bytes,
       std::to_string(plan.kv_tokens) + " tokens of " + std::to_string(plan.kv_token_bytes) +
           " bytes; one context is " + std::to_string(plan.context_tokens));
  line("activations, staging", plan.activation_bytes,
       "prefill chunks of " + std::to_string(plan.prefill_chunk) + " tokens");
  line("expert pool", plan.pool_bytes,
       plan.pool_slots == 0 ? ""
                            : std::to_string(plan.pool_slots) + " of " + std::to_string(plan.experts_total) +
                                  " experts (" + human_bytes(plan.expert_bytes_total) + ")");
  line("HTTP", plan.http_bytes, "connections, bodies, stream buffers; the KV store's index");
  line("process", plan.process_bytes, "program, libraries, stacks, vocabulary");
  line("total", plan.total_bytes(), "of " + human_bytes(plan.budget_bytes));
  return text;
}

}  // namespace llmd
