// What the HTTP side costs: streams from a fixed source of tokens in place of a model, over many connections.
//
//   http_overhead [--rate TOKENS_PER_SECOND] [--connections N] [--tokens N]
//
// The server (its threads and the source's) has one core, a client process another. Each round of the source gives one
// token to every stream, as a decode step does, through the same detokenizer and stop matcher. A token's text is the
// time at which the source had it, so the client knows what was added until it could read the token. Without --rate the
// source goes as fast as streams take it, and what is measured is throughput.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/listener.h"
#include "model/gguf/gguf.h"

namespace llmd {
namespace {

using Clock = std::chrono::steady_clock;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("sched_setaffinity");
}

// Waits for `streams` requests, then gives each its tokens, a round at a time.
class TokenSource final : public Engine {
 public:
  TokenSource(const Tokenizer& tokenizer, size_t streams, double rate)
      : tokenizer_(tokenizer), streams_(streams), rate_(rate) {
    info_.model_id = "fixed";
    info_.context_tokens = 1 << 20;
    thread_ = std::thread([this] { run(); });
  }
  ~TokenSource() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  EngineStatus status() const override {
    EngineStatus status;
    status.phase = EngineStatus::Phase::kReady;
    return status;
  }
  const EngineInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  Result<uint64_t> submit(GenerationRequest request, std::vector<std::shared_ptr<GenerationSink>> sinks) override {
    const std::lock_guard lock(mutex_);
    running_.push_back({request.tokens_max, std::move(sinks.front()), {}, StopMatcher(request.stops)});
    changed_.notify_all();
    return running_.size();
  }
  void cancel(uint64_t) override {}

 private:
  struct Stream {
    int32_t left;
    std::shared_ptr<GenerationSink> sink;
    Detokenizer detokenizer;
    StopMatcher stops;
  };

  void run() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || running_.size() == streams_; });
    if (ending_) return;
    lock.unlock();
    const double round_seconds = rate_ > 0 ? static_cast<double>(streams_) / rate_ : 0;
    Clock::time_point next = Clock::now();
    for (bool more = true; more;) {
      more = false;
      for (Stream& stream : running_) more = give(stream) || more;
      next += std::chrono::nanoseconds(static_cast<int64_t>(round_seconds * 1e9));
      if (rate_ > 0) std::this_thread::sleep_until(next);
      if (rate_ <= 0) std::this_thread::yield();
    }
  }
  bool give(Stream& stream) {
    if (stream.left == 0) return false;
    const std::string text = stream.stops.add(stream.detokenizer.add(std::to_string(now_ns()) + " "));
    stream.sink->on_text(text, {1, text.size(), {}});
    if (--stream.left > 0) return true;
    stream.sink->on_finish(FinishReason::kLength, {});
    return false;
  }

  const Tokenizer& tokenizer_;
  const size_t streams_;
  const double rate_;
  EngineInfo info_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Stream> running_;
  bool ending_ = false;
  std::thread thread_;
};

int connect_to(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::perror("connect");
  return fd;
}

// The times in the text of one event; returns how many there were.
size_t take_times(std::string_view event, int64_t now, std::vector<float>& latencies_ms) {
  constexpr std::string_view kContent = "\"content\":\"";
  const size_t at = event.find(kContent);
  if (at == event.npos) return 0;
  const char* text = event.data() + at + kContent.size();
  const char* end = event.data() + event.size();
  size_t count = 0;
  while (text < end && *text >= '0' && *text <= '9') {
    int64_t then = 0;
    text = std::from_chars(text, end, then).ptr + 1;
    latencies_ms.push_back(static_cast<float>(now - then) / 1e6f);
    ++count;
  }
  return count;
}

