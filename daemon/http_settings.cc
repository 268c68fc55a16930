#include "daemon/http_settings.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "api/access.h"
#include "daemon/serve_limits.h"
#include "daemon/version.h"

namespace llmd {
namespace {

constexpr const char* kCredential = "llmd-api-keys";
constexpr uint64_t kKeyFileBytesMax = 1 << 20;

Error setting_error(std::string message) {
  return operating_error("config_invalid", std::move(message));
}

Result<std::string> read_key_file(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return setting_error("api-key-file: cannot read " + path);
  if (static_cast<uint64_t>(info.st_size) > kKeyFileBytesMax)
    return setting_error("api-key-file: " + path + " is too large");
  if ((info.st_mode & 0077) != 0)
    spdlog::warn("{} can be read by others than its owner; run: chmod 600 {}", path, path);
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return setting_error("api-key-file: cannot read " + path);
  return text;
}

Result<ApiKeys> read_keys(const std::string& path) {
  LLMD_ASSIGN_OR_RETURN(const std::string text, read_key_file(path));
  Result<ApiKeys> keys = ApiKeys::parse(text);
  if (!keys.ok()) return setting_error("api-key-file: " + path + ": " + keys.error().message);
  return keys;
}

bool reached_from_here_only(const ListenAddress& address) {
  return !address.unix_path.empty() || is_loopback_name(address.host);
}

}  // namespace

Result<HttpOptions> http_options(const Options& options, const Environment& environment) {
  HttpOptions http;
  http.listen.clear();
  for (const ListenAddress& address : options.listen) http.listen.push_back(address.to_string());
  http.unix_mode = options.socket_mode;
  http.version = kVersion;
  http.cors_origins = options.cors_origins;
  http.allowed_hosts = options.allowed_hosts;
  http.slots_page = options.slots;
  if (options.aliases.size() > 1) http.model_aliases.assign(options.aliases.begin() + 1, options.aliases.end());
  http.ignore_model_name = options.any_model;
  http.strict_params = options.strict_params;
  http.body_bytes_max = kBodyBytesMax;
  http.body_bytes_total_max = kBodyBytesTotalMax;
  if (!options.api_key_file.empty()) {
    LLMD_ASSIGN_OR_RETURN(http.keys, read_keys(options.api_key_file));
  }
  if (const auto directory = environment("CREDENTIALS_DIRECTORY")) {
    const std::string path = (std::filesystem::path(*directory) / kCredential).string();
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) {
      LLMD_ASSIGN_OR_RETURN(const ApiKeys keys, read_keys(path));
      http.keys.add(keys);
    }
  }
  for (const ListenAddress& address : options.listen) {
    if (!http.keys.empty() || options.insecure_listen || reached_from_here_only(address)) continue;
    return setting_error("listen: other machines can reach " + address.to_string() +
                         ", and no keys are set; name a file of them with --api-key-file, or allow it with "
                         "--insecure-listen on");
  }
  return http;
}

Result<std::string> client_key(const std::string& path) {
  if (path.empty()) return std::string();
  LLMD_ASSIGN_OR_RETURN(const std::string text, read_key_file(path));
  std::istringstream lines(text);
  std::string key;
  while (lines >> key) {
    if (key.front() != '#') return key;
    std::getline(lines, key);  // the rest of a comment
  }
  return setting_error("api-key-file: " + path + ": there is no key in it");
}

}  // namespace llmd
