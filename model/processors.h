// Which processors the compute threads may use: affinity, SMT siblings and cgroup quotas decide.
//
// Read once at start; any thread. Never fails: what cannot be read does not limit.
#pragma once

#include <string>
#include <vector>

namespace llmd {

/// The CPUs among `allowed` (ascending) with one of each physical core first, then their SMT siblings. `cores` gets how
/// many of them are on cores of their own. `root` is "/" in the daemon.
std::vector<int> order_by_core(const std::string& root, const std::vector<int>& allowed, int& cores);

/// CPUs' worth of time that the cgroups above this process allow, rounded down but at least 1; 0 for no limit.
int cgroup_cpu_quota(const std::string& root);

struct Processors {
  std::vector<int> cpus;  // what this process may run on, one of each core first
  int cores = 1;          // physical cores among them
  int quota = 0;          // of the cgroups; 0: none
  /// Compute threads to use when nobody says otherwise: the physical cores, within the quota.
  int default_threads() const { return quota > 0 && quota < cores ? quota : cores; }
};

/// As this process is allowed now. Ask on a thread that is not pinned itself.
Processors allowed_processors();

}  // namespace llmd