int run_client(uint16_t port, size_t connections, int32_t tokens) {
  std::vector<pollfd> sockets;
  std::vector<std::string> pending(connections);
  const std::string body =
      R"({"messages":[{"role":"user","content":"Hi"}],"stop":["\nUser:"],"stream":true,"max_tokens":)" +
      std::to_string(tokens) + "}";
  const std::string request =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n" + body;
  for (size_t i = 0; i < connections; ++i) {
    sockets.push_back({connect_to(port), POLLIN, 0});
    if (send(sockets.back().fd, request.data(), request.size(), 0) < 0) std::perror("send");
  }
  std::vector<float> latencies_ms;
  latencies_ms.reserve(connections * static_cast<size_t>(tokens));
  size_t open = connections, events = 0, count = 0;
  int64_t first = 0, last = 0;
  std::vector<char> buffer(256 << 10);
  while (open > 0) {
    if (poll(sockets.data(), sockets.size(), 20'000) <= 0) break;
    for (size_t i = 0; i < connections; ++i) {
      if ((sockets[i].revents & (POLLIN | POLLHUP)) == 0) continue;
      const ssize_t size = recv(sockets[i].fd, buffer.data(), buffer.size(), 0);
      const int64_t now = now_ns();
      if (size <= 0) sockets[i].fd = -1, --open;
      if (size <= 0) continue;
      pending[i].append(buffer.data(), static_cast<size_t>(size));
      size_t at = 0;
      for (size_t end = 0; (end = pending[i].find("\n\n", at)) != std::string::npos; at = end + 2) {
        const std::string_view event = std::string_view(pending[i]).substr(at, end - at);
        if (event.find("[DONE]") != event.npos) sockets[i].fd = -1, --open;
        const size_t taken = take_times(event, now, latencies_ms);
        if (taken == 0) continue;
        if (first == 0) first = now;
        last = now;
        events += 1;
        count += taken;
      }
      pending[i].erase(0, at);
    }
  }
  if (latencies_ms.empty()) return std::printf("no tokens came\n"), 1;
  std::sort(latencies_ms.begin(), latencies_ms.end());
  const auto at = [&](double share) {
    return static_cast<double>(latencies_ms[static_cast<size_t>(share * static_cast<double>(latencies_ms.size() - 1))]);
  };
  const double seconds = static_cast<double>(last - first) / 1e9;
  std::printf(
      "{\"connections\":%zu,\"tokens\":%zu,\"events\":%zu,\"seconds\":%.3f,\"tokens_per_second\":%.0f,"
      "\"events_per_second\":%.0f,\"latency_p50_ms\":%.3f,\"latency_p99_ms\":%.3f,\"latency_max_ms\":%.3f}\n",
      connections, count, events, seconds, static_cast<double>(count) / seconds, static_cast<double>(events) / seconds,
      at(0.5), at(0.99), at(1));
  return count == connections * static_cast<size_t>(tokens) ? 0 : 1;
}

int run(double rate, size_t connections, int32_t tokens) {
  spdlog::set_level(spdlog::level::off);
  auto gguf = GgufModel::open(LLMD_SOURCE_DIR "/demo/llmd-demo.gguf");
  if (!gguf.ok()) return std::printf("%s\n", gguf.error().message.c_str()), 1;
  auto tokenizer = Tokenizer::load(*gguf);
  if (!tokenizer.ok()) return std::printf("%s\n", tokenizer.error().message.c_str()), 1;
  int port_pipe[2];
  if (pipe(port_pipe) != 0) return std::perror("pipe"), 1;
  const pid_t client = fork();
  if (client == 0) {
    pin_to(1);
    uint16_t port = 0;
    if (read(port_pipe[0], &port, sizeof port) != sizeof port) return 1;
    const int outcome = run_client(port, connections, tokens);
    std::fflush(stdout);
    _exit(outcome);
  }
  pin_to(0);
  int status = 1;
  {
    TokenSource source(**tokenizer, connections, rate);
    HttpOptions options;
    options.listen = {"127.0.0.1:0"};
    auto server = HttpServer::start(options, source);
    if (!server.ok()) return std::printf("%s\n", server.error().to_string().c_str()), 1;
    const uint16_t port = (*server)->port();
    if (write(port_pipe[1], &port, sizeof port) != sizeof port) return 1;
    waitpid(client, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace
}  // namespace llmd

int main(int argc, char** argv) {
  double rate = 0;
  size_t connections = 64;
  int32_t tokens = 4000;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rate") == 0) rate = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--connections") == 0) connections = static_cast<size_t>(std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "--tokens") == 0) tokens = std::atoi(argv[i + 1]);
  }
  return llmd::run(rate, connections, tokens);
}
