// The cgroups above this process: where limits on memory and processor time are read from.
//
// Both versions, every ancestor included, from an injectable root so that tests can lay out a tree. Any thread, at
// start only. Never fails: what cannot be read is not there.
#pragma once

#include <string>
#include <vector>

namespace llmd {

struct CgroupDirectories {
  std::vector<std::string> unified;   // version 2: from the process's own group up to the root
  std::vector<std::string> separate;  // version 1, of the controller asked for
};

/// `controller` is version 1's name of it: "memory", "cpu". `root` is "/" in the daemon.
CgroupDirectories cgroup_directories(const std::string& root, const std::string& controller);

/// The first line of a small file, "" when it cannot be read.
std::string first_line(const std::string& path);

}  // namespace llmd
