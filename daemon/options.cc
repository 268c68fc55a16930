// From arguments, environment and config file to Options. Every source becomes a list of assignments (which option,
// what text, and how to name the place in a message); they are applied from the weakest source to the strongest.
#include "daemon/options.h"

#include <algorithm>
#include <cstdlib>

#include "daemon/config_file.h"
#include "daemon/option_table.h"

namespace llmd {
namespace {

struct Assignment {
  const OptionSpec* spec;
  std::string name;  // "--threads", "LLMD_THREADS", "llmd.conf:3: threads"
  std::string text;
};

/// What the command line says before any value is looked at.
struct CommandLine {
  const CommandSpec* command = nullptr;
  bool help = false;
  std::vector<Assignment> flags;
  std::vector<std::string> positional;
};

const OptionSpec* find_flag(std::string_view flag, Command command) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.flag == flag && (spec.commands & command_bit(command)) != 0) return &spec;
  }
  return nullptr;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// The name most like `word`, when it is like enough to have been meant; else empty.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& names) {
  static constexpr size_t kWordMax = 64;
  std::string_view best;
  size_t best_distance = 3;
  if (word.size() > kWordMax) return best;
  for (const std::string_view name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance < best_distance && distance < name.size()) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

Error unknown_flag(std::string_view flag, const CommandSpec& command) {
  std::vector<std::string_view> names;
  std::string message = "llmd " + std::string(command.name) + " has no flag " + quoted("--" + std::string(flag));
  for (const OptionSpec& spec : option_table()) {
    if ((spec.commands & command_bit(command.command)) != 0) names.push_back(spec.flag);
  }
  const std::string_view meant = nearest(flag, names);
  if (!meant.empty()) return usage_error(message + "; did you mean --" + std::string(meant) + "?");
  for (const CommandSpec& other : command_table()) {
    if (find_flag(flag, other.command) != nullptr) {
      return usage_error(message + "; it belongs to llmd " + std::string(other.name));
    }
  }
  return usage_error(message + "; see: llmd help " + std::string(command.name));
}

Error unknown_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const CommandSpec& spec : command_table()) {
    names.push_back(spec.name);
  }
  const std::string_view meant = nearest(name, names);
  return usage_error("no command " + quoted(name) + "; " +
                     (meant.empty() ? "see: llmd --help" : "did you mean llmd " + std::string(meant) + "?"));
}

/// One flag at arguments[index]; leaves index on the last argument it used.
Status take_flag(std::span<const std::string_view> arguments, size_t& index, CommandLine& line) {
  const std::string_view argument = arguments[index];
  if (argument == "--help" || argument == "-h") {
    line.help = true;
    return {};
  }
  if (argument.substr(0, 2) != "--") {
    return usage_error("there are no short flags such as " + quoted(argument) + "; see: llmd help " +
                       std::string(line.command->name));
  }
  const size_t equals = argument.find('=');
  const std::string_view flag = argument.substr(2, equals == std::string_view::npos ? equals : equals - 2);
  const OptionSpec* spec = find_flag(flag, line.command->command);
  if (spec == nullptr) return unknown_flag(flag, *line.command);
  const std::string name = "--" + std::string(flag);
  if (spec->kind == ValueKind::kSwitch) {
    if (equals != std::string_view::npos) return usage_error(name + " takes no value; write it alone or leave it out");
    line.flags.push_back({spec, name, ""});
  } else if (equals != std::string_view::npos) {
    line.flags.push_back({spec, name, std::string(argument.substr(equals + 1))});
  } else if (index + 1 < arguments.size() && arguments[index + 1].substr(0, 2) != "--") {
    line.flags.push_back({spec, name, std::string(arguments[++index])});
  } else if (spec->value == "on|off") {
    line.flags.push_back({spec, name, "on"});
  } else {
    return usage_error(name + " needs a value: " + name + " " + std::string(spec->value) +
                       (index + 1 < arguments.size() ? " (write " + name + "=... for one that begins with --)" : ""));
  }
  return {};
}

Result<CommandLine> split_arguments(std::span<const std::string_view> arguments) {
  CommandLine line;
  line.command = find_command(arguments[0]);
  if (line.command == nullptr) return unknown_command(arguments[0]);
  bool flags_ended = false;
  for (size_t index = 1; index < arguments.size(); ++index) {
    if (!flags_ended && arguments[index] == "--") {
      flags_ended = true;
    } else if (flags_ended || arguments[index].size() < 2 || arguments[index][0] != '-') {
      line.positional.emplace_back(arguments[index]);
    } else {
      LLMD_RETURN_IF_ERROR(take_flag(arguments, index, line));
    }
  }
  return line;
}

