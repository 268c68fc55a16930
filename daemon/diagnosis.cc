#include "daemon/diagnosis.h"

#include <sys/resource.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "daemon/speed_model.h"
#include "io/process_memory.h"
#include "model/plan.h"

namespace llmd {
namespace {

constexpr double kHugeShareGood = 0.9;
constexpr uint64_t kHugeMatters = 64u << 20;  // an arena smaller than this needs no huge pages

/// AnonHugePages of this process; 0 where the kernel does not say.
uint64_t huge_bytes_of_process() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    unsigned long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "AnonHugePages: %llu kB", &kilobytes) == 1) return kilobytes * 1024;
  }
  return 0;
}

DiagnosisLine diagnose_memory(const MachineFacts& facts) {
  std::string text = "memory: " + human_bytes(facts.arena_bytes) + (facts.locked ? ", locked" : ", not locked");
  uint64_t huge = std::min(facts.huge_bytes, facts.arena_bytes);
  double share = facts.arena_bytes == 0 ? 1 : static_cast<double>(huge) / static_cast<double>(facts.arena_bytes);
  text += ", " + std::to_string(static_cast<int>(share * 100)) + " % of it on huge pages";
  if (facts.memlock_limit != UINT64_MAX) text += "; locked memory is limited to " + human_bytes(facts.memlock_limit);
  bool fragmented = share < kHugeShareGood && facts.arena_bytes >= kHugeMatters && !facts.arena_warned;
  if (!fragmented) return {false, text};
  return {true, text +
                    "; free memory is in pieces, which slows decoding; join it with: echo 1 > "
                    "/proc/sys/vm/compact_memory, then restart llmd"};
}

DiagnosisLine diagnose_speed(const DriveSpeed& drive) {
  std::string text = "drive speed: " + human_rate(drive.bytes_per_second);
  std::string depth = human_bytes(drive.bytes_in_flight) + " in flight";
  if (drive.samples.empty()) {
    return {false, text + " while reading core weights, which are too few to find a depth by: " + depth};
  }
  text += " with " + depth + ", the least that comes within 95 % of the best (";
  for (size_t i = 0; i < drive.samples.size(); i++) {
    text += (i ? ", " : "") + human_bytes(drive.samples[i].bytes_in_flight) + ": " +
            human_rate(drive.samples[i].bytes_per_second);
  }
  return {false, text + ")"};
}

DiagnosisLine diagnose_token(const MachineFacts& facts) {
  if (facts.experts_resident >= facts.experts) return {false, "every expert fits into memory: decoding reads nothing"};
  double hit_rate = expected_hit_rate(facts.experts_resident, facts.experts);
  double bytes = (1 - hit_rate) * static_cast<double>(facts.expert_bytes_per_token);
  char text[256];
  std::snprintf(text, sizeof(text),
                "expected: %.0f %% of a token's experts are in memory (%llu of %llu fit), the others (%s) take the "
                "drive %.3f s a token",
                100 * hit_rate, static_cast<unsigned long long>(facts.experts_resident),
                static_cast<unsigned long long>(facts.experts), human_bytes(static_cast<uint64_t>(bytes)).c_str(),
                facts.drive.bytes_per_second > 0 ? bytes / facts.drive.bytes_per_second : 0.0);
  return {false, text};
}

}  // namespace

std::string human_rate(double bytes_per_second) {
  char text[32];
  if (bytes_per_second >= 1e9)
    std::snprintf(text, sizeof(text), "%.2f GB/s", bytes_per_second * 1e-9);
  else
    std::snprintf(text, sizeof(text), "%.0f MB/s", bytes_per_second * 1e-6);
  return text;
}

std::vector<MachineFacts::File> file_facts(std::span<const DirectFile> files) {
  std::vector<MachineFacts::File> facts;
  for (const DirectFile& file : files) {
    std::string folder = std::filesystem::path(file.path()).parent_path().string();
    facts.push_back({folder.empty() ? "." : folder, file.file_system(), file.mode_reason(), file.direct(),
                     file.may_block(), file.block_bytes()});
  }
  return facts;
}

MachineFacts gather_facts(const Runtime& runtime, bool threads_asked_for) {
  MachineFacts facts;
  facts.files = file_facts(runtime.files());
  facts.read_path = runtime.reader().path_name();
  facts.read_path_reason = runtime.reader().path_reason();
  facts.threads_asked_for = threads_asked_for;
  facts.arena_bytes = runtime.arena().bytes();
  facts.huge_bytes = huge_bytes_of_process();
  facts.locked = runtime.arena().locked();
  facts.arena_warned = !runtime.arena().warnings().empty();
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) facts.memlock_limit = limit.rlim_cur;
  facts.drive = runtime.drive_speed();
  facts.expert_bytes_per_token = runtime.plan().expert_bytes_token;
  facts.experts_resident = runtime.plan().pool_slots;
  facts.experts = runtime.plan().experts_total;
  return facts;
}

std::vector<DiagnosisLine> diagnose_files(std::span<const MachineFacts::File> files) {
  std::vector<DiagnosisLine> lines;
  for (size_t i = 0; i < files.size(); i++) {
    const MachineFacts::File& file = files[i];
    auto same = [&](const MachineFacts::File& other) {
      return other.folder == file.folder && other.mode_reason == file.mode_reason;
    };
    if (std::any_of(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(i), same)) continue;
    auto count = std::count_if(files.begin(), files.end(), same);
    std::string text = "drive: " + file.folder + (count > 1 ? " (" + std::to_string(count) + " files)" : "") + " is " +
                       file.file_system + ", " + file.mode_reason;
    if (!file.direct) {
      lines.push_back({true, text + "; keep the model on a file system with direct reads (ext4, xfs, btrfs)"});
    } else if (file.may_block) {
      lines.push_back({true, text + "; this file system may hold a reader up, so its reads go through threads, which "
                                    "cost more; keep the model on ext4, xfs, btrfs or f2fs"});
    } else {
      lines.push_back({false, text});
    }
  }
  return lines;
}

DiagnosisLine diagnose_read_path(const std::string& path, const std::string& reason, bool threads_asked_for) {
  bool degraded = path != "io_uring" && !threads_asked_for;
  return {degraded, "reads: " + path + " (" + reason + ")"};
}

std::vector<DiagnosisLine> diagnose(const MachineFacts& facts) {
  std::vector<DiagnosisLine> lines = diagnose_files(facts.files);
  lines.push_back(diagnose_read_path(facts.read_path, facts.read_path_reason, facts.threads_asked_for));
  lines.push_back(diagnose_memory(facts));
  lines.push_back(diagnose_speed(facts.drive));
  if (facts.experts > 0) lines.push_back(diagnose_token(facts));
  return lines;
}

}  // namespace llmd
