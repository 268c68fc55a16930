#include "daemon/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace llmd {
namespace {

constexpr uint64_t kNone = UINT64_MAX;

uint64_t read_number(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word) || word.empty() || word.find_first_not_of("0123456789") != std::string::npos) return kNone;
  uint64_t value = std::strtoull(word.c_str(), nullptr, 10);
  return value >= (1ull << 60) ? kNone : value;  // v1 writes "no limit" as a huge number
}

void tighten(MemoryLimit& limit, const std::string& file) {
  uint64_t value = read_number(file);
  if (value < limit.bytes) limit = {value, file};
}

// Every directory from `path` up to the controller's root.
void walk_up(MemoryLimit& limit, const std::string& mount, std::string path, std::initializer_list<const char*> names) {
  while (true) {
    for (const char* name : names) tighten(limit, mount + path + (path == "/" ? "" : "/") + name);
    if (path == "/" || path.empty()) return;
    size_t slash = path.rfind('/');
    path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  }
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
  std::ifstream groups(root + "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // id:controllers:path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      walk_up(limit, root + "sys/fs/cgroup", path, {"memory.max", "memory.high"});
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      walk_up(limit, root + "sys/fs/cgroup/memory", path, {"memory.limit_in_bytes"});
    }
  }
  if (limit.bytes == kNone) return {0, "nothing"};
  // The machine and its other programs keep a sixteenth, at least 256 MiB.
  limit.bytes -= std::min(limit.bytes / 2, std::max<uint64_t>(limit.bytes / 16, 256u << 20));
  return limit;
}

}  // namespace llmd
