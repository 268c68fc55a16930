#include "daemon/chat_template_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "api/template/chat_template.h"

namespace llmd {

Result<std::string> read_chat_template(const std::string& path) {
  const auto fail = [&](const std::string& why) {
    return operating_error("chat_template_invalid", "chat_template: " + path + " " + why);
  };
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return fail(std::string("cannot be used: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail("is not a plain file");
  if (info.st_size == 0) return fail("is empty");
  const size_t bytes_max = TemplateLimits().source_bytes_max;
  if (static_cast<uint64_t>(info.st_size) > bytes_max) {
    return fail("has more than " + std::to_string(bytes_max) + " bytes");
  }
  std::ifstream file(path, std::ios::binary);
  std::string source(static_cast<size_t>(info.st_size), '\0');
  if (!file.read(source.data(), info.st_size)) return fail("cannot be read");
  auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return fail("cannot be used: " + parsed.error().message);
  return source;
}

}  // namespace llmd