/// Checks the kind of a config entry against what the option takes, and turns it into assignments.
Status take_entry(const ConfigEntry& entry, const OptionSpec& spec, const std::string& path,
                  std::vector<Assignment>& out) {
  using Type = ConfigEntry::Type;
  const std::string name = path + ":" + std::to_string(entry.line) + ": " + entry.key;
  std::string wanted;
  switch (spec.kind) {
    case ValueKind::kInteger:
      if (entry.type != Type::kInteger && !(entry.type == Type::kText && entry.values[0] == "auto")) {
        wanted = spec.initial == "auto" ? "an integer or \"auto\"" : "an integer";
      }
      break;
    case ValueKind::kShare:
      if (entry.type != Type::kInteger && entry.type != Type::kNumber) wanted = "a number from 0 to 1";
      break;
    case ValueKind::kNumber:
      if (entry.type != Type::kInteger && entry.type != Type::kNumber &&
          !(entry.type == Type::kText && entry.values[0] == "auto"))
        wanted = "a number or \"auto\"";
      break;
    case ValueKind::kSize:
      if (entry.type != Type::kInteger && entry.type != Type::kText) wanted = "a size such as \"64G\", or bytes";
      break;
    case ValueKind::kList:
      if (entry.type != Type::kTextList) wanted = "an array of strings";
      break;
    default:
      if (entry.type != Type::kText) wanted = "a string";
  }
  if (!wanted.empty()) return config_error(name + " is " + entry.type_name + "; it takes " + wanted);
  for (const std::string& value : entry.values) out.push_back({&spec, name, value});
  return {};
}

Status add_config_file(const std::string& path, Command command, std::vector<Assignment>& out) {
  LLMD_ASSIGN_OR_RETURN(const std::vector<ConfigEntry> entries, read_config_file(path));
  for (const ConfigEntry& entry : entries) {
    std::vector<std::string> keys;
    const OptionSpec* found = nullptr;
    for (const OptionSpec& spec : option_table()) {
      if (!spec.setting) continue;
      keys.push_back(config_key(spec));
      if (keys.back() == entry.key) found = &spec;
    }
    if (found == nullptr) {
      const std::string_view meant = nearest(entry.key, {keys.begin(), keys.end()});
      return config_error(path + ":" + std::to_string(entry.line) + ": no setting is called " + quoted(entry.key) +
                          (meant.empty() ? "; see: llmd help serve" : "; did you mean " + std::string(meant) + "?"));
    }
    // A file may serve several commands: what this one does not use is checked all the same, then left.
    std::vector<Assignment> assignments;
    LLMD_RETURN_IF_ERROR(take_entry(entry, *found, path, assignments));
    for (Assignment& assignment : assignments) {
      Options ignored;
      if (auto status = found->set(ignored, assignment.name, assignment.text); !status) {
        return config_error(status.error().message);
      }
      if ((found->commands & command_bit(command)) != 0) out.push_back(std::move(assignment));
    }
  }
  return {};
}

void add_environment(const Environment& environment, Command command, std::vector<Assignment>& out) {
  for (const OptionSpec& spec : option_table()) {
    if (!spec.setting || (spec.commands & command_bit(command)) == 0) continue;
    const std::string name = environment_name(spec);
    const std::optional<std::string> value = environment(name);
    if (!value || value->empty()) continue;
    if (spec.kind != ValueKind::kList) {
      out.push_back({&spec, name, *value});
      continue;
    }
    for (size_t begin = 0; begin <= value->size();) {  // a list is separated by ';'
      const size_t end = std::min(value->find(';', begin), value->size());
      if (end > begin) out.push_back({&spec, name, value->substr(begin, end - begin)});
      begin = end + 1;
    }
  }
}

/// Applies one source. A list replaces the list of a weaker source.
Status apply_source(const std::vector<Assignment>& assignments, Options& options) {
  const bool has_list = std::any_of(assignments.begin(), assignments.end(),
                                    [](const Assignment& a) { return a.spec->kind == ValueKind::kList; });
  if (has_list) options.override_kv.clear();
  for (const Assignment& assignment : assignments) {
    LLMD_RETURN_IF_ERROR(assignment.spec->set(options, assignment.name, assignment.text));
  }
  return {};
}

Status take_positional(const CommandLine& line, Options& options) {
  const CommandSpec& command = *line.command;
  const std::string name = "llmd " + std::string(command.name);
  const size_t wanted = command.positional.empty() ? 0 : 1;
  if (line.positional.size() > wanted) {
    const std::string extra = quoted(line.positional[wanted]);
    return usage_error(name + ": " + extra + " is one argument too many; flags are written --name value");
  }
  if (wanted == 0) return {};
  if (line.positional.empty()) return usage_error(name + " needs " + std::string(command.positional));
  const std::string& text = line.positional[0];
  if (command.command == Command::kKv) {
    if (text != "list" && text != "purge") return usage_error(name + ": " + quoted(text) + " is none of list, purge");
    options.kv_action = text == "list" ? KvAction::kList : KvAction::kPurge;
    return {};
  }
  if (command.command != Command::kBench) {
    options.model = text;
    return {};
  }
  static constexpr std::pair<std::string_view, BenchMode> kModes[] = {{"decode", BenchMode::kDecode},
                                                                      {"prefill", BenchMode::kPrefill},
                                                                      {"io", BenchMode::kIo},
                                                                      {"cache", BenchMode::kCache},
                                                                      {"chats", BenchMode::kChats}};
  for (const auto& [mode_name, mode] : kModes) {
    if (mode_name == text) {
      options.bench_mode = mode;
      return {};
    }
  }
  return usage_error(name + ": " + quoted(text) + " is none of decode, prefill, io, cache, chats");
}

