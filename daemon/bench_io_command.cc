// `llmd bench io`: the drive through the product's own reader, with no model computed beside it.
//
// Random reads of expert matrices and of stated sizes at several depths, beside what the field finds on NVMe drives;
// what the I/O thread costs meanwhile; and how long a finished read waits for a compute thread. Reads metadata and
// expert slices only, and needs no budget.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/commands.h"
#include "daemon/drive_bench.h"
#include "daemon/model_loader.h"

namespace llmd {
namespace {

constexpr double kRunSeconds = 1.0;
constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kSizes[] = {0, 64u << 10, 256u << 10, kMiB, 4 * kMiB};  // 0: an expert's matrices
constexpr uint64_t kDepths[] = {2 * kMiB, 8 * kMiB, 32 * kMiB};

// What others have measured, to hold the figures against.
struct Stated {
  uint64_t bytes_min, bytes_max;
  const char* text;
};
constexpr Stated kStated[] = {{0, 512u << 10, "64+ reads at once saturate an NVMe"},
                              {512u << 10, 2 * kMiB, "8 to 64 at once"},
                              {2 * kMiB, UINT64_MAX, "4 to 8 at once"}};

const char* stated_for(uint64_t bytes) {
  for (const Stated& stated : kStated)
    if (bytes >= stated.bytes_min && bytes < stated.bytes_max) return stated.text;
  return "";
}

nlohmann::ordered_json to_json(const DriveRun& run) {
  return {{"slice_bytes", run.slice_bytes},
          {"bytes_in_flight", run.bytes_in_flight},
          {"reads", run.reads},
          {"bytes", run.bytes},
          {"seconds", run.seconds},
          {"bytes_per_second", run.bytes_per_second()},
          {"io_thread_share", run.io_thread_share},
          {"stated", stated_for(run.slice_bytes)}};
}

nlohmann::ordered_json to_json(const HandOff& hand_off) {
  return {{"samples", hand_off.samples},
          {"p50_us", hand_off.p50},
          {"p90_us", hand_off.p90},
          {"p99_us", hand_off.p99},
          {"max_us", hand_off.max}};
}

void print_row(const DriveRun& run) {
  std::printf("%9.0f KiB %9.0f MiB %7.1f %10.1f MB/s %9.2f %%   %s\n", static_cast<double>(run.slice_bytes) / 1024,
              static_cast<double>(run.bytes_in_flight >> 20),
              static_cast<double>(run.bytes_in_flight) / static_cast<double>(run.slice_bytes),
              run.bytes_per_second() * 1e-6, 100 * run.io_thread_share, stated_for(run.slice_bytes));
}

void print_hand_off(const char* waiter, const HandOff& h) {
  std::printf("hand-off to a %s thread: p50 %.1f us, p90 %.1f us, p99 %.1f us, longest %.1f us (%llu reads)\n", waiter,
              h.p50, h.p90, h.p99, h.max, static_cast<unsigned long long>(h.samples));
}

Status measure(const Options& options, DriveBench& bench) {
  nlohmann::ordered_json out = {{"mode", "io"}, {"read_path", bench.reader().path_name()}};
  for (const DirectFile& file : bench.files())
    out["files"].push_back({{"path", file.path()}, {"how", file.mode_reason()}});
  if (!options.json) {
    std::printf("%s; %s\n", bench.reader().path_reason().c_str(), bench.files()[0].mode_reason().c_str());
    std::printf("%13s %13s %7s %15s %11s   %s\n", "slice", "in flight", "reads", "rate", "I/O thread",
                "known of such reads");
  }
  for (uint64_t size : kSizes) {
    for (uint64_t depth : kDepths) {
      LLMD_ASSIGN_OR_RETURN(DriveRun run, bench.random_reads(size, depth, kRunSeconds));
      out["runs"].push_back(to_json(run));
      if (!options.json) print_row(run);
    }
  }
  LLMD_ASSIGN_OR_RETURN(HandOff sleeping, bench.hand_off(DriveBench::Waiter::kSleeping, 2 * kRunSeconds));
  LLMD_ASSIGN_OR_RETURN(HandOff spinning, bench.hand_off(DriveBench::Waiter::kSpinning, 2 * kRunSeconds));
  LLMD_ASSIGN_OR_RETURN(double lone, bench.lone_expert_seconds(kRunSeconds));
  out["hand_off_sleeping"] = to_json(sleeping);
  out["hand_off_spinning"] = to_json(spinning);
  out["lone_expert_seconds"] = lone;
  if (options.json) {
    std::printf("%s\n", out.dump().c_str());
    return {};
  }
  print_hand_off("sleeping", sleeping);
  print_hand_off("spinning", spinning);
  std::printf("one expert alone: %.2f ms\n", 1e3 * lone);
  return {};
}

}  // namespace

int run_bench_io(const Options& options) {
  Result<GgufModel> gguf = GgufModel::open(options.model);
  if (!gguf.ok()) return report(gguf.error());
  std::vector<std::string> notes;
  Result<std::unique_ptr<Architecture>> architecture = Architecture::create(*gguf, notes);
  if (!architecture.ok()) return report(architecture.error());
  Result<ExpertCatalog> catalog = ExpertCatalog::create(*gguf, (*architecture)->shape());
  if (!catalog.ok()) return report(catalog.error());
  Result<std::unique_ptr<DriveBench>> bench = DriveBench::open(*gguf, *catalog, reader_path(options.read_path));
  if (!bench.ok()) return report(bench.error());
  Status status = measure(options, **bench);
  return status.ok() ? 0 : report(status.error());
}

}  // namespace llmd
