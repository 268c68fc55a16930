#include "model/cache_replay.h"

#include <algorithm>

#include "io/check.h"
#include "model/moe_executor.h"
#include "model/scanning_policy.h"

namespace llmd {
namespace {

// Gives up what the trace wants again last.
class BeladyPolicy final : public ScanningPolicy {
 public:
  explicit BeladyPolicy(const RoutingTrace& trace)
      : ScanningPolicy(trace.shape),
        uses_(trace.shape.layers.size() * static_cast<size_t>(trace.shape.experts)),
        passed_(uses_.size(), 0) {
    for (size_t r = 0; r < trace.records.size(); r++) {
      const RoutingTrace::Record& record = trace.records[r];
      if (record.rows > MoeExecutor::kStepRows) continue;
      for (size_t i = 0; i < record.rows * static_cast<size_t>(trace.shape.used); i++) {
        std::vector<size_t>& uses =
            uses_[static_cast<size_t>(record.layer * trace.shape.experts + trace.ids[record.first_id + i])];
        if (uses.empty() || uses.back() != r) uses.push_back(r);
      }
    }
  }
  void use(int32_t expert) override { passed_[static_cast<size_t>(expert)]++; }
  size_t choose(std::span<const int32_t> residents, int32_t) override {
    size_t best = 0, best_use = 0;
    for (size_t i = 0; i < residents.size(); i++) {
      size_t expert = static_cast<size_t>(residents[i]);
      size_t next = passed_[expert] < uses_[expert].size() ? uses_[expert][passed_[expert]] : SIZE_MAX;
      if (next <= best_use) continue;
      best = i;
      best_use = next;
    }
    return best;
  }

 private:
  std::vector<std::vector<size_t>> uses_;  // records that use the expert, ascending
  std::vector<size_t> passed_;             // how many of them are past
};

// One layer of one step as the executor runs it: hits are pinned first; what finds no slot waits for the next wave.
void run_record(ExpertPool& pool, const RoutingTrace& trace, const RoutingTrace::Record& record) {
  const uint16_t* ids = trace.ids.data() + record.first_id;
  std::vector<int32_t> wanted(ids, ids + record.rows * static_cast<size_t>(trace.shape.used));
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  ExpertUse use = record.rows > MoeExecutor::kStepRows ? ExpertUse::kSweep : ExpertUse::kDecode;
  pool.begin_layer(record.layer, use);
  std::vector<int32_t> held;
  auto release_all = [&] {
    for (int32_t slot : held) pool.release(slot);
    held.clear();
  };
  auto take = [&](int32_t id) {
    ExpertPool::Taken taken = pool.acquire(record.layer, id, use);
    if (taken.slot < 0) return false;
    if (!taken.hit) pool.loaded(taken.slot);
    held.push_back(taken.slot);
    return true;
  };
  std::stable_partition(wanted.begin(), wanted.end(), [&](int32_t id) { return pool.find(record.layer, id) >= 0; });
  for (int32_t id : wanted) {
    if (use == ExpertUse::kSweep) release_all();  // a sweep holds few at a time
    if (take(id)) continue;
    release_all();
    LLMD_CHECK(take(id));
  }
  release_all();
}

}  // namespace

ReplayResult replay(const RoutingTrace& trace, uint64_t pool_bytes, std::optional<PolicyKind> kind) {
  PoolLayout layout = lay_out_pool(trace.shape, std::min(pool_bytes, pool_full_bytes(trace.shape)));
  ExpertPool pool = kind ? ExpertPool(trace.shape, layout, *kind)
                         : ExpertPool(trace.shape, layout, std::make_unique<BeladyPolicy>(trace));
  ReplayResult result;
  result.policy = kind ? policy_name(*kind) : "belady";
  PoolStatistics from;
  size_t begin = trace.records.size() / 4;
  std::optional<uint32_t> step;
  for (size_t r = 0; r < trace.records.size(); r++) {
    const RoutingTrace::Record& record = trace.records[r];
    if (r == begin) from = pool.statistics();
    PoolStatistics before = pool.statistics();
    run_record(pool, trace, record);
    if (r < begin || record.rows > MoeExecutor::kStepRows) continue;
    result.miss_bytes += pool.statistics().miss_bytes - before.miss_bytes;
    if (step != record.step) result.steps++;
    step = record.step;
  }
  const PoolStatistics& to = pool.statistics();
  result.hits = to.decode_hits - from.decode_hits;
  result.misses = to.decode_misses - from.decode_misses;
  result.segment_moves = to.segment_moves;
  return result;
}

}  // namespace llmd
