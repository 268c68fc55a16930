// `llmd bench chats`: several conversations decoded at once, beside each of them alone.
//
// Every conversation is fed a list of its own (the same in both runs), --depth tokens untimed and then --tokens timed,
// a row a step; together, all rows share the steps. Each run loads the model anew: no pool has learnt from the run
// before. The likeliest token of every row is compared: who shares a step must not change it.
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

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

/// What some conversations gave: their likeliest tokens, and what the timed steps took.
struct Run {
  std::vector<std::vector<int32_t>> ids;  // [chats][depth + tokens]
  double seconds = 0;
  uint64_t bytes_read = 0;
  int32_t moe_layers = 0;
  RoutingTraceWriter* trace = nullptr;
  uint64_t routed = 0, distinct = 0;  // experts of the timed steps' layers, counted once a row and once a layer
};

class IdSink final : public LogitsSink {
 public:
  explicit IdSink(Run& run) : run_(run) {}
  void on_logits(size_t row, std::span<const float> logits) override { run_.ids[row].push_back(argmax(logits)); }

 private:
  Run& run_;
};

/// A MoeExecutor::TraceFn.
void count_experts(void* context, int32_t layer, const int32_t* ids, int64_t count) {
  Run& run = *static_cast<Run*>(context);
  if (run.trace != nullptr) RoutingTraceWriter::record(run.trace, layer, ids, count);
  run.routed += static_cast<uint64_t>(count);
  run.distinct += std::set<int32_t>(ids, ids + count).size();
}

uint64_t bytes_read(const Runtime& runtime) {
  return runtime.residency() ? runtime.residency()->statistics().bytes_read : 0;
}

/// Decodes these lists, one row each a step; the steps from `depth` on are timed.
Status decode(Runtime& runtime, std::span<const std::span<const int32_t>> lists, int32_t depth, Run& run) {
  int32_t length = static_cast<int32_t>(lists[0].size());
  run.ids.resize(lists.size());
  IdSink sink(run);
  std::vector<std::unique_ptr<KvSequence>> sequences;
  for (size_t c = 0; c < lists.size(); c++) sequences.push_back(std::make_unique<KvSequence>(runtime.kv(), length));
  for (int32_t t = 0; t < length; t++) {
    if (t == depth) {
      if (runtime.moe() != nullptr) runtime.moe()->set_trace(count_experts, &run);
      run.bytes_read = bytes_read(runtime);
      run.seconds = now_seconds();
    }
    std::vector<Row> rows;
    std::vector<std::optional<Error>> errors(lists.size());
    for (size_t c = 0; c < lists.size(); c++) {
      LLMD_RETURN_IF_ERROR(sequences[c]->extend(t + 1));
      rows.push_back({sequences[c].get(), t, lists[c][static_cast<size_t>(t)], AttentionForm::kAbsorbed, true});
    }
    runtime.step().run(rows, sink, errors);
    for (const std::optional<Error>& error : errors)
      if (error) return *error;
  }
  run.seconds = now_seconds() - run.seconds;
  run.bytes_read = bytes_read(runtime) - run.bytes_read;
  run.moe_layers = runtime.catalog().moe_layers();
  return {};
}

/// Loads the model and decodes `count` of the `chats` lists, from the `first` on.
Result<Run> load_and_decode(const Options& options, size_t first, size_t count, size_t chats, size_t length) {
  LLMD_ASSIGN_OR_RETURN(LoadedModel model, open_model(options, 0));
  LLMD_RETURN_IF_ERROR(load_model(model, false, nullptr));
  if (first == 0) log_notes(model);
  TextLock lock = lock_program_text();
  if (!lock.warning.empty()) std::fprintf(stderr, "llmd: %s\n", lock.warning.c_str());
  LLMD_ASSIGN_OR_RETURN(std::vector<int32_t> all,
                        token_list(options.tokens_file, chats * length, model.runtime->shape().vocab));
  LLMD_RETURN_IF_ERROR(model.runtime->fill_pool());
  std::vector<std::span<const int32_t>> lists;
  for (size_t c = first; c < first + count; c++)
    lists.push_back(std::span<const int32_t>(all).subspan(c * length, length));
  Run run;
  std::optional<RoutingTraceWriter> trace;
  if (!options.trace_file.empty() && count > 1) {
    LLMD_ASSIGN_OR_RETURN(trace, RoutingTraceWriter::create(options.trace_file, model.runtime->catalog().pool_shape()));
    run.trace = &*trace;
  }
  LLMD_RETURN_IF_ERROR(decode(*model.runtime, lists, options.depth, run));
  if (trace) LLMD_RETURN_IF_ERROR(trace->close());
  run.trace = nullptr;
  return run;
}

bool same_ids(const Run& together, const std::vector<Run>& alone) {
  for (size_t c = 0; c < alone.size(); c++)
    if (alone[c].ids[0] != together.ids[c]) return false;
  return true;
}

void print_result(const Options& options, const Run& together, const std::vector<Run>& alone, int32_t tokens) {
  double chats = static_cast<double>(alone.size()), each = tokens;
  double steps = each * std::max(1, together.moe_layers);
  double seconds_alone = 0, bytes_alone = 0;
  for (const Run& run : alone) {
    seconds_alone += run.seconds;
    bytes_alone += static_cast<double>(run.bytes_read);
  }
  bool same = same_ids(together, alone);
  nlohmann::ordered_json out = {{"mode", "chats"},
                                {"chats", alone.size()},
                                {"tokens", tokens},
                                {"tokens_per_second_alone", chats * each / seconds_alone},
                                {"tokens_per_second_together", chats * each / together.seconds},
                                {"gain", seconds_alone / together.seconds},
                                {"bytes_per_token_alone", bytes_alone / (chats * each)},
                                {"bytes_per_token_together", static_cast<double>(together.bytes_read) / (chats * each)},
                                {"routed_per_layer", static_cast<double>(together.routed) / steps},
                                {"distinct_per_layer", static_cast<double>(together.distinct) / steps},
                                {"same_tokens", same}};
  if (options.json) {
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  std::printf("%d tokens of each of %zu conversations: %.2f tokens/s together, %.2f alone: %.2f times\n", tokens,
              alone.size(), chats * each / together.seconds, chats * each / seconds_alone,
              seconds_alone / together.seconds);
  std::printf("a layer: %.1f experts routed to, %.1f distinct; %.1f MB read a token together, %.1f alone\n",
              static_cast<double>(together.routed) / steps, static_cast<double>(together.distinct) / steps,
              static_cast<double>(together.bytes_read) / 1e6 / (chats * each), bytes_alone / 1e6 / (chats * each));
  std::printf("the likeliest tokens are %s\n", same ? "the same in both" : "NOT THE SAME");
}

}  // namespace

int run_bench_chats(const Options& options) {
  const size_t chats = static_cast<size_t>(options.chats);
  const int32_t tokens = options.bench_tokens.value_or(48);
  const size_t length = static_cast<size_t>(options.depth + tokens);
  Result<Run> together = load_and_decode(options, 0, chats, chats, length);
  if (!together.ok()) return report(together.error());
  std::vector<Run> alone;
  for (size_t c = 0; c < chats; c++) {
    Result<Run> run = load_and_decode(options, c, 1, chats, length);
    if (!run.ok()) return report(run.error());
    alone.push_back(std::move(run).value());
  }
  print_result(options, *together, alone, tokens);
  return same_ids(*together, alone) ? 0 : 1;
}

}  // namespace llmd
