// Runtime: one model in memory, ready to step. It owns the arena, the reader, the pool, the KV pages and the step.
//
// open() reads metadata and makes the plan; load() takes the memory and reads the core weights. After load() the
// leading thread owns step(), kv() and residency(). Nothing is global but the kernel table, so several can live in one
// process. Errors are those of the parts (gguf, plan, reader, arena), with file and offset where there is one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/arena.h"
#include "io/direct_file.h"
#include "io/reader.h"
#include "kv/prefix_tree.h"
#include "model/architecture.h"
#include "model/checksums.h"
#include "model/core_weights.h"
#include "model/expert_catalog.h"
#include "model/expert_checker.h"
#include "model/moe_executor.h"
#include "model/plan.h"
#include "model/residency.h"
#include "model/step.h"
#include "model/thread_pool.h"

namespace llmd {

/// Makes the reader, in place of Reader::create: tests put a lying disk beneath it.
using ReaderMaker = std::function<Result<std::unique_ptr<Reader>>(const ReaderOptions&)>;

struct RuntimeOptions {
  PlanRequest plan;
  ReaderOptions::Path read_path = ReaderOptions::Path::kAuto;
  std::string checksums_file;  // empty: beside the model, if it is there
  double verify_reads = 0;     // the share of expert reads that is compared with the checksums
  ResidencyOptions residency;
  bool prefetch = false;        // read experts of the next layer on a guess, in idle time of the drive
  std::string state_directory;  // where learnt heat is kept (model/heat_file.h); empty: nowhere
  std::function<void(const LateRead&)> on_late_read;  // by the reader's thread (io/reader.h); may be empty
  ReaderMaker make_reader;                            // empty: Reader::create
};

class Runtime {
 public:
  /// Metadata, checks and plan only; `model` must outlive the runtime.
  static Result<std::unique_ptr<Runtime>> open(const GgufModel& model, const RuntimeOptions& options);
  ~Runtime();

  using ProgressFn = std::function<void(const char* phase, uint64_t done, uint64_t total)>;
  Status load(const ProgressFn& progress);

  /// Reads experts into the pool until it is full, for benchmarks. Errors: those of reads.
  Status fill_pool() { return residency_ ? residency_->fill() : Status(); }
  /// Warms the pool when idle and looks after experts that could not be read. The leading thread calls it between steps
  /// and, while it returns true, every few milliseconds when idle.
  bool maintain(bool idle) { return residency_ && residency_->maintain(idle); }
  /// Saves what was learnt of the experts' use, for the next start. Errors: "file_write".
  Status save_heat() const;

  const ModelShape& shape() const { return architecture_->shape(); }
  const MemoryPlan& plan() const { return plan_; }
  KvType kv_type() const { return options_.plan.kv_type; }
  int thread_count() const { return options_.plan.threads; }
  const ExpertCatalog& catalog() const { return catalog_; }
  /// Lines worth logging: assumptions about the file, warnings with their cure.
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  // After load().
  std::span<const DirectFile> files() const { return files_; }
  const DriveSpeed& drive_speed() const { return core_.drive_speed(); }
  const Arena& arena() const { return *arena_; }
  Step& step() { return *step_; }
  KvPagePool& kv() { return *kv_; }
  PrefixTree& prefixes() { return *prefixes_; }
  Reader& reader() { return *reader_; }
  const Reader& reader() const { return *reader_; }
  ThreadPool& threads() { return *threads_; }
  const ExpertChecker* checker() const { return checker_ ? &*checker_ : nullptr; }
  const Residency* residency() const { return residency_.get(); }  // null: a model without experts
  MoeExecutor* moe() { return moe_.get(); }

 private:
  Runtime() = default;
  Status take_memory(const ProgressFn& progress);
  Status read_checksums();
  void read_heat();

  const GgufModel* model_ = nullptr;
  RuntimeOptions options_;
  MemoryPlan plan_;
  std::vector<std::string> notes_, warnings_;
  std::unique_ptr<Architecture> architecture_;
  CoreWeights core_;
  ExpertCatalog catalog_;
  std::optional<ModelChecksums> checksums_;
  std::optional<ExpertChecker> checker_;  // with verify_reads
  // Destroyed in reverse: what uses the arena or has reads in flight goes first.
  std::vector<DirectFile> files_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Reader> reader_;
  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<KvPagePool> kv_;
  std::unique_ptr<PrefixTree> prefixes_;
  std::unique_ptr<Residency> residency_;
  std::unique_ptr<MoeExecutor> moe_;
  std::unique_ptr<Step> step_;
};

}  // namespace llmd
