// Writing a small file so that a reader finds the old one or the new one, whole, whenever the machine stops.
//
// The bytes go to a file of their own beside the target, are synced, and take the target's place by rename; then the
// folder is synced. A write that fails leaves the target as it was and no other file behind. Any thread; two writers of
// one path at once are the caller's mistake: the later rename wins.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "io/result.h"

namespace llmd {

/// Errors: operating "file_write" with the path and the system's reason.
Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes);

}  // namespace llmd
