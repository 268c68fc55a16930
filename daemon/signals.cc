#include "daemon/signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <utility>

namespace llmd {

Result<Signals> Signals::create() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0) {
    return operating_error("signals_unavailable", std::string("cannot block signals: ") + std::strerror(error));
  }
  std::signal(SIGPIPE, SIG_IGN);
  const int descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0) {
    return operating_error("signals_unavailable", std::string("cannot wait for signals: ") + std::strerror(errno));
  }
  return Signals(descriptor);
}

Signals::Signals(Signals&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Signals& Signals::operator=(Signals&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Signals::~Signals() {
  if (descriptor_ >= 0) close(descriptor_);
}

int Signals::wait(std::optional<std::chrono::milliseconds> timeout) {
  using Clock = std::chrono::steady_clock;
  const auto end = timeout ? Clock::now() + *timeout : Clock::time_point::max();
  while (true) {
    signalfd_siginfo info{};
    if (read(descriptor_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      return static_cast<int>(info.ssi_signo);
    }
    int milliseconds = -1;
    if (timeout) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) return 0;
      milliseconds = static_cast<int>(std::min<int64_t>(left, std::numeric_limits<int>::max()));
    }
    pollfd entry{descriptor_, POLLIN, 0};
    static_cast<void>(poll(&entry, 1, milliseconds));  // whatever it says, the read above decides
  }
}

}  // namespace llmd
