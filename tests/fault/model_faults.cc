// model_faults MODEL STEPS SEED...: a whole model over the lying disk. For every seed, STEPS steps under ever other
// faults; each must give the logits of a clean run, bit for bit, or a typed error with file and offset.
//
// A seed is run in segments. Each has a runtime of its own, with faults, real backend, budget, threads and prefill
// chunk drawn from the seed: short reads of a residue, passing and lasting EIO, EAGAIN and EINTR, ends of file that are
// none, late results in another order, a file that ends early. Loading may fail, too, and then the same way. What goes
// wrong is printed with its seed and segment. Exit code 0 = nothing did.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "io/fault_backend.h"
#include "io/pread_backend.h"
#include "io/thread_backend.h"
#include "io/uring_backend.h"
#include "model/generator.h"
#include "model/gguf/gguf.h"

namespace llmd {
namespace {

constexpr size_t kSequences = 24, kPromptTokens = 20, kDecoded = 30;
constexpr size_t kSegmentSteps = 500;

struct Tally {
  uint64_t right = 0, wrong = 0, errors = 0, untyped = 0, failed_loads = 0, loads = 0;
  uint64_t harmed = 0;  // retries and short reads that the reader has handled
};

uint64_t hash(std::span<const float> values) {
  uint64_t value = 0xcbf29ce484222325u;
  for (float f : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &f, sizeof(bits));
    value = (value ^ bits) * 0x100000001b3u;
  }
  return value;
}

/// The tokens of one of the kSequences; some are all prompt and long enough for the sweep, others are decoded only.
std::vector<int32_t> tokens_of(size_t sequence, int32_t vocab) {
  std::mt19937_64 random(sequence);
  std::vector<int32_t> tokens(kPromptTokens + kDecoded);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
  return tokens;
}

struct Segment {
  RuntimeOptions runtime;
  FaultOptions faults;
  int backend = 0;
};

class Run {
 public:
  Run(const GgufModel& model, const std::string& path) : model_(model), path_(path) {}

  bool prepare() {
    auto runtime = open(base_options());
    if (!runtime) return false;
    floor_bytes_ = runtime->plan().floor_bytes;
    full_bytes_ = runtime->plan().full_bytes;
    find_experts(*runtime);
    RuntimeOptions clean = base_options();
    runtime = open(clean);
    if (!runtime || !runtime->load(nullptr).ok()) return false;
    for (size_t s = 0; s < kSequences; s++) {
      expected_.emplace_back();
      Status status = run_sequence(*runtime, s, [&](size_t position, uint64_t value) {
        LLMD_CHECK(position == expected_[s].size());
        expected_[s].push_back(value);
      });
      if (!status.ok()) return false;
    }
    return true;
  }

  Tally run_seed(uint64_t seed, size_t steps) {
    Tally tally;
    for (size_t segment = 0; tally.right + tally.errors < steps && segment < 20 * steps / kSegmentSteps + 20;
         segment++) {
      uint64_t wrong = tally.wrong, untyped = tally.untyped;
      run_segment(seed, segment, tally);
      if (tally.wrong == wrong && tally.untyped == untyped) continue;
      std::printf("seed %" PRIu64 " segment %zu: %" PRIu64 " steps with other logits, %" PRIu64 " untyped errors\n",
                  seed, segment, tally.wrong - wrong, tally.untyped - untyped);
    }
    return tally;
  }

 private:
  static RuntimeOptions base_options() {
    RuntimeOptions options;
    options.plan.memory_bytes = 1ull << 30;
    options.plan.kv_memory_bytes = 8u << 20;
    options.plan.prefill_chunk = 64;
    options.plan.threads = 2;
    return options;
  }

  std::unique_ptr<Runtime> open(const RuntimeOptions& options) {
    Result<std::unique_ptr<Runtime>> runtime = Runtime::open(model_, options);
    if (runtime.ok()) return std::move(runtime).value();
    std::printf("%s\n", runtime.error().to_string().c_str());
    return nullptr;
  }

  void find_experts(const Runtime& runtime) {
    for (int32_t l = 0; l < runtime.catalog().layers(); l++) {
      const ExpertLayer& layer = runtime.catalog().layer(l);
      for (int32_t t = 0; t < layer.tensors_count; t++) matrices_.push_back(layer.tensors[t]);
    }
    experts_ = static_cast<uint64_t>(runtime.catalog().experts_per_layer());
  }

  /// Calls `seen(position, hash)` for every token whose call ended well. A prompt that failed has no answer, whatever
  /// rows of it were computed before.
  template <typename F>
  Status run_sequence(Runtime& runtime, size_t sequence, F&& seen) {
    std::vector<int32_t> tokens = tokens_of(sequence, runtime.shape().vocab);
    Generator generator(runtime, static_cast<int32_t>(tokens.size()));
    std::vector<std::pair<size_t, uint64_t>> rows;
    auto keep = [&](int32_t position, std::span<const float> logits) {
      rows.emplace_back(static_cast<size_t>(position), hash(logits));
    };
    size_t prompt = sequence % 3 == 0 ? 0 : kPromptTokens;
    if (prompt > 0) LLMD_RETURN_IF_ERROR(generator.prefill(std::span(tokens).first(prompt), true, keep));
    for (size_t i = prompt; i <= tokens.size(); i++) {
      for (const auto& [position, value] : rows) seen(position, value);
      rows.clear();
      if (i < tokens.size()) LLMD_RETURN_IF_ERROR(generator.decode(tokens[i], keep));
    }
    return {};
  }

