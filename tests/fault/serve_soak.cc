// serve_soak MODEL SECONDS SEED: the whole server over the lying disk, with clients that come and go.
//
// Eight clients ask questions whose answers a clean server gave before, streamed or not, and leave as they please:
// after the answer, in its middle, by a reset, with the sending side closed. A complete answer is the clean one or a
// typed error. At the end everything is as it was at the start: connections, descriptors, KV pages, memory. Prompts are
// short enough for all their rows to be computed in one form, so that reused prefixes change no bit
// (docs/ARCHITECTURE.md). Prints what it saw; exit code 0 = nothing was wrong. Randomness comes from the seed, except
// for what threads race.
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "../api/raw_client.h"
#include "api/listener.h"
#include "daemon/scheduler.h"
#include "daemon/serve_limits.h"
#include "io/fault_backend.h"
#include "io/process_memory.h"
#include "io/thread_backend.h"
#include "io/uring_backend.h"

namespace llmd {
namespace {

using test::RawClient;
using test::Response;
using namespace std::chrono_literals;

const char* const kQuestions[] = {"What is the capital of France?", "What is the opposite of hot?",
                                  "Which day comes after Monday?",  "Who are you?",
                                  "Tell me a story about a fox.",   "What is the capital of Italy?",
                                  "Tell me a story about a cat.",   "What is the opposite of up?"};
constexpr size_t kQuestionCount = std::size(kQuestions);
constexpr int kClients = 8, kAnswerTokens = 120;

struct Tally {
  std::atomic<uint64_t> right{0}, wrong{0}, errors{0}, untyped{0}, left{0}, refused{0};
};

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count++;
  return count;
}

std::string chat_request(size_t question, bool stream) {
  nlohmann::json body = {{"messages", {{{"role", "user"}, {"content", kQuestions[question]}}}},
                         {"temperature", 0},
                         {"max_tokens", kAnswerTokens},
                         {"stream", stream}};
  std::string text = body.dump();
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(text.size()) + "\r\n\r\n" + text;
}

/// The answer in a reply that is complete; nothing: it ended with an error, whose code goes to `code`.
std::optional<std::string> answer_of(const Response& reply, bool stream, std::string& code) {
  std::string text;
  auto look = [&](const nlohmann::json& object, const char* part) {
    if (object.contains("error")) {
      code = object["error"].value("code", "none");
    } else if (object.contains("choices") && !object["choices"].empty() &&
               object["choices"][0][part].contains("content") && object["choices"][0][part]["content"].is_string()) {
      text += object["choices"][0][part]["content"].get<std::string>();
    }
  };
  if (!stream || reply.status != 200) {
    look(nlohmann::json::parse(reply.body, nullptr, false), "message");
    return code.empty() ? std::optional(text) : std::nullopt;
  }
  for (size_t at = 0; (at = reply.body.find("data: ", at)) != std::string::npos;) {
    size_t end = reply.body.find('\n', at);
    std::string event = reply.body.substr(at + 6, end - at - 6);
    at = end;
    if (event != "[DONE]") look(nlohmann::json::parse(event, nullptr, false), "delta");
  }
  return code.empty() ? std::optional(text) : std::nullopt;
}

class Soak {
 public:
  Soak(const std::string& model, uint64_t seed) : seed_(seed) {
    options_.model = model;
    options_.memory_bytes = 1u << 30;
    options_.kv_memory_bytes = 1300u << 10;  // 5 pages for 8 clients
    options_.context_tokens = 512;
    options_.threads = 2;
  }

  /// Memory for a third of the experts.
  bool shrink() {
    Result<LoadedModel> model = open_model(options_, kHttpBudgetBytes);
    if (!model.ok()) return false;
    const MemoryPlan& plan = model->runtime->plan();
    options_.memory_bytes = plan.floor_bytes + (plan.full_bytes - plan.floor_bytes) / 3;
    return true;
  }

  bool learn_answers() {
    Server server(options_, {});
    if (!server.start()) return false;
    for (size_t q = 0; q < kQuestionCount; q++) {
      RawClient client(server.port());
      client.send(chat_request(q, false));
      std::string code;
      std::optional<std::string> answer = answer_of(client.read_response(), false, code);
      if (!answer) return false;
      answers_.push_back(*answer);
    }
    return true;
  }

  bool run(std::chrono::seconds duration) {
    FaultOptions faults;
    faults.seed = seed_;
    faults.short_one_in = 7;
    faults.eio_one_in = 40;
    faults.eagain_one_in = 9;
    faults.delay_one_in = 5;
    faults.zero_one_in = 300;
    Server server(options_, [faults](const ReaderOptions& options) {
      ReaderOptions quick = options;
      quick.retry_pause_us = 1;
      auto ring = UringBackend::create();
      std::unique_ptr<Backend> backend;
      if (ring.ok())
        backend = std::move(ring).value();
      else
        backend = ThreadBackend::create(4, "soak").value();
      return Reader::create_with_backend(quick, std::make_unique<FaultBackend>(faults, std::move(backend)));
    });
    if (!server.start()) return false;
    ask(server.port(), 0, false);  // what is made once is made now
    size_t descriptors = open_descriptors();
    uint64_t resident = process_memory().resident_bytes;
    std::vector<std::thread> clients;
    auto end = std::chrono::steady_clock::now() + duration;
    for (int c = 0; c < kClients; c++)
      clients.emplace_back([&, c] {
        std::mt19937_64 random(seed_ * 1000 + static_cast<uint64_t>(c));
        while (std::chrono::steady_clock::now() < end) visit(server.port(), random);
      });
    for (std::thread& client : clients) client.join();
    return settled(server, descriptors, resident);
  }

