#include "model/processors.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "io/cgroup.h"

namespace llmd {

std::vector<int> order_by_core(const std::string& root, const std::vector<int>& allowed, int& cores) {
  std::vector<int> first, siblings;
  std::set<std::string> seen;
  for (int cpu : allowed) {
    // SMT siblings share one "thread_siblings_list"; a CPU without the file is taken for a core.
    std::string core =
        first_line(root + "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    bool fresh = core.empty() || seen.insert(core).second;
    (fresh ? first : siblings).push_back(cpu);
  }
  cores = std::max(1, static_cast<int>(first.size()));
  first.insert(first.end(), siblings.begin(), siblings.end());
  return first;
}

int cgroup_cpu_quota(const std::string& root) {
  double least = 0;
  auto tighten = [&](double quota, double period) {
    if (quota > 0 && period > 0 && (least == 0 || quota / period < least)) least = quota / period;
  };
  CgroupDirectories groups = cgroup_directories(root, "cpu");
  for (const std::string& directory : groups.unified) {
    double quota = 0, period = 0;  // "max 100000" is no limit
    if (std::sscanf(first_line(directory + "/cpu.max").c_str(), "%lf %lf", &quota, &period) == 2)
      tighten(quota, period);
  }
  for (const std::string& directory : groups.separate)
    tighten(std::atof(first_line(directory + "/cpu.cfs_quota_us").c_str()),
            std::atof(first_line(directory + "/cpu.cfs_period_us").c_str()));
  return least > 0 ? std::max(1, static_cast<int>(least)) : 0;
}

Processors allowed_processors() {
  Processors found;
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
      if (CPU_ISSET(cpu, &set)) allowed.push_back(cpu);
  }
  found.cpus = order_by_core("/", allowed, found.cores);
  found.quota = cgroup_cpu_quota("/");
  return found;
}

}  // namespace llmd
