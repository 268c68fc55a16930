#include "daemon/memory_limit.h"

#include <algorithm>
#include <fstream>

#include "io/cgroup.h"

namespace llmd {
namespace {

constexpr uint64_t kNone = UINT64_MAX;

uint64_t read_number(const std::string& path) {
  std::string word = first_line(path);
  if (word.empty() || word.find_first_not_of("0123456789") != std::string::npos) return kNone;
  uint64_t value = std::strtoull(word.c_str(), nullptr, 10);
  return value >= (1ull << 60) ? kNone : value;  // v1 writes "no limit" as a huge number
}

void tighten(MemoryLimit& limit, const std::string& file) {
  uint64_t value = read_number(file);
  if (value < limit.bytes) limit = {value, file};
}

uint64_t memory_available(const std::string& root) {
  std::ifstream file(root + "proc/meminfo");
  for (std::string key, unit; file >> key;) {
    uint64_t kilobytes = 0;
    file >> kilobytes;
    std::getline(file, unit);
    if (key == "MemAvailable:") return kilobytes * 1024;
  }
  return kNone;
}

}  // namespace

MemoryLimit automatic_memory(const std::string& root) {
  MemoryLimit limit{memory_available(root), "MemAvailable"};
  CgroupDirectories groups = cgroup_directories(root, "memory");
  for (const std::string& directory : groups.unified)
    for (const char* name : {"/memory.max", "/memory.high"}) tighten(limit, directory + name);
  for (const std::string& directory : groups.separate) tighten(limit, directory + "/memory.limit_in_bytes");
  if (limit.bytes == kNone) return {0, "nothing"};
  // The machine and its other programs keep a sixteenth, at least 256 MiB.
  limit.bytes -= std::min(limit.bytes / 2, std::max<uint64_t>(limit.bytes / 16, 256u << 20));
  return limit;
}

}  // namespace llmd
