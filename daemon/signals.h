// Signals as something to wait for, instead of code that runs in the middle of other code.
//
// create() blocks SIGTERM, SIGINT and SIGHUP in the calling thread and those it starts later, so it must be called
// before any thread starts; SIGPIPE is ignored for good (a client that left is an error of write). wait() may be called
// by one thread at a time; the descriptor may be polled by another event loop instead. What a signal means is the
// caller's business. Errors: "signals_unavailable" with the reason, when the process has no descriptor left.
#pragma once

#include <chrono>
#include <optional>

#include "io/result.h"

namespace llmd {

class Signals {
 public:
  static Result<Signals> create();
  Signals(Signals&& other) noexcept;
  Signals& operator=(Signals&& other) noexcept;
  Signals(const Signals&) = delete;
  ~Signals();

  /// The next signal; 0 when `timeout` went by without one.
  int wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt);
  /// Readable when wait() would return a signal at once.
  int descriptor() const { return descriptor_; }

 private:
  explicit Signals(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace llmd
