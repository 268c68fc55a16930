#include "io/process_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14
#endif

namespace llmd {

namespace {

std::string read_text(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

uint64_t parse_number(std::string_view text, int base = 10) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

/// Cuts the next field off the front of `line`; fields are separated by spaces or tabs.
std::string_view next_field(std::string_view* line) {
  size_t begin = std::min(line->find_first_not_of(" \t"), line->size());
  line->remove_prefix(begin);
  size_t end = std::min(line->find_first_of(" \t"), line->size());
  std::string_view field = line->substr(0, end);
  line->remove_prefix(end);
  return field;
}

std::string_view next_line(std::string_view* text) {
  size_t end = std::min(text->find('\n'), text->size());
  std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

struct Mapping {
  MappedRange range;
  std::string_view permissions, path;
};

/// A line of /proc/self/maps: "begin-end perms offset device inode   path".
Mapping parse_mapping(std::string_view line) {
  Mapping mapping;
  std::string_view range = next_field(&line);
  size_t dash = std::min(range.find('-'), range.size());
  mapping.range.begin = parse_number(range.substr(0, dash), 16);
  mapping.range.end = parse_number(range.substr(std::min(dash + 1, range.size())), 16);
  mapping.permissions = next_field(&line);
  for (int skipped = 0; skipped < 3; ++skipped) next_field(&line);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  mapping.path = line;
  return mapping;
}

}  // namespace

ProcessMemory parse_process_memory(std::string_view status, std::string_view stat) {
  ProcessMemory memory;
  while (!status.empty()) {
    std::string_view line = next_line(&status);
    std::string_view name = next_field(&line);
    uint64_t bytes = parse_number(next_field(&line)) * 1024;  // all of these are in kB
    if (name == "VmRSS:") memory.resident_bytes = bytes;
    if (name == "VmHWM:") memory.resident_peak_bytes = bytes;
    if (name == "RssFile:") memory.file_resident_bytes = bytes;
    if (name == "VmLck:") memory.locked_bytes = bytes;
  }
  // The second field is the program's name in parentheses and may hold anything, so count from its end: majflt is the
  // 12th field of all, the 10th after the name.
  size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return memory;
  stat.remove_prefix(name_end + 1);
  for (int skipped = 0; skipped < 9; ++skipped) next_field(&stat);
  memory.major_faults = parse_number(next_field(&stat));
  return memory;
}

ProcessMemory process_memory() {
  return parse_process_memory(read_text("/proc/self/status"), read_text("/proc/self/stat"));
}

uint64_t raise_memlock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 0;
  if (limit.rlim_cur != limit.rlim_max) {
    rlimit raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_MEMLOCK, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

std::vector<MappedRange> program_ranges(std::string_view maps) {
  std::set<std::string_view> programs;
  for (std::string_view rest = maps; !rest.empty();) {
    Mapping mapping = parse_mapping(next_line(&rest));
    if (mapping.permissions == "r-xp" && mapping.path.starts_with('/')) programs.insert(mapping.path);
  }
  std::vector<MappedRange> ranges;
  while (!maps.empty()) {
    Mapping mapping = parse_mapping(next_line(&maps));
    bool readable = mapping.permissions.starts_with('r') && mapping.permissions.ends_with('p');
    if (readable && programs.contains(mapping.path) && mapping.range.begin < mapping.range.end) {
      ranges.push_back(mapping.range);
    }
  }
  return ranges;
}

TextLock lock_program_text() {
  TextLock result;
  int first_error = 0;
  for (const MappedRange& range : program_ranges(read_text("/proc/self/maps"))) {
    void* begin = reinterpret_cast<void*>(range.begin);
    size_t bytes = range.end - range.begin;
    // Reading in helps even where locking is denied; kernels before 5.14 read in while locking.
    int populated = madvise(begin, bytes, MADV_POPULATE_READ);
    static_cast<void>(populated);
    if (mlock(begin, bytes) == 0) {
      result.bytes += bytes;
    } else if (first_error == 0) {
      first_error = errno;
    }
  }
  if (first_error != 0) {
    result.warning = std::string("the program text is not locked and may have to be read from disk again: ") +
                     std::strerror(first_error) + "; set LimitMEMLOCK=infinity in the unit or ulimit -l unlimited";
  }
  return result;
}

}  // namespace llmd
