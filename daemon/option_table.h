// The one list of commands and of options, from which flags, environment, config keys and help texts are made.
//
// An option named "kv-type" is the flag --kv-type; when it is a setting it is also the environment variable
// LLMD_KV_TYPE and the key kv_type of the config file. To add an option: a field in options.h and an entry in
// option_table.cc, nothing else. The tables are constants and may be read by any thread.
// Setters report errors as "usage" with a message that begins with the name they are given.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/options.h"
#include "io/result.h"

namespace llmd {

struct CommandSpec {
  Command command;
  std::string_view name;
  std::string_view positional;  // its one argument without a flag, as shown in the help; empty: none
  std::string_view summary;
};

/// What a config file may write for an option.
enum class ValueKind {
  kText,     // a string
  kInteger,  // an integer, or "auto" where that is the default
  kShare,    // a number from 0 to 1
  kNumber,   // a number, or "auto"
  kSize,     // an integer (bytes) or a string such as "64G"
  kList,     // an array of strings; on the command line, the flag again and again
  kSwitch,   // on the command line without a value; never a setting
};

using SetOption = Status (*)(Options& options, std::string_view name, std::string_view text);
using GetOption = std::string (*)(const Options& options);

struct OptionSpec {
  std::string_view flag;   // without the dashes
  std::string_view value;  // how the help calls the value; empty for a switch
  ValueKind kind;
  uint32_t commands;         // command_bit() of each command that has it
  bool setting;              // also from the environment and the config file
  std::string_view initial;  // the default, as the help shows it; empty: none
  std::string_view help;
  SetOption set;
  GetOption get;  // the value as text, for --print-config; null where that makes no sense
};

constexpr uint32_t command_bit(Command command) {
  return 1u << static_cast<uint32_t>(command);
}

std::span<const CommandSpec> command_table();
std::span<const OptionSpec> option_table();

/// Null when there is no such command.
const CommandSpec* find_command(std::string_view name);
const CommandSpec& command_spec(Command command);

std::string environment_name(const OptionSpec& spec);  // LLMD_KV_TYPE
std::string config_key(const OptionSpec& spec);        // kv_type; --sampling-top-p: top_p of the table [sampling]

/// `text` between double quotes, cut to a line's worth, control characters shown as '?'.
std::string quoted(std::string_view text);
Error usage_error(std::string message);
/// Bytes in the largest unit that divides them: "64G", "1536M", "4097".
std::string format_size(uint64_t bytes);

}  // namespace llmd
