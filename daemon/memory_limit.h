// How much memory `--memory auto` may take: the tightest cgroup limit above this process, or what the machine has free.
//
// Both cgroup versions are read, every ancestor included, from an injectable root so that tests can lay out a tree.
// Called once at start. Never fails: what cannot be read does not limit.
#pragma once

#include <cstdint>
#include <string>

namespace llmd {

struct MemoryLimit {
  uint64_t bytes = 0;  // what to use: the limit less a margin
  std::string source;  // "MemAvailable", or the cgroup file that sets the limit
};

/// `root` is "/" in the daemon.
MemoryLimit automatic_memory(const std::string& root);

}  // namespace llmd
