#include "io/cgroup.h"

#include <fstream>

namespace llmd {
namespace {

std::vector<std::string> up_to_the_root(const std::string& mount, std::string path) {
  std::vector<std::string> directories;
  while (path.size() > 1) {
    directories.push_back(mount + path);
    size_t slash = path.rfind('/');
    path = slash == std::string::npos ? "" : path.substr(0, slash);
  }
  directories.push_back(mount);
  return directories;
}

}  // namespace

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

CgroupDirectories cgroup_directories(const std::string& root, const std::string& controller) {
  CgroupDirectories found;
  std::ifstream groups(root + "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // id:controllers:path
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      found.unified = up_to_the_root(root + "sys/fs/cgroup", path);
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      found.separate = up_to_the_root(root + "sys/fs/cgroup/" + controller, path);
    }
  }
  return found;
}

}  // namespace llmd
