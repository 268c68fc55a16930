// `llmd bench decode|prefill`: the engine alone, on a fixed token list, with what it read and where its time went.
//
// The token list is pseudo-random from a fixed seed (or --tokens-file), never the model's own output: two engines, two
// budgets or two versions then do the same work. Where every expert fits, they are read before the clock starts: the
// benchmark is then of the processor. The context before them (--depth) is made of pseudo-random latents.
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/bench_bound.h"
#include "daemon/commands.h"
#include "daemon/model_loader.h"
#include "daemon/token_list.h"
#include "io/process_memory.h"
#include "model/generator.h"
#include "model/routing_trace.h"

namespace llmd {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Measured {
  double seconds = 0, ready_seconds = 0;
  ResidencyStatistics before, after;
  MoeTimes times_before, times_after;
  GuessCounts guesses;  // since the start of the process
  DecodeBound bound;
  uint64_t faults_at_ready = 0;
  std::vector<uint64_t> evictions_before;  // per size class
  const ExpertPool* pool = nullptr;        // null: a model without experts
};

void start(Measured& m, Runtime& runtime) {
  if (runtime.residency()) {
    m.before = runtime.residency()->statistics();
    m.pool = &runtime.residency()->pool();
    for (size_t c = 0; c < m.pool->shape().classes.size(); c++)
      m.evictions_before.push_back(m.pool->evictions(static_cast<int32_t>(c)));
  }
  if (runtime.moe()) m.times_before = runtime.moe()->times();
  m.seconds = now_seconds();
}

void stop(Measured& m, Runtime& runtime) {
  m.seconds = now_seconds() - m.seconds;
  if (runtime.residency()) m.after = runtime.residency()->statistics();
  if (runtime.moe()) {
    m.times_after = runtime.moe()->times();
    m.guesses = runtime.moe()->guesses();
  }
}

// Where each expert layer's time went, in milliseconds a token.
nlohmann::ordered_json layers_json(const DecodeBound& bound, int32_t tokens) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (size_t layer = 0; layer < bound.layers().size(); layer++) {
    const MoeTimes& times = bound.layers()[layer];
    if (times.router_seconds == 0) continue;
    double scale = 1e3 / tokens;
    out.push_back({{"layer", layer},
                   {"outside_ms", times.outside_seconds * scale},
                   {"router_ms", times.router_seconds * scale},
                   {"wait_ms", times.wait_seconds * scale},
                   {"compute_ms", times.compute_seconds() * scale},
                   {"handoff_ms", times.handoff_seconds * scale},
                   {"miss_bytes", times.miss_bytes / static_cast<uint64_t>(tokens)}});
  }
  return out;
}

// One entry for each size of expert in the file.
nlohmann::ordered_json classes_json(const ExpertPool& pool, const std::vector<uint64_t>& evictions_before) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (size_t c = 0; c < pool.shape().classes.size(); c++) {
    int32_t size_class = static_cast<int32_t>(c);
    out.push_back({{"slot_bytes", pool.shape().classes[c].slot_bytes},
                   {"slots", pool.slots(size_class)},
                   {"evictions", pool.evictions(size_class) - evictions_before[c]}});
  }
  return out;
}