/// What no single option can see.
Status check_together(const Options& options) {
  const std::string name = "llmd " + std::string(command_spec(options.command).name);
  if (options.command == Command::kChat) return {};
  if (options.command == Command::kKv) {
    if (options.kv_store.empty()) return usage_error(name + " needs the directory: --kv-store DIR");
    if (options.older_than_s && options.kv_action != KvAction::kPurge)
      return usage_error(name + ": --older-than goes with purge");
    return {};
  }
  if (options.command == Command::kBench && options.bench_mode == BenchMode::kCache) {
    if (options.trace_file.empty()) return usage_error(name + " cache needs a trace to replay: --trace FILE");
    return {};
  }
  if (options.model.empty() && !options.print_config) {
    if (!options.config_file.empty()) {
      return config_error(options.config_file + ": no model is set; add: model = \"/path/to/model.gguf\"");
    }
    return usage_error(name + " needs a model: --model FILE");
  }
  if (options.command == Command::kEval) {
    const int sources = (options.tokens ? 1 : 0) + (options.text ? 1 : 0) + (options.text_file.empty() ? 0 : 1);
    if (sources != 1)
      return usage_error(name + " needs exactly one prompt: --tokens A,B,..., --text STRING or --file FILE");
  }
  if (options.memory_bytes && options.kv_memory_bytes && *options.kv_memory_bytes >= *options.memory_bytes) {
    const std::string message = "kv-memory is not smaller than memory, of which it is a part; lower it or leave it out";
    return options.config_file.empty() ? usage_error(name + ": --" + message)
                                       : config_error(options.config_file + ": " + message);
  }
  return {};
}

Result<Options> parse_help(std::span<const std::string_view> arguments) {
  Options options;
  if (arguments.size() > 2) return usage_error("llmd help explains one command at a time");
  if (arguments.size() == 2) {
    const CommandSpec* topic = find_command(arguments[1]);
    if (topic == nullptr) return unknown_command(arguments[1]);
    options.help_topic = topic->command;
  }
  return options;
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Result<Options> parse_options(std::span<const std::string_view> arguments, const Environment& environment) {
  if (arguments.empty()) return usage_error("no command given; see: llmd --help");
  if (arguments[0] == "--version" || arguments[0] == "-V" || arguments[0] == "version") {
    Options options;
    options.command = Command::kVersion;
    return options;
  }
  if (arguments[0] == "help" || arguments[0] == "--help" || arguments[0] == "-h") return parse_help(arguments);
  LLMD_ASSIGN_OR_RETURN(const CommandLine line, split_arguments(arguments));
  Options options;
  if (line.help) {
    options.help_topic = line.command->command;
    return options;
  }
  options.command = line.command->command;
  Options flags_only;  // to find --config before the sources that it outranks
  LLMD_RETURN_IF_ERROR(apply_source(line.flags, flags_only));
  const OptionSpec* config = find_flag("config", options.command);
  if (config != nullptr && flags_only.config_file.empty()) {
    flags_only.config_file = environment(environment_name(*config)).value_or("");
  }
  std::vector<Assignment> assignments;
  if (!flags_only.config_file.empty()) {
    options.config_file = flags_only.config_file;
    LLMD_RETURN_IF_ERROR(add_config_file(options.config_file, options.command, assignments));
    LLMD_RETURN_IF_ERROR(apply_source(assignments, options));
  }
  assignments.clear();
  add_environment(environment, options.command, assignments);
  if (auto status = apply_source(assignments, options); !status) return config_error(status.error().message);
  LLMD_RETURN_IF_ERROR(apply_source(line.flags, options));
  LLMD_RETURN_IF_ERROR(take_positional(line, options));
  LLMD_RETURN_IF_ERROR(check_together(options));
  if (options.command == Command::kServe && options.state_directory.empty()) {
    const std::string from_systemd = environment("STATE_DIRECTORY").value_or("");  // a list separated by ':'
    options.state_directory = from_systemd.substr(0, from_systemd.find(':'));
  }
  return options;
}

int exit_status(const Error& error) {
  return error.code == "config_invalid" ? 78 : 2;
}

}  // namespace llmd