 private:
  /// A scheduler and the HTTP server before it.
  class Server {
   public:
    Server(const Options& options, ReaderMaker make_reader) : scheduler_(options, std::move(make_reader)) {
      http_.listen = {"127.0.0.1:0"};
    }
    ~Server() {
      scheduler_.stop();
      if (server_) server_->stop();
    }
    bool start() {
      scheduler_.start();
      while (scheduler_.status().phase == EngineStatus::Phase::kLoading) std::this_thread::sleep_for(5ms);
      auto server = HttpServer::start(http_, scheduler_);
      if (!server.ok() || scheduler_.load_error()) return false;
      server_ = std::move(server).value();
      return true;
    }
    uint16_t port() const { return server_->port(); }
    Scheduler& scheduler() { return scheduler_; }
    HttpServer& http() { return *server_; }

   private:
    HttpOptions http_;
    Scheduler scheduler_;
    std::unique_ptr<HttpServer> server_;
  };

  /// Asks and waits for the end of the answer.
  void ask(uint16_t port, size_t question, bool stream) {
    RawClient client(port);
    if (!client.send(chat_request(question, stream))) return void(tally_.refused++);
    Response reply = client.read_response();
    if (!reply.complete) return void(tally_.refused++);
    std::string code;
    std::optional<std::string> answer = answer_of(reply, stream, code);
    if (answer && *answer == answers_[question]) {
      tally_.right++;
    } else if (answer) {
      tally_.wrong++;
      std::printf("wrong: \"%s\" to \"%s\"\n", answer->c_str(), kQuestions[question]);
    } else if (code == "model_read_error" || code == "model_truncated" || code == "queue_full") {
      tally_.errors++;
    } else {
      tally_.untyped++;
      std::printf("untyped: %d %s\n", reply.status, reply.body.c_str());
    }
  }

  void visit(uint16_t port, std::mt19937_64& random) {
    size_t question = random() % kQuestionCount;
    bool stream = random() % 2 == 0;
    uint64_t manner = random() % 6;
    if (manner < 3) return ask(port, question, stream);
    RawClient client(port);
    client.send(chat_request(question, stream));
    tally_.left++;
    if (stream && manner == 3) client.read_until("\"content\":");  // has begun to answer
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    if (manner == 4) client.reset();
    if (manner == 5) {
      client.shutdown_send();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5'000));
    }
  }

  bool settled(Server& server, size_t descriptors, uint64_t resident) {
    auto pages = [&] { return server.scheduler().kv_pages(); };
    auto calm = [&] {
      return server.scheduler().idle() && server.http().stats().connections_open == 0 &&
             pages().free + pages().idle == pages().total && open_descriptors() <= descriptors;
    };
    for (int i = 0; i < 1000 && !calm(); i++) std::this_thread::sleep_for(10ms);
    uint64_t grown = process_memory().resident_bytes - std::min(resident, process_memory().resident_bytes);
    BatchCounters counters = server.scheduler().counters();
    std::printf("seed %llu: %llu right, %llu typed errors, %llu left early, %llu refused, %llu wrong, %llu untyped\n",
                as_ull(seed_), as_ull(tally_.right), as_ull(tally_.errors), as_ull(tally_.left), as_ull(tally_.refused),
                as_ull(tally_.wrong), as_ull(tally_.untyped));
    std::printf(
        "%llu steps of %.1f rows, %llu prompts' layers, %llu put back; %llu of %llu prompt tokens cached\n",
        as_ull(counters.decode_steps),
        static_cast<double>(counters.decode_rows) / static_cast<double>(std::max<uint64_t>(1, counters.decode_steps)),
        as_ull(counters.sweep_layers), as_ull(counters.put_back), as_ull(counters.cached_tokens),
        as_ull(counters.prompt_tokens));
    std::printf(
        "at the end: %u connections, %zu descriptors (%zu before), KV pages %u free + %u idle of %u, %.1f MiB more\n",
        server.http().stats().connections_open.load(), open_descriptors(), descriptors, pages().free, pages().idle,
        pages().total, static_cast<double>(grown) / (1 << 20));
    constexpr uint64_t kGrowthMax = 24u << 20;  // the allocator's arenas of the client and prepare threads
    bool meant = tally_.right > 20 && tally_.left > 20 && tally_.errors > 0;
    return calm() && meant && tally_.wrong == 0 && tally_.untyped == 0 && tally_.refused == 0 && grown < kGrowthMax;
  }

  static unsigned long long as_ull(uint64_t value) { return value; }

  const uint64_t seed_;
  Options options_;
  std::vector<std::string> answers_;
  Tally tally_;
};

}  // namespace
}  // namespace llmd

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: serve_soak MODEL SECONDS SEED\n"), 2;
  spdlog::set_level(spdlog::level::off);
  llmd::Soak soak(argv[1], std::strtoull(argv[3], nullptr, 10));
  if (!soak.learn_answers() || !soak.shrink()) return std::printf("the clean server did not answer\n"), 1;
  return soak.run(std::chrono::seconds(std::atoi(argv[2]))) ? 0 : 1;
}
