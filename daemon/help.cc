// The texts that are made from the option table: help and the printed config file.
#include <algorithm>
#include <cstdio>

#include "daemon/option_table.h"
#include "daemon/options.h"

namespace llmd {
namespace {

constexpr size_t kLeftColumn = 26;

void append_row(std::string& out, const std::string& left, const std::string& right) {
  out += "  " + left;
  out += left.size() < kLeftColumn ? std::string(kLeftColumn - left.size(), ' ')
                                   : "\n" + std::string(kLeftColumn + 2, ' ');
  out += right + "\n";
}

std::string overview() {
  std::string out =
      "llmd serves mixture-of-experts language models that are larger than this machine's memory.\n\n"
      "Usage: llmd COMMAND [FLAGS]\n\nCommands:\n";
  for (const CommandSpec& spec : command_table()) {
    append_row(out, std::string(spec.name), std::string(spec.summary));
  }
  append_row(out, "help COMMAND", "explain a command and its flags");
  out +=
      "\nA first try:\n"
      "  llmd plan --model model.gguf --memory 64G\n"
      "  llmd serve --model model.gguf --memory 64G\n"
      "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n";
  return out;
}

std::string explain(const CommandSpec& command) {
  std::string out = "llmd " + std::string(command.name) + ": " + std::string(command.summary) + "\n\nUsage: llmd " +
                    std::string(command.name) + (command.positional.empty() ? "" : " ") +
                    std::string(command.positional) + " [FLAGS]\n\nFlags:\n";
  bool settings = false;
  for (const OptionSpec& spec : option_table()) {
    if ((spec.commands & command_bit(command.command)) == 0) continue;
    settings = settings || spec.flag == "config";
    const std::string left = "--" + std::string(spec.flag) + (spec.value.empty() ? "" : " ") + std::string(spec.value);
    append_row(out, left,
               std::string(spec.help) + (spec.initial.empty() ? "" : " [" + std::string(spec.initial) + "]"));
  }
  if (settings) {
    out +=
        "\nSizes: bytes, or 512M, 64G, 1.5T in powers of 1024.\n"
        "Settings also come from the environment (--kv-type is LLMD_KV_TYPE) and from a TOML file (kv_type = \"f16\")\n"
        "named by --config; a flag wins over the environment, and that over the file.\n";
  }
  return out;
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

std::string help_text(std::optional<Command> topic) {
  return topic ? explain(command_spec(*topic)) : overview();
}

std::string config_text(const Options& options) {
  std::string out;
  for (const OptionSpec& spec : option_table()) {
    if (!spec.setting || (spec.commands & command_bit(options.command)) == 0) continue;
    if (spec.kind == ValueKind::kList) {
      if (options.override_kv.empty()) continue;
      out += config_key(spec) + " = [";
      for (size_t i = 0; i < options.override_kv.size(); ++i) {
        const auto& [key, value] = options.override_kv[i];
        out += (i == 0 ? "" : ", ") + toml_string(key + "=" + value);
      }
      out += "]\n";
      continue;
    }
    const std::string text = spec.get(options);
    if (text.empty()) continue;
    const bool bare = text != "auto" && (spec.kind == ValueKind::kInteger || spec.kind == ValueKind::kShare ||
                                         spec.kind == ValueKind::kNumber);
    out += config_key(spec) + " = " + (bare ? text : toml_string(text)) + "\n";
  }
  return out;
}

}  // namespace llmd
