#include "daemon/processor_bench.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "daemon/drive_bench.h"
#include "io/arena.h"
#include "model/ffn.h"

namespace llmd {
namespace {

constexpr uint64_t kWeightBytes = 128u << 20;
constexpr uint64_t kOutputFloats = 4u << 20;
constexpr double kMeasureSeconds = 0.02;  // each shape, at least

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Calls f(0), f(1), ... for a while and returns the median of the calls but the first: what another program takes from
/// a few of them does not count.
template <typename F>
double median_seconds(F&& f) {
  f(0);
  std::vector<double> samples;
  double begin = now_seconds(), before = begin;
  for (int64_t call = 1; samples.size() < 3 || before - begin < kMeasureSeconds; call++) {
    f(call);
    double after = now_seconds();
    samples.push_back(after - before);
    before = after;
  }
  return percentile(samples, 0.5);
}

class KernelTimer {
 public:
  static Result<KernelTimer> create(ThreadPool& threads) {
    KernelTimer timer(threads);
    LLMD_ASSIGN_OR_RETURN(Arena arena, Arena::reserve(kWeightBytes));
    LLMD_RETURN_IF_ERROR(arena.populate(0, kWeightBytes, threads.threads()));
    timer.weights_ = std::make_unique<Arena>(std::move(arena));
    timer.output_.resize(kOutputFloats);
    return timer;
  }

  /// One matrix [n_out, n_in] applied to `rows` rows.
  double matrix_seconds(TensorType type, uint64_t n_in, uint64_t n_out, int64_t rows) {
    uint64_t row_bytes = tensor_row_bytes(type, n_in);
    uint64_t taken = std::min({n_out, kWeightBytes / row_bytes, kOutputFloats / static_cast<uint64_t>(rows)});
    taken = std::max<uint64_t>(taken, 1);
    ActivationBuffer x = input(static_cast<int64_t>(n_in), rows);
    double seconds = median_seconds([&](int64_t call) {
      matmul(matrix(type, n_in, taken, static_cast<uint64_t>(call)), x, nullptr, rows, output_.data(),
             static_cast<int64_t>(taken), *threads_);
    });
    return seconds * static_cast<double>(n_out) / static_cast<double>(taken);
  }

  /// `experts` experts of a layer at once, `rows` rows each.
  double experts_seconds(const ExpertLayer& layer, int64_t width, int64_t ff, int64_t experts, int64_t rows) {
    const ExpertTensor& first = layer.tensors[0];
    const ExpertTensor& up = layer.tensors[layer.fused ? 0 : 1];
    const ExpertTensor& down = layer.tensors[layer.tensors_count - 1];
    Carver count(nullptr);
    Ffn ffn;
    ffn.carve(count, experts * rows, width, ff);
    std::vector<std::byte> memory(count.used_bytes());
    Carver carver(memory.data(), memory.size());
    ffn.carve(carver, experts * rows, width, ff);
    ActivationBuffer x = input(width, rows);
    std::vector<float> out(static_cast<size_t>(experts * rows * width));
    std::vector<FfnJob> jobs(static_cast<size_t>(experts));
    auto u = [](int64_t n) { return static_cast<uint64_t>(n); };
    return median_seconds([&](int64_t call) {
      for (int64_t e = 0; e < experts; e++) {
        uint64_t index = u(call * experts + e);
        FfnJob& job = jobs[static_cast<size_t>(e)];
        job.gate = matrix(first.type, u(width), u(ff), 3 * index);
        job.up = matrix(up.type, u(width), u(ff), 3 * index + 1);
        job.down = matrix(down.type, u(ff), u(width), 3 * index + 2);
        job.count = rows;
        job.first_pair = e * rows;
      }
      ffn.run(jobs, x, out.data(), *threads_);
    });
  }

 private:
  explicit KernelTimer(ThreadPool& threads) : threads_(&threads) {}

