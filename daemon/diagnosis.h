// Diagnosis: what this machine gives the engine, in plain lines, and what would make it better.
//
// gather_facts() asks the loaded model and /proc; diagnose() turns facts into lines and is pure. A degraded state is
// one line that names its cure. For the log of serve and bench at READY. The calling thread is the one that loaded.
#pragma once

#include <string>
#include <vector>

#include "io/depth_sweep.h"
#include "model/runtime.h"

namespace llmd {

struct MachineFacts {
  struct File {
    std::string folder, file_system, mode_reason;
    bool direct = false, may_block = false;
    uint32_t block_bytes = 0;
  };
  std::vector<File> files;  // one for each shard
  std::string read_path, read_path_reason;
  bool threads_asked_for = false;
  uint64_t arena_bytes = 0, huge_bytes = 0;   // huge_bytes: of the process, on huge pages
  bool locked = false, arena_warned = false;  // the arena's own warnings name the cure
  uint64_t memlock_limit = UINT64_MAX;        // UINT64_MAX: none
  DriveSpeed drive;
  uint64_t expert_bytes_per_token = 0;
  uint64_t experts_resident = 0, experts = 0;
};

struct DiagnosisLine {
  bool degraded = false;
  std::string text;
};

MachineFacts gather_facts(const Runtime& runtime, bool threads_asked_for);
std::vector<DiagnosisLine> diagnose(const MachineFacts& facts);

/// The drive's part of the diagnosis, for commands that have not loaded the model.
std::vector<DiagnosisLine> diagnose_files(std::span<const MachineFacts::File> files);
std::vector<MachineFacts::File> file_facts(std::span<const DirectFile> files);
DiagnosisLine diagnose_read_path(const std::string& path, const std::string& reason, bool threads_asked_for);
/// "536 MB/s", "2.10 GB/s".
std::string human_rate(double bytes_per_second);

}  // namespace llmd
