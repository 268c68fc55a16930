// The log: spdlog on stderr, one event in one line.
//
// set_up_logging() is called once, from main, before any thread starts; afterwards spdlog::info(...) and the rest may
// be used from any thread. Under systemd (JOURNAL_STREAM is set and names our stderr) lines carry no time, which the
// journal adds, and open with its priority prefix. Control characters in a message come out escaped, so that text from
// a client can neither forge a line nor drive a terminal. Logging never fails towards the caller.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "daemon/options.h"

namespace spdlog {
class formatter;
}

namespace llmd {

void set_up_logging(LogLevel level, const Environment& environment);
/// May be called again at any time, from any thread.
void set_log_level(LogLevel level);

/// A text of several lines (a table) at level info, one event for each line.
void log_lines(std::string_view text);

/// The format of a line; for tests.
std::unique_ptr<spdlog::formatter> log_formatter(bool journal);
/// `text` with control characters as \xNN.
std::string escape_controls(std::string_view text);

}  // namespace llmd
