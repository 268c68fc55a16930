// What this process holds in memory, and the means to keep it there.
//
// The numbers come from /proc/self and are what the budget promise is checked against: peak and current resident bytes,
// resident bytes that belong to files, major faults. lock_program_text() reads in and locks the executable and its
// libraries, so that code that first runs long after READY does not fault in from a busy disk.
// Any thread may call these; they allocate. Where a number cannot be had it is 0; nothing here fails hard.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmd {

struct ProcessMemory {
  uint64_t resident_bytes = 0;       // VmRSS
  uint64_t resident_peak_bytes = 0;  // VmHWM
  uint64_t file_resident_bytes = 0;  // RssFile: pages of mapped files, the program text among them
  uint64_t locked_bytes = 0;         // VmLck
  uint64_t major_faults = 0;         // pages that had to come from disk, since the start of the process
};
ProcessMemory process_memory();

/// Raises the soft RLIMIT_MEMLOCK to the hard one. Returns the limit now in force, UINT64_MAX = none.
uint64_t raise_memlock_limit();

struct TextLock {
  uint64_t bytes = 0;   // locked
  std::string warning;  // empty = all of it; else one line with the cure
};
TextLock lock_program_text();

/// For tests: the parsers behind the above.
ProcessMemory parse_process_memory(std::string_view status, std::string_view stat);
struct MappedRange {
  uint64_t begin = 0, end = 0;
  bool operator==(const MappedRange&) const = default;
};
/// The readable private mappings of every file that also has an executable mapping.
std::vector<MappedRange> program_ranges(std::string_view maps);

}  // namespace llmd