double share(uint64_t part, uint64_t all) {
  return all ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

// Experts read on a guess, from the start of the process: useful + wasted + held = issued. Recall is the share of the
// routed experts, and of those of them that were missing, that were predicted.
nlohmann::ordered_json prefetch_json(const ResidencyStatistics& s, const GuessCounts& counts) {
  uint64_t issued = s.guesses - s.guesses_late;
  return {{"predicted", counts.predicted},
          {"recall", share(counts.right, counts.routed)},
          {"recall_of_misses", share(counts.missing_right, counts.missing)},
          {"issued", issued},
          {"useful", s.guesses_useful},
          {"wasted", s.guesses_wasted},
          {"held", issued - s.guesses_useful - s.guesses_wasted},
          {"late", s.guesses_late},
          {"bytes_read", s.prefetch_bytes}};
}

void print_result(const Options& options, const char* mode, int32_t tokens, int32_t depth, const Measured& m,
                  const MemoryPlan& plan) {
  ProcessMemory memory = process_memory();
  uint64_t read = m.after.bytes_read + m.after.prefetch_bytes - m.before.bytes_read - m.before.prefetch_bytes;
  uint64_t hits = m.after.hits - m.before.hits, misses = m.after.misses - m.before.misses;
  double wait = m.times_after.wait_seconds - m.times_before.wait_seconds;
  double hit_rate = hits + misses ? static_cast<double>(hits) / static_cast<double>(hits + misses) : 0;
  nlohmann::ordered_json out = {{"mode", mode},
                                {"tokens", tokens},
                                {"depth", depth},
                                {"seconds", m.seconds},
                                {"tokens_per_second", tokens / m.seconds},
                                {"expert_bytes_read", read},
                                {"expert_bytes_touched", m.after.touched_bytes - m.before.touched_bytes},
                                {"expert_hit_rate", hit_rate},
                                {"evictions", m.after.evictions - m.before.evictions},
                                {"segment_moves", m.after.segment_moves - m.before.segment_moves},
                                {"wait_seconds", wait},
                                {"compute_seconds", m.seconds - wait},
                                {"handoff_seconds", m.times_after.handoff_seconds - m.times_before.handoff_seconds},
                                {"drive_bytes_per_second", static_cast<double>(read) / m.seconds},
                                {"plan_bytes", plan.total_bytes()},
                                {"pool_experts", plan.pool_slots},
                                {"peak_rss_bytes", memory.resident_peak_bytes},
                                {"major_faults", memory.major_faults - m.faults_at_ready},
                                {"ready_seconds", m.ready_seconds}};
  if (m.pool != nullptr) out["size_classes"] = classes_json(*m.pool, m.evictions_before);
  double bound = m.bound.seconds(m.seconds);
  if (options.bench_mode == BenchMode::kDecode) {
    out["bound_seconds"] = bound;
    out["seconds_over_bound"] = m.seconds / bound;
    out["read_bytes_per_second"] = m.bound.read_rate();
    out["prefetch"] = prefetch_json(m.after, m.guesses);
    out["layers"] = layers_json(m.bound, tokens);
  }
  if (options.json) {
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  std::printf("%s %d tokens at depth %d: %.2f tokens/s (%.2f s, of which %.2f s waiting for the drive)\n", mode, tokens,
              depth, tokens / m.seconds, m.seconds, wait);
  std::printf("experts: %s read, %.1f MB a token, hit rate %.1f %%\n", human_bytes(read).c_str(),
              static_cast<double>(read) / 1e6 / tokens, 100 * hit_rate);
  if (m.guesses.predicted > 0)
    std::printf(
        "prefetch: %llu read on a guess, %llu of use, %llu wasted, %llu too late; %.1f %% of misses predicted\n",
        static_cast<unsigned long long>(m.after.guesses - m.after.guesses_late),
        static_cast<unsigned long long>(m.after.guesses_useful),
        static_cast<unsigned long long>(m.after.guesses_wasted), static_cast<unsigned long long>(m.after.guesses_late),
        100 * share(m.guesses.missing_right, m.guesses.missing));
  if (options.bench_mode == BenchMode::kDecode)
    std::printf("bound: %.2f s at the %.0f MB/s that the drive gave, %.2f times that were needed\n", bound,
                m.bound.read_rate() / 1e6, m.seconds / bound);
}

Status run_mode(const Options& options, LoadedModel& model, Measured& m, int32_t tokens, int32_t depth) {
  Runtime& runtime = *model.runtime;
  bool decode = options.bench_mode == BenchMode::kDecode;
  LLMD_ASSIGN_OR_RETURN(std::vector<int32_t> list,
                        token_list(options.tokens_file, static_cast<size_t>(depth + tokens), runtime.shape().vocab));
  Generator generator(runtime, depth + tokens);
  std::optional<RoutingTraceWriter> trace;
  if (!options.trace_file.empty() && runtime.moe() != nullptr) {
    LLMD_ASSIGN_OR_RETURN(trace, RoutingTraceWriter::create(options.trace_file, runtime.catalog().pool_shape()));
    runtime.moe()->set_trace(RoutingTraceWriter::record, &*trace);
  }
  std::span<const int32_t> all(list);
  auto ignore = [](int32_t, std::span<const float>) {};
  if (depth > 0) LLMD_RETURN_IF_ERROR(generator.fill_context(depth));
  if (decode && runtime.moe() != nullptr) {
    m.bound.reserve(static_cast<size_t>(tokens) * static_cast<size_t>(runtime.catalog().moe_layers()),
                    static_cast<size_t>(runtime.shape().layers));
    runtime.moe()->set_times(DecodeBound::add, &m.bound);
  }
  start(m, runtime);
  if (decode) {
    for (int32_t token : all.subspan(static_cast<size_t>(depth))) LLMD_RETURN_IF_ERROR(generator.decode(token, ignore));
  } else {
    LLMD_RETURN_IF_ERROR(generator.prefill(all.subspan(static_cast<size_t>(depth)), false, ignore));
  }
  stop(m, runtime);
  if (runtime.moe() != nullptr) runtime.moe()->set_times(nullptr, nullptr);
  if (!trace) return {};
  runtime.moe()->set_trace(nullptr, nullptr);
  return trace->close();
}

}  // namespace

int run_bench(const Options& options) {
  if (options.bench_mode == BenchMode::kIo) return run_bench_io(options);
  if (options.bench_mode == BenchMode::kCache) return run_bench_cache(options);
  if (options.bench_mode == BenchMode::kChats) return run_bench_chats(options);
  bool decode = options.bench_mode == BenchMode::kDecode;
  int32_t tokens = options.bench_tokens.value_or(decode ? 64 : 512), depth = options.depth;
  Measured m;
  double begin = now_seconds();
  Result<LoadedModel> model = open_model(options, 0);
  if (!model.ok()) return report(model.error());
  if (depth + tokens > model->runtime->plan().context_tokens)
    return report(client_error("context_length_exceeded", "depth and tokens exceed the context of " +
                                                              std::to_string(model->runtime->plan().context_tokens) +
                                                              "; raise --ctx"));
  Status status = load_model(*model, false, nullptr);
  if (!status.ok()) return report(status.error());
  log_notes(*model);
  TextLock lock = lock_program_text();
  if (!lock.warning.empty()) std::fprintf(stderr, "llmd: %s\n", lock.warning.c_str());
  m.ready_seconds = now_seconds() - begin;
  m.faults_at_ready = process_memory().major_faults;
  const MemoryPlan& plan = model->runtime->plan();
  if (plan.pool_slots == plan.experts_total) status = model->runtime->fill_pool();
  if (!status.ok()) return report(status.error());
  status = run_mode(options, *model, m, tokens, depth);
  if (!status.ok()) return report(status.error());
  print_result(options, decode ? "decode" : "prefill", tokens, depth, m, model->runtime->plan());
  return 0;
}

}  // namespace llmd
