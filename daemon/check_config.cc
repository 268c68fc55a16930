#include "daemon/check_config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/config_file.h"

namespace llmd {
namespace {

enum class Wanted { kReadableFile, kWritableFolder };

Status check_path(const char* setting, const std::string& path, Wanted wanted) {
  const auto fail = [&](const std::string& why) {
    return config_error(std::string(setting) + ": " + path + " " + why);
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return fail(std::string("cannot be used: ") + std::strerror(errno));
  const bool folder = wanted == Wanted::kWritableFolder;
  if (folder != S_ISDIR(info.st_mode)) return fail(folder ? "is not a folder" : "is a folder; name a file");
  if (access(path.c_str(), folder ? R_OK | W_OK | X_OK : R_OK) != 0) {
    return fail(std::string(folder ? "cannot be written" : "cannot be read") +
                " by this user; change its owner or its permissions");
  }
  return {};
}

}  // namespace

Status check_paths(const Options& options) {
  LLMD_RETURN_IF_ERROR(check_path("model", options.model, Wanted::kReadableFile));
  if (!options.chat_template_file.empty()) {
    LLMD_RETURN_IF_ERROR(check_path("chat_template", options.chat_template_file, Wanted::kReadableFile));
  }
  if (!options.kv_store_dir.empty()) {
    LLMD_RETURN_IF_ERROR(check_path("kv_store", options.kv_store_dir, Wanted::kWritableFolder));
  }
  return {};
}

}  // namespace llmd
