// Numbers and sizes from text, strictly: the whole text must be the number, and it must be in range.
#include <array>
#include <charconv>
#include <limits>

#include "daemon/option_table.h"
#include "daemon/options.h"

namespace llmd {
namespace {

constexpr uint64_t kSizeMax = 1ull << 60;
constexpr size_t kFractionDigitsMax = 6;  // 10^6 x 2^40 still fits 64 bits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The multiplier of "", "K", "KB", "KiB", "M", ...; 0 when it is none of them.
uint64_t size_unit(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 1;
  static constexpr std::string_view kLetters = "KMGT";
  const char letter = suffix[0] >= 'a' && suffix[0] <= 'z' ? static_cast<char>(suffix[0] - 'a' + 'A') : suffix[0];
  const size_t index = kLetters.find(letter);
  const std::string_view rest = suffix.substr(1);
  if (index == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "iB")) return 0;
  return 1ull << (10 * (index + 1));
}

size_t count_digits(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_digit(text[n])) ++n;
  return n;
}

}  // namespace

std::string quoted(std::string_view text) {
  static constexpr size_t kShownMax = 80;
  std::string out = "\"";
  for (const char c : text.substr(0, kShownMax)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (text.size() > kShownMax) out += "...";
  return out + "\"";
}

Error usage_error(std::string message) {
  return operating_error("usage", std::move(message));
}

Result<int64_t> parse_integer(std::string_view name, std::string_view text, int64_t minimum, int64_t maximum) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string range = std::to_string(minimum) + " to " + std::to_string(maximum);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    return usage_error(std::string(name) + ": " + quoted(text) + " is not a whole number; give one from " + range);
  }
  if (error != std::errc() || value < minimum || value > maximum) {
    return usage_error(std::string(name) + ": " + quoted(text) + " is out of range; give a number from " + range);
  }
  return value;
}

Result<double> parse_number(std::string_view name, std::string_view text, int minimum, int maximum, bool zero) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error == std::errc() && end == text.data() + text.size() && value >= minimum && value <= maximum &&
      (zero || value != 0))
    return value;
  const std::string range = (zero ? " a number from " : " a number above ") + std::to_string(minimum) +
                            (zero ? " to " : " and up to ") + std::to_string(maximum);
  return usage_error(std::string(name) + ": " + quoted(text) + " is not" + range);
}

Result<double> parse_share(std::string_view name, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1)) {
    return usage_error(std::string(name) + ": " + quoted(text) + " is not a share; give a number from 0 to 1");
  }
  return value;
}

Result<uint64_t> parse_size(std::string_view name, std::string_view text) {
  const auto fail = [&](const char* why) {
    return usage_error(std::string(name) + ": " + quoted(text) + " " + why +
                       "; give bytes, or a size such as 64G or 512M");
  };
  const size_t whole_digits = count_digits(text);
  std::string_view rest = text.substr(whole_digits), fraction;
  if (!rest.empty() && rest[0] == '.') {
    fraction = rest.substr(1, count_digits(rest.substr(1)));
    rest.remove_prefix(1 + fraction.size());
    if (fraction.empty() || fraction.size() > kFractionDigitsMax) return fail("is not a size");
  }
  const uint64_t unit = size_unit(rest);
  if (whole_digits == 0 || unit == 0 || (!fraction.empty() && unit == 1)) return fail("is not a size");
  uint64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + whole_digits, whole);
  if (error != std::errc() || whole > kSizeMax / unit) return fail("is too large");
  uint64_t bytes = whole * unit;
  if (!fraction.empty()) {
    uint64_t digits = 0, scale = 1;
    std::from_chars(fraction.data(), fraction.data() + fraction.size(), digits);
    for (size_t i = 0; i < fraction.size(); ++i) scale *= 10;
    bytes += digits * unit / scale;
  }
  return bytes;
}

std::string format_size(uint64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"", "K", "M", "G", "T"};
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + std::string(kUnits[unit]);
}

}  // namespace llmd
