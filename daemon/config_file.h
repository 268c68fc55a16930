// A TOML config file as a flat list of entries, each with its line, for option parsing to check against its table.
//
// Keys inside tables come out dotted ("http.origin"). Called from main before any thread starts. Errors: code
// "config_invalid"; the message begins with file:line where there is a line, and says in one line what is wrong.
#pragma once

#include <string>
#include <vector>

#include "io/result.h"

namespace llmd {

struct ConfigEntry {
  enum class Type { kText, kInteger, kNumber, kSwitch, kTextList, kOther };
  std::string key;
  Type type = Type::kOther;
  std::vector<std::string> values;  // one, except for kTextList; numbers in decimal; empty for kOther
  std::string type_name;            // "a string", "an integer", ...: for messages
  unsigned line = 0;                // 1-based
};

/// In the order of the file.
Result<std::vector<ConfigEntry>> read_config_file(const std::string& path);

Error config_error(std::string message);

}  // namespace llmd
