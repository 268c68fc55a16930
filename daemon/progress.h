// Progress of long work: a bar that redraws itself on a terminal, elsewhere a log line every few seconds.
//
// update() may be called from any thread, as often as wanted; it is cheap, and draws at most ten times a second (a line
// every five seconds where there is no terminal). Work that ends within the first interval prints nothing at all. The
// bar is on stderr, so that stdout stays clean for results. Writing never fails towards the caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace llmd {

/// Where progress goes; injected by tests.
struct ProgressOutput {
  bool terminal = false;
  int columns = 80;
  std::function<void(std::string_view text)> write;  // terminal: raw text; else: one line, without its end
  std::function<std::chrono::steady_clock::time_point()> now;

  /// stderr when it is a terminal, else the log.
  static ProgressOutput standard();
};

class Progress {
 public:
  enum class Unit { kBytes, kItems };

  /// `total` may be 0 when it is not known.
  Progress(std::string label, uint64_t total, Unit unit, ProgressOutput output = ProgressOutput::standard());
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Ends the bar's line, with what was reached.
  ~Progress();

  /// So much is done, of the total.
  void update(uint64_t done);

  /// The text without the bar: "reading core weights: 42 %, 12.3 of 29.0 GiB, 1.2 GiB/s, 14 s left".
  static std::string describe(const std::string& label, uint64_t done, uint64_t total, Unit unit, double seconds);

 private:
  void draw(std::chrono::steady_clock::time_point now);

  const std::string label_;
  const uint64_t total_;
  const Unit unit_;
  const ProgressOutput output_;
  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point drawn_at_;
  uint64_t done_ = 0;
  bool drawn_ = false;
};

}  // namespace llmd
