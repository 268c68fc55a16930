#include "daemon/notify.h"

#include <systemd/sd-daemon.h>

#include <algorithm>

namespace llmd {
namespace {

/// The protocol separates its fields by line ends, so a value must have none.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\0'; }, ' ');
  return text;
}

void send(const std::string& state) {
  static_cast<void>(sd_notify(0, state.c_str()));
}

}  // namespace

void notify_ready(const std::string& status) {
  send("READY=1\nSTATUS=" + one_line(status));
}

void notify_status(const std::string& status) {
  send("STATUS=" + one_line(status));
}

void notify_extend_timeout(std::chrono::seconds time) {
  send("EXTEND_TIMEOUT_USEC=" + std::to_string(std::chrono::microseconds(time).count()));
}

void notify_stopping(const std::string& status) {
  send("STOPPING=1\nSTATUS=" + one_line(status));
}

void notify_watchdog() {
  send("WATCHDOG=1");
}

std::optional<std::chrono::microseconds> watchdog_interval() {
  uint64_t microseconds = 0;
  if (sd_watchdog_enabled(0, &microseconds) <= 0) return std::nullopt;
  return std::chrono::microseconds(microseconds / 2);
}

}  // namespace llmd
