#include "daemon/config_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <toml.hpp>

namespace llmd {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;
constexpr size_t kLineBytesMax = 4096;
constexpr int kNestingMax = 64;

const char* type_name(const toml::value& value) {
  switch (value.type()) {
    case toml::value_t::string:
      return "a string";
    case toml::value_t::integer:
      return "an integer";
    case toml::value_t::boolean:
      return "a boolean";
    case toml::value_t::floating:
      return "a number with a fraction";
    case toml::value_t::array:
      return "an array";
    default:
      return "a date or a table";
  }
}

/// As short as it can be and still the same number; never with an exponent.
std::string decimal(double value) {
  std::array<char, 400> text{};
  auto printed = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return {text.data(), printed.ptr};
}

ConfigEntry to_entry(std::string key, const toml::value& value) {
  ConfigEntry entry;
  entry.key = std::move(key);
  entry.type_name = type_name(value);
  entry.line = static_cast<unsigned>(value.location().line());
  if (value.is_string()) {
    entry.type = ConfigEntry::Type::kText;
    entry.values = {value.as_string().str};
  } else if (value.is_integer()) {
    entry.type = ConfigEntry::Type::kInteger;
    entry.values = {std::to_string(value.as_integer())};
  } else if (value.is_floating()) {
    entry.type = ConfigEntry::Type::kNumber;
    entry.values = {decimal(value.as_floating())};
  } else if (value.is_boolean()) {
    entry.type = ConfigEntry::Type::kSwitch;
    entry.values = {value.as_boolean() ? "true" : "false"};
  } else if (value.is_array()) {
    const auto& items = value.as_array();
    if (!std::all_of(items.begin(), items.end(), [](const auto& item) { return item.is_string(); })) return entry;
    entry.type = ConfigEntry::Type::kTextList;
    for (const auto& item : items) entry.values.push_back(item.as_string().str);
  }
  return entry;
}

void flatten(const toml::value& table, const std::string& prefix, std::vector<ConfigEntry>& out) {
  for (const auto& [key, value] : table.as_table()) {
    if (value.is_table()) {
      flatten(value, prefix + key + ".", out);
    } else {
      out.push_back(to_entry(prefix + key, value));
    }
  }
}

/// The parser recurses for each bracket and each dot of a key: refuse what would exhaust the stack.
Status check_nesting(const std::string& path, std::string_view text) {
  int depth = 0, line = 1;
  size_t line_begin = 0;
  const auto place = [&] { return path + ":" + std::to_string(line) + ": "; };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    depth += c == '[' || c == '{' ? 1 : (c == ']' || c == '}') && depth > 0 ? -1 : 0;
    if (depth > kNestingMax) return config_error(place() + "too many open brackets; is one not closed?");
    if (i - line_begin > kLineBytesMax) return config_error(place() + "the line is over 4096 characters");
    if (c == '\n') {
      ++line;
      line_begin = i + 1;
    }
  }
  return {};
}

/// The first line of a toml11 message, without its "[error] toml::function:" opening.
std::string first_line(std::string_view what) {
  what = what.substr(0, what.find('\n'));
  for (const std::string_view opening : {"[error] ", "toml::"}) {
    if (what.substr(0, opening.size()) == opening) what.remove_prefix(opening.size());
  }
  const size_t colon = what.find(": ");
  if (colon != std::string_view::npos && what.substr(0, colon).find(' ') == std::string_view::npos) {
    what.remove_prefix(colon + 2);
  }
  return std::string(what);
}

}  // namespace

Error config_error(std::string message) {
  return operating_error("config_invalid", std::move(message));
}

Result<std::vector<ConfigEntry>> read_config_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  if (!file) return config_error(path + ": cannot open the config file: " + std::strerror(errno));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return config_error(path + ": cannot read the config file; is it a folder?");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) return config_error(path + ": over 1 MiB; this is not a config file");
  std::vector<ConfigEntry> entries;
  if (text.empty()) return entries;
  LLMD_RETURN_IF_ERROR(check_nesting(path, text));
  if (text.back() != '\n') text += '\n';
  try {
    std::istringstream stream(text);
    flatten(toml::parse(stream, path), "", entries);
  } catch (const toml::exception& error) {
    return config_error(path + ":" + std::to_string(error.location().line()) + ": " + first_line(error.what()));
  } catch (const std::exception& error) {
    return config_error(path + ": " + first_line(error.what()));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  return entries;
}

}  // namespace llmd
