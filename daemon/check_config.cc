#include "daemon/check_config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/chat_template_file.h"
#include "daemon/config_file.h"
#include "daemon/http_settings.h"

namespace llmd {
namespace {

Status check_file(const char* setting, const std::string& path) {
  const auto fail = [&](const std::string& why) {
    return config_error(std::string(setting) + ": " + path + " " + why);
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return fail(std::string("cannot be used: ") + std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return fail("is a folder; name a file");
  if (access(path.c_str(), R_OK) != 0) {
    return fail("cannot be read by this user; change its owner or its permissions");
  }
  return {};
}

}  // namespace

Status check_paths(const Options& options) {
  LLMD_RETURN_IF_ERROR(check_file("model", options.model));
  if (!options.chat_template_file.empty()) {
    Result<std::string> source = read_chat_template(options.chat_template_file);
    if (!source.ok()) return config_error(source.error().message);
  }
  const Result<HttpOptions> http = http_options(options, process_environment());
  if (!http.ok()) return http.error();
  return {};
}

}  // namespace llmd
