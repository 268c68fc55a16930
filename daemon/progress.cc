#include "daemon/progress.h"

#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace llmd {
namespace {

using namespace std::chrono_literals;
constexpr auto kTerminalInterval = 100ms;
constexpr auto kLogInterval = 5s;
constexpr size_t kBarCells = 24;

/// "12.3 of 29.0 GiB" needs both numbers in the larger one's unit.
struct ByteScale {
  double divisor;
  const char* name;
};

ByteScale scale_of(double bytes) {
  static constexpr std::array<ByteScale, 5> kScales = {
      {{1, "B"}, {1024, "KiB"}, {1048576, "MiB"}, {1073741824, "GiB"}, {1099511627776, "TiB"}}};
  size_t index = 0;
  while (index + 1 < kScales.size() && bytes >= kScales[index + 1].divisor) ++index;
  return kScales[index];
}

std::string fixed(double value, const char* format) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string amount(uint64_t done, uint64_t total, Progress::Unit unit) {
  if (unit == Progress::Unit::kItems) {
    return std::to_string(done) + (total == 0 ? "" : " of " + std::to_string(total));
  }
  const ByteScale scale = scale_of(static_cast<double>(std::max(done, total)));
  const char* format = scale.divisor == 1 ? "%.0f" : "%.1f";
  return fixed(static_cast<double>(done) / scale.divisor, format) +
         (total == 0 ? "" : " of " + fixed(static_cast<double>(total) / scale.divisor, format)) + " " + scale.name;
}

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  if (whole < 120) return std::to_string(whole) + " s";
  if (whole < 7200) return std::to_string(whole / 60) + " min";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min";
}

}  // namespace

ProgressOutput ProgressOutput::standard() {
  ProgressOutput output;
  output.now = [] { return std::chrono::steady_clock::now(); };
  output.terminal = isatty(STDERR_FILENO) == 1;
  if (!output.terminal) {
    output.write = [](std::string_view line) { spdlog::info("{}", line); };
    return output;
  }
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) output.columns = size.ws_col;
  output.write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
  return output;
}

Progress::Progress(std::string label, uint64_t total, Unit unit, ProgressOutput output)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      output_(std::move(output)),
      start_(output_.now()),
      drawn_at_(start_) {}

Progress::~Progress() {
  const std::lock_guard lock(mutex_);
  if (!drawn_) return;
  draw(output_.now());
  if (output_.terminal) output_.write("\n");
}

void Progress::update(uint64_t done) {
  const std::lock_guard lock(mutex_);
  done_ = std::max(done_, done);  // threads may report out of order
  const auto now = output_.now();
  const std::chrono::steady_clock::duration interval = output_.terminal ? kTerminalInterval : kLogInterval;
  if (now - drawn_at_ < interval) return;
  draw(now);
}

void Progress::draw(std::chrono::steady_clock::time_point now) {
  drawn_ = true;
  drawn_at_ = now;
  std::string text = describe(label_, done_, total_, unit_, std::chrono::duration<double>(now - start_).count());
  if (!output_.terminal) {
    output_.write(text);
    return;
  }
  if (total_ != 0) {
    const size_t full = static_cast<size_t>(static_cast<double>(kBarCells) *
                                            static_cast<double>(std::min(done_, total_)) / static_cast<double>(total_));
    text = "[" + std::string(full, '#') + std::string(kBarCells - full, '.') + "] " + text;
  }
  // A line as wide as the terminal would wrap, and \r would then leave its first part behind.
  text.resize(std::min(text.size(), static_cast<size_t>(std::max(output_.columns - 1, 1))));
  output_.write("\r" + text + "\x1b[K");
}

std::string Progress::describe(const std::string& label, uint64_t done, uint64_t total, Unit unit, double seconds) {
  const double fraction = total == 0 ? 0 : static_cast<double>(std::min(done, total)) / static_cast<double>(total);
  std::string text = label + ": ";
  if (total != 0) text += std::to_string(static_cast<int>(fraction * 100)) + " %, ";
  text += amount(done, total, unit);
  if (seconds <= 0 || done == 0) return text;
  const double rate = static_cast<double>(done) / seconds;
  if (unit == Unit::kBytes) {
    const ByteScale scale = scale_of(rate);
    text += ", " + fixed(rate / scale.divisor, "%.1f") + " " + scale.name + "/s";
  } else {
    text += ", " + fixed(rate, "%.1f") + "/s";
  }
  if (total > done) text += ", " + duration(static_cast<double>(total - done) / rate) + " left";
  return text;
}

}  // namespace llmd
