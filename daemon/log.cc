#include "daemon/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace llmd {
namespace {

/// %*: the message with control characters escaped.
class EscapedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = escape_controls(std::string_view(message.payload.data(), message.payload.size()));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<EscapedMessage>(); }
};

/// %&: the priority prefix that the journal reads (sd-daemon(3)).
class JournalPriority : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    std::string_view prefix = "<6>";
    if (message.level <= spdlog::level::debug) prefix = "<7>";
    if (message.level == spdlog::level::warn) prefix = "<4>";
    if (message.level >= spdlog::level::err) prefix = "<3>";
    out.append(prefix.data(), prefix.data() + prefix.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JournalPriority>(); }
};

/// JOURNAL_STREAM is "device:inode" of the journal's end; a redirected stderr does not match it.
bool stderr_is_journal(const Environment& environment) {
  struct stat info {};
  if (fstat(STDERR_FILENO, &info) != 0) return false;
  return environment("JOURNAL_STREAM") == std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

std::string escape_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\x%02x", byte);
    out += escape;
  }
  return out;
}

std::unique_ptr<spdlog::formatter> log_formatter(bool journal) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<EscapedMessage>('*').add_flag<JournalPriority>('&');
  formatter->set_pattern(journal ? "%&%*" : "%Y-%m-%d %H:%M:%S.%e %l: %*");
  return formatter;
}

void set_up_logging(LogLevel level, const Environment& environment) {
  auto logger = std::make_shared<spdlog::logger>("llmd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(log_formatter(stderr_is_journal(environment)));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  set_log_level(level);
}

void set_log_level(LogLevel level) {
  spdlog::set_level(to_spdlog(level));
}

void log_lines(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    spdlog::info("{}", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace llmd
