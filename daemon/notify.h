// What the service manager hears of us (sd_notify(3)): ready, still loading, stopping, alive.
//
// Every call is a no-op when NOTIFY_SOCKET is not set, so callers need not ask how they were started. Any thread may
// call. Nothing is reported on failure: a manager that does not listen must not stop the work.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace llmd {

/// The daemon serves. `status` is shown by systemctl status.
void notify_ready(const std::string& status);
/// One line for systemctl status; line ends in it become spaces.
void notify_status(const std::string& status);
/// While loading or draining: do not give up on us for this long from now.
void notify_extend_timeout(std::chrono::seconds time);
void notify_stopping(const std::string& status);
/// A sign of life; due every watchdog_interval().
void notify_watchdog();
/// Half the time after which the manager would kill us; empty when it does not watch.
std::optional<std::chrono::microseconds> watchdog_interval();

}  // namespace llmd