  Segment draw(uint64_t seed, size_t number) {
    std::mt19937_64 random(seed * 1'000'003 + number);
    Segment segment;
    RuntimeOptions& options = segment.runtime;
    options = base_options();
    options.plan.threads = 1 + static_cast<int>(random() % 3);
    options.plan.prefill_chunk = std::vector<int32_t>{5, 16, 64}[random() % 3];
    options.plan.memory_bytes = floor_bytes_ + (8u << 20) + random() % 4 * (full_bytes_ - floor_bytes_) / 6;
    FaultOptions& faults = segment.faults;
    faults.seed = random();
    auto rate = [&](std::initializer_list<uint32_t> choices) { return *(choices.begin() + random() % choices.size()); };
    faults.short_one_in = rate({0, 3, 20});
    faults.eio_one_in = rate({0, 5, 50});
    faults.eagain_one_in = rate({0, 4, 30});
    faults.delay_one_in = rate({0, 2, 10});
    faults.zero_one_in = rate({0, 0, 3000, 20000});
    if (random() % 2 == 0) faults.short_residue = static_cast<int32_t>(random() % 4096);
    const ExpertTensor& tensor = matrices_[random() % matrices_.size()];
    uint64_t expert = tensor.file_offset + random() % experts_ * tensor.expert_bytes;
    uint64_t kind = random() % 4;
    if (kind == 0) {
      faults.bad_begin = expert + tensor.expert_bytes / 3;
      faults.bad_end = faults.bad_begin + 1 + random() % 5000;
    } else if (kind == 1) {
      faults.truncated_at = expert + tensor.expert_bytes / 2;
    }
    segment.backend = static_cast<int>(random() % 3);
    return segment;
  }

  static std::unique_ptr<Backend> real_backend(int kind) {
    if (kind == 0) return std::make_unique<PreadBackend>();
    if (kind == 1) {
      auto ring = UringBackend::create();
      if (ring.ok()) return std::move(ring).value();
    }
    return ThreadBackend::create(4, "stress").value();
  }

  void judge(const Status& status, Tally& tally) {
    const Error& error = status.error();
    bool code = error.code == "model_read_error" || error.code == "model_truncated";
    bool typed = error.kind == ErrorKind::kOperating && code && error.file == path_ && error.offset.has_value();
    if (!typed) std::printf("untyped: %s\n", error.to_string().c_str());
    (typed ? tally.errors : tally.untyped)++;
  }

  void run_segment(uint64_t seed, size_t number, Tally& tally) {
    Segment segment = draw(seed, number);
    segment.runtime.make_reader = [&](const ReaderOptions& options) {
      ReaderOptions quick = options;
      quick.retry_pause_us = 1;
      quick.bytes_in_flight_max = 256 << (10 + number % 4);
      quick.chunk_bytes = 16 << (10 + number % 5);
      return Reader::create_with_backend(quick,
                                         std::make_unique<FaultBackend>(segment.faults, real_backend(segment.backend)));
    };
    std::unique_ptr<Runtime> runtime = open(segment.runtime);
    if (!runtime) {
      tally.untyped++;
      return;
    }
    tally.loads++;
    Status loaded = runtime->load(nullptr);
    if (!loaded.ok()) {
      tally.failed_loads++;
      return judge(loaded, tally);
    }
    uint64_t end = tally.right + tally.errors + kSegmentSteps;
    for (size_t s = number; tally.right + tally.errors < end; s++) {
      const std::vector<uint64_t>& expected = expected_[s % kSequences];
      auto compare = [&](size_t position, uint64_t value) {
        (value == expected[position] ? tally.right : tally.wrong)++;
      };
      Status status = run_sequence(*runtime, s % kSequences, compare);
      if (!status.ok()) judge(status, tally);
      if (tally.wrong + tally.untyped > 10) return;
    }
    ReaderStatistics statistics = runtime->reader().statistics();
    tally.harmed += statistics.retries + statistics.short_reads;
  }

  const GgufModel& model_;
  const std::string path_;
  uint64_t floor_bytes_ = 0, full_bytes_ = 0, experts_ = 0;
  std::vector<ExpertTensor> matrices_;
  std::vector<std::vector<uint64_t>> expected_;  // by sequence, hashes of its logits
};

int run(const std::string& path, size_t steps, std::span<char*> seeds) {
  Result<GgufModel> model = GgufModel::open(path);
  if (!model.ok()) return std::printf("%s\n", model.error().to_string().c_str()), 1;
  Run run(*model, path);
  if (!run.prepare()) return std::printf("the clean run failed\n"), 1;
  bool good = true;
  for (char* text : seeds) {
    Tally tally = run.run_seed(std::strtoull(text, nullptr, 10), steps);
    std::printf("seed %s: %" PRIu64 " steps right, %" PRIu64 " typed errors (%" PRIu64 " of them in %" PRIu64
                " loads), %" PRIu64 " wrong, %" PRIu64 " untyped; %" PRIu64 " bad answers survived\n",
                text, tally.right, tally.errors, tally.failed_loads, tally.loads, tally.wrong, tally.untyped,
                tally.harmed);
    // A run in which nothing was harmed, nothing failed or nearly everything did has tested nothing.
    bool meant = tally.harmed > steps / 10 && tally.errors > 0 && tally.right > steps / 2;
    if (!meant) std::printf("seed %s: the faults were not what they should be\n", text);
    good = good && meant && tally.wrong == 0 && tally.untyped == 0;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace llmd

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: model_faults MODEL STEPS SEED...\n"), 2;
  return llmd::run(argv[1], std::strtoull(argv[2], nullptr, 10),
                   std::span<char*>(argv + 3, static_cast<size_t>(argc - 3)));
}