  /// The index-th of the matrices of this shape that fit side by side; then they come again.
  Matrix matrix(TensorType type, uint64_t n_in, uint64_t n_out, uint64_t index) const {
    uint64_t row_bytes = tensor_row_bytes(type, n_in), bytes = (row_bytes * n_out + 63) / 64 * 64;
    uint64_t places = std::max<uint64_t>(1, kWeightBytes / bytes);
    return {weights_->base() + index % places * bytes, type, static_cast<int64_t>(n_in), static_cast<int64_t>(n_out),
            row_bytes};
  }

  ActivationBuffer input(int64_t width, int64_t rows) {
    ActivationBuffer x;
    Carver count(nullptr);
    x.carve(count, rows, width);
    input_.assign(count.used_bytes(), std::byte{0});
    Carver carver(input_.data(), input_.size());
    x.carve(carver, rows, width);
    for (int64_t i = 0; i < rows * width; i++) x.data()[i] = static_cast<float>(i % 17) - 8.0f;
    x.quantize(rows, *threads_);
    return x;
  }

  ThreadPool* threads_;
  std::unique_ptr<Arena> weights_;
  std::vector<std::byte> input_;
  std::vector<float> output_;
};

struct Shape {
  TensorType type;
  uint64_t n_in, n_out;
  auto operator<=>(const Shape&) const = default;
};

bool is_output(const GgufTensor& tensor, bool tied) {
  return tensor.name == (tied ? "token_embd.weight" : "output.weight");
}

}  // namespace

Result<ProcessorTimes> measure_processor(const GgufModel& model, const Architecture& architecture,
                                         const ExpertCatalog& catalog, int threads, int32_t chunk_tokens) {
  const ModelShape& shape = architecture.shape();
  ThreadPool pool(threads);
  LLMD_ASSIGN_OR_RETURN(KernelTimer timer, KernelTimer::create(pool));
  pool.pin_leader();  // as when the model is served
  ProcessorTimes times;
  int32_t moe_layers = std::max(1, catalog.moe_layers());
  bool tied = model.find_tensor("output.weight") == nullptr;

  std::map<Shape, std::pair<double, double>> measured;  // seconds for one row and for a chunk
  for (const TensorUse& use : architecture.core_tensors()) {
    const GgufTensor* tensor = model.find_tensor(use.name);
    if (tensor == nullptr || tensor->n_dims < 2) continue;
    bool output = is_output(*tensor, tied);
    if (tensor->name == "token_embd.weight" && !output) continue;  // one row of it is looked up
    Shape key{tensor->type, tensor->dims[0], tensor->dims[1] * tensor->dims[2] * tensor->dims[3]};
    auto [found, is_new] = measured.try_emplace(key);
    if (is_new) {
      found->second.first = timer.matrix_seconds(key.type, key.n_in, key.n_out, 1);
      if (!output) found->second.second = timer.matrix_seconds(key.type, key.n_in, key.n_out, chunk_tokens);
    }
    bool shared = tensor->name.find("shexp") != std::string::npos;
    (shared ? times.shared_seconds : times.other_seconds) += found->second.first;
    times.chunk_seconds += found->second.second;
  }
  times.shared_seconds /= moe_layers;

  // Layers whose experts are stored alike cost alike.
  std::map<std::tuple<TensorType, TensorType, TensorType>, std::pair<double, double>> experts;
  int64_t used = shape.routing.used;
  for (int32_t l = 0; l < catalog.layers(); l++) {
    const ExpertLayer& layer = catalog.layer(l);
    if (layer.tensors_count == 0) continue;
    std::tuple key{layer.tensors[0].type, layer.tensors[1].type, layer.tensors[layer.tensors_count - 1].type};
    auto [found, is_new] = experts.try_emplace(key);
    if (is_new) {
      int64_t rows = std::max<int64_t>(1, chunk_tokens * used / shape.routing.experts);
      int64_t busy = std::min<int64_t>(shape.routing.experts, chunk_tokens * used);
      found->second.first =
          timer.experts_seconds(layer, shape.width, shape.ff_expert, used, 1) / static_cast<double>(used);
      found->second.second =
          timer.experts_seconds(layer, shape.width, shape.ff_expert, 1, rows) * static_cast<double>(busy);
    }
    times.expert_seconds += found->second.first / moe_layers;
    times.chunk_seconds += found->second.second;
  }
  return times;
}

}  // namespace llmd
