#include "model/runtime.h"

#include <filesystem>
#include <thread>

#include "model/heat_file.h"

namespace llmd {

Runtime::~Runtime() = default;

Result<std::unique_ptr<Runtime>> Runtime::open(const GgufModel& model, const RuntimeOptions& options) {
  std::unique_ptr<Runtime> runtime(new Runtime());
  Runtime& r = *runtime;
  r.model_ = &model;
  r.options_ = options;
  LLMD_ASSIGN_OR_RETURN(r.architecture_, Architecture::create(model, r.notes_));
  LLMD_ASSIGN_OR_RETURN(r.core_, CoreWeights::locate(model, r.architecture_->core_tensors()));
  LLMD_ASSIGN_OR_RETURN(r.catalog_, ExpertCatalog::create(model, r.shape()));
  LLMD_ASSIGN_OR_RETURN(r.plan_, make_plan(options.plan, *r.architecture_, r.core_, r.catalog_, model));
  r.warnings_ = r.plan_.warnings;
  return runtime;
}

// The arena's partitions, in order: core | KV | activations | pool. Core pages are touched first, so that reading can
// start; the rest is touched by a thread of its own while the core weights come in.
Status Runtime::load(const ProgressFn& progress) {
  for (const GgufShard& shard : model_->shards()) {
    LLMD_ASSIGN_OR_RETURN(DirectFile file, DirectFile::open(shard.path));
    if (file.bytes() != shard.file_bytes)
      return operating_error("model_truncated", "the file changed size while it was opened", shard.path);
    files_.push_back(std::move(file));
  }
  ReaderOptions reader_options;
  reader_options.path = options_.read_path;
  reader_options.on_late = options_.on_late_read;
  LLMD_ASSIGN_OR_RETURN(reader_,
                        options_.make_reader ? options_.make_reader(reader_options) : Reader::create(reader_options));
  LLMD_RETURN_IF_ERROR(read_checksums());
  LLMD_RETURN_IF_ERROR(take_memory(progress));
  read_heat();
  step_->bind(core_);
  return architecture_->bind(core_, options_.plan.kv_type);
}

// Checksums are used when they are there; they have to be when somebody named them or wants reads verified.
Status Runtime::read_checksums() {
  bool wanted = !options_.checksums_file.empty() || options_.verify_reads > 0;
  std::string path = options_.checksums_file.empty() ? ModelChecksums::default_path(*model_) : options_.checksums_file;
  Result<ModelChecksums> checksums = ModelChecksums::read(path, *model_);
  if (!checksums.ok()) {
    if (!wanted && checksums.error().code == "checksums_missing") return {};
    return std::move(checksums).error();
  }
  checksums_ = std::move(checksums).value();
  if (options_.verify_reads > 0) checker_.emplace(*checksums_, catalog_, options_.verify_reads);
  notes_.push_back("core weights are compared with their checksums in " + path);
  return {};
}

void Runtime::read_heat() {
  if (options_.state_directory.empty() || residency_ == nullptr) return;
  const PoolShape& pool = catalog_.pool_shape();
  uint64_t identity = model_identity(*model_);
  Result<std::vector<float>> heat = load_heat(heat_path(options_.state_directory, identity), identity,
                                              pool.layers.size() * static_cast<size_t>(pool.experts));
  if (heat.ok()) {
    residency_->set_heat(*heat);
    notes_.push_back("the expert pool is warmed by what earlier runs learnt");
  } else if (heat.error().code != "heat_missing") {
    warnings_.push_back(heat.error().to_string());
  }
}

Status Runtime::save_heat() const {
  if (options_.state_directory.empty() || residency_ == nullptr) return {};
  std::error_code ignored;  // where it cannot be made, saving says so
  std::filesystem::create_directories(options_.state_directory, ignored);
  uint64_t identity = model_identity(*model_);
  return llmd::save_heat(heat_path(options_.state_directory, identity), identity, residency_->heat());
}

Status Runtime::take_memory(const ProgressFn& progress) {
  int threads = options_.plan.threads;
  LLMD_ASSIGN_OR_RETURN(Arena arena, Arena::reserve(plan_.arena_bytes()));
  arena_ = std::make_unique<Arena>(std::move(arena));
  std::span<std::byte> core = arena_->take(plan_.core_bytes);
  std::span<std::byte> kv = arena_->take(plan_.kv_bytes);
  std::span<std::byte> activations = arena_->take(plan_.activation_bytes);
  std::span<std::byte> pool = arena_->take(plan_.pool_bytes);

  LLMD_RETURN_IF_ERROR(arena_->populate(0, plan_.core_bytes, threads));
  Status populated;
  std::thread populate(
      [&] { populated = arena_->populate(plan_.core_bytes, plan_.arena_bytes() - plan_.core_bytes, threads); });
  Status loaded =
      core_.load(files_, *reader_, core, checksums_ ? &*checksums_ : nullptr, [&](uint64_t done, uint64_t total) {
        if (progress) progress("reading core weights", done, total);
      });
  if (progress) progress("taking memory", 0, 0);
  populate.join();
  LLMD_RETURN_IF_ERROR(std::move(loaded));
  LLMD_RETURN_IF_ERROR(std::move(populated));
  arena_->lock();
  for (const std::string& warning : arena_->warnings()) warnings_.push_back(warning);

  threads_ = std::make_unique<ThreadPool>(threads);
  kv_ = std::make_unique<KvPagePool>(KvLayout(architecture_->kv_streams(options_.plan.kv_type)), kv);
  prefixes_ = std::make_unique<PrefixTree>(*kv_);
  if (catalog_.moe_layers() > 0) {
    residency_ = std::make_unique<Residency>(catalog_, files_, *reader_, plan_.pool, pool, options_.residency);
    if (checker_) residency_->set_checker(&*checker_);
    moe_ = std::make_unique<MoeExecutor>(shape(), *residency_, *threads_);
    moe_->set_prefetch(options_.prefetch);
  }
  step_ = std::make_unique<Step>(*architecture_, threads_.get(), moe_.get());
  Carver carver(activations.data(), activations.size());
  step_->carve(carver, plan_.prefill_chunk + kDecodeRowsMax, threads);
  return {};
}

}  // namespace llmd
