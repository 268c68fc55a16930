// `llmd serve`: the HTTP server is up first, the model is loaded behind it, signals end it.
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "api/listener.h"
#include "daemon/commands.h"
#include "daemon/http_settings.h"
#include "daemon/notify.h"
#include "daemon/scheduler.h"
#include "daemon/signals.h"

namespace llmd {
namespace {

using std::chrono::milliseconds;

constexpr int kExitConfig = 78;                // systemd does not restart on it
constexpr uint64_t kDescriptorsBesides = 256;  // model shards, the KV store, epoll

/// Waits until the model is loaded. Returns 0 when it serves, SIGTERM or SIGINT when told to end, -1 when it failed.
int wait_until_ready(Signals& signals, const Scheduler& scheduler) {
  while (true) {
    int signal = signals.wait(milliseconds(200));
    if (signal == SIGTERM || signal == SIGINT) return signal;
    if (scheduler.load_error()) return -1;
    EngineStatus status = scheduler.status();
    if (status.phase == EngineStatus::Phase::kReady) return 0;
    notify_extend_timeout(std::chrono::seconds(30));
    notify_status(status.phase_detail + " " + std::to_string(static_cast<int>(status.progress * 100)) + " %");
    if (watchdog_interval()) notify_watchdog();
  }
}

void wait_for_end(Signals& signals) {
  while (true) {
    int signal = signals.wait(milliseconds(1000));
    if (signal == SIGTERM || signal == SIGINT) return;
    if (watchdog_interval()) notify_watchdog();
  }
}

// Running answers may end within the drain time; a second signal ends the waiting.
void drain(Signals& signals, HttpServer& server, Scheduler& scheduler, int32_t seconds) {
  spdlog::info("draining: running requests have {} s", seconds);
  notify_stopping("draining");
  server.begin_drain();
  scheduler.begin_drain();
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!scheduler.idle() && std::chrono::steady_clock::now() < deadline) {
    int signal = signals.wait(milliseconds(50));
    if (signal == SIGTERM || signal == SIGINT) break;
  }
}

// The usual limit of 1,024 open files is below what connections alone may take.
void allow_descriptors(uint64_t count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count) return;
  limit.rlim_cur = std::min<rlim_t>(count, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < count)
    spdlog::warn("only {} files may be open: with many connections, new ones wait", limit.rlim_cur);
}

}  // namespace

int run_serve(const Options& options) {
  Result<Signals> signals = Signals::create();
  if (!signals.ok()) return report(signals.error());
  Scheduler scheduler(options);
  Result<HttpOptions> http = http_options(options, process_environment());
  if (!http.ok()) {
    report(http.error());
    return kExitConfig;
  }
  allow_descriptors(http->connections_max + kDescriptorsBesides);
  Result<std::unique_ptr<HttpServer>> server = HttpServer::start(*http, scheduler);
  if (!server.ok()) return report(server.error());
  for (const std::string& address : (*server)->addresses()) spdlog::info("listening on {}", address);
  if (http->keys.empty()) spdlog::info("no keys are set: whoever reaches these addresses may use llmd");
  scheduler.start();
  int outcome = wait_until_ready(*signals, scheduler);
  if (outcome == 0) {
    spdlog::info("ready: serving {}", scheduler.info().model_id);
    notify_ready("serving " + scheduler.info().model_id);
    wait_for_end(*signals);
  }
  // A signal may come between the moment the model serves and the moment that is noticed here: clients count, not we.
  if (outcome != -1 && scheduler.status().phase == EngineStatus::Phase::kReady)
    drain(*signals, **server, scheduler, options.drain_seconds);
  scheduler.stop();
  (*server)->stop();
  if (outcome != -1) return 0;
  Error error = *scheduler.load_error();
  report(error);
  return error.code == "plan_does_not_fit" || error.code == "invalid_context" ? kExitConfig : 1;
}

}  // namespace llmd
