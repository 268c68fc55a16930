#include "model/moe_executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "io/check.h"
#include "model/routing.h"

namespace llmd {
namespace {

constexpr int32_t kRanges = 8;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

MoeExecutor::MoeExecutor(const ModelShape& shape, Residency& residency, ThreadPool& threads)
    : shape_(shape), residency_(&residency), threads_(&threads), guess_(shape) {
  size_t experts = static_cast<size_t>(shape.routing.experts);
  groups_.reserve(experts);
  ahead_.reserve(experts);
  jobs_.reserve(experts);
  counts_.reserve(experts + 1);
  layer_times_.resize(static_cast<size_t>(shape.layers));
}

void MoeTimes::add(const MoeTimes& other) {
  outside_seconds += other.outside_seconds;
  router_seconds += other.router_seconds;
  resident_seconds += other.resident_seconds;
  miss_seconds += other.miss_seconds;
  last_miss_seconds += other.last_miss_seconds;
  wait_seconds += other.wait_seconds;
  handoff_seconds += other.handoff_seconds;
  read_seconds += other.read_seconds;
  read_bytes += other.read_bytes;
  miss_bytes += other.miss_bytes;
}

MoeTimes MoeExecutor::times() const {
  MoeTimes sum;
  for (const MoeTimes& layer : layer_times_) sum.add(layer);
  return sum;
}

void MoeExecutor::carve(Carver& carver, const ModelShape& shape, int64_t rows_max, MoeBuffers& b) {
  auto u = [](int64_t n) { return static_cast<uint64_t>(n); };
  int64_t used = shape.routing.used, experts = shape.routing.experts, width = shape.width;
  int64_t pairs = std::max(rows_max, std::min(rows_max, kStepRows) * used);
  b.logits = carver.take<float>(u(rows_max * experts));
  b.scratch = carver.take<float>(u(rows_max * experts * 2));
  b.ids = carver.take<int32_t>(u(rows_max * used));
  b.weights = carver.take<float>(u(rows_max * used));
  b.acc = carver.take<float>(u(rows_max * width));
  b.partial = carver.take<float>(u(rows_max * width));
  b.outputs = carver.take<float>(u(pairs * width));
  b.pair_rows = carver.take<uint32_t>(u(rows_max * used));
  b.pair_weights = carver.take<float>(u(rows_max * used));
  b.pair_of = carver.take<uint32_t>(u(rows_max * used));
  b.guess.carve(carver, shape, std::min(rows_max, kStepRows));
  b.experts.carve(carver, pairs, width, shape.ff_expert);
  if (shape.ff_shared > 0) b.shared.carve(carver, rows_max, width, shape.ff_shared);
}

void MoeExecutor::run(int32_t layer, const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x,
                      float* hidden, std::span<std::optional<Error>> row_errors, ExpertUse use,
                      const NextMoeLayer& next) {
  double begin = now_seconds();
  now_ = {};
  now_.outside_seconds = ended_ > 0 ? begin - ended_ : 0;
  uint64_t bytes_before = residency_->statistics().bytes_read;
  route_rows(weights, rows, x);
  if (trace_ != nullptr) trace_(trace_context_, layer, buffers_.ids, rows * shape_.routing.used);
  group_pairs(layer, rows, row_errors);
  now_.router_seconds = now_seconds() - begin;
  use_ = rows <= kStepRows ? use : ExpertUse::kSweep;
  residency_->begin_layer(layer, use_);
  refuse_bad(row_errors);
  guess_.begin_layer(layer);
  for (const Group& group : groups_) guess_.wanted(group.expert);
  if (rows <= kStepRows)
    run_step(weights, rows, x, hidden, row_errors, next);
  else
    run_sweep(weights, rows, x, row_errors);
  threads_->run_range(rows, 8, [&](int64_t first, int64_t end, int) {
    int64_t at = first * shape_.width;
    kernels().add(buffers_.acc + at, (end - first) * shape_.width, hidden + at);
  });
  ended_ = now_seconds();
  now_.miss_bytes = residency_->statistics().bytes_read - bytes_before;
  if (now_.read_seconds > 0) now_.read_bytes = now_.miss_bytes;
  now_.handoff_seconds = ended_ - begin - now_.router_seconds - now_.compute_seconds() - now_.wait_seconds;
  layer_times_[static_cast<size_t>(layer)].add(now_);
  if (times_fn_ != nullptr) times_fn_(times_context_, layer, now_);
}

void MoeExecutor::route_rows(const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x) {
  int64_t experts = shape_.routing.experts, used = shape_.routing.used;
  matmul(weights.router, x, nullptr, rows, buffers_.logits, experts, *threads_);
  threads_->run_range(rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++)
      route(shape_.routing, buffers_.logits + r * experts, weights.bias, buffers_.scratch + r * experts * 2,
            buffers_.ids + r * used, buffers_.weights + r * used);
  });
}

// Groups the (row, expert) pairs by expert, ids ascending, rows ascending within one.
void MoeExecutor::group_pairs(int32_t layer, int64_t rows, std::span<std::optional<Error>> row_errors) {
  int64_t used = shape_.routing.used;
  layer_ = layer;
  groups_.clear();
  counts_.assign(static_cast<size_t>(shape_.routing.experts) + 1, 0);
  for (int64_t r = 0; r < rows; r++) {
    if (row_errors[static_cast<size_t>(r)]) continue;
    for (int64_t i = 0; i < used; i++) counts_[static_cast<size_t>(buffers_.ids[r * used + i]) + 1]++;
  }
  for (int32_t e = 0; e < shape_.routing.experts; e++) {
    size_t at = static_cast<size_t>(e);
    int64_t count = counts_[at + 1];
    if (count > 0) groups_.push_back({e, counts_[at], count, nullptr, false, false});
    counts_[at + 1] += counts_[at];
  }
  for (int64_t r = 0; r < rows; r++) {
    if (row_errors[static_cast<size_t>(r)]) continue;
    for (int64_t i = r * used; i < (r + 1) * used; i++) {
      int64_t pair = counts_[static_cast<size_t>(buffers_.ids[i])]++;
      buffers_.pair_rows[pair] = static_cast<uint32_t>(r);
      buffers_.pair_weights[pair] = buffers_.weights[i];
      buffers_.pair_of[i] = static_cast<uint32_t>(pair);
    }
  }
}

// acc = shared(x), the first term of the defined sum.
void MoeExecutor::run_shared(const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x) {
  if (!weights.shared_gate) {
    std::fill(buffers_.acc, buffers_.acc + rows * shape_.width, 0.0f);
    return;
  }
  FfnJob job{weights.shared_gate, weights.shared_up, weights.shared_down, nullptr, rows, 0};
  buffers_.shared.run({&job, 1}, x, buffers_.acc, *threads_);
}

void MoeExecutor::fail_rows(const Group& group, const Error& error, std::span<std::optional<Error>> row_errors) {
  for (int64_t p = group.first; p < group.first + group.count; p++) {
    std::optional<Error>& slot = row_errors[buffers_.pair_rows[p]];
    if (!slot) slot = error;
  }
}

// Experts that could not be read a moment ago fail their rows at once.
void MoeExecutor::refuse_bad(std::span<std::optional<Error>> row_errors) {
  if (residency_->bad().empty()) return;
  for (Group& group : groups_) {
    const Error* error = residency_->refusal(layer_, group.expert);
    if (error == nullptr) continue;
    fail_rows(group, *error, row_errors);
    group.done = true;
  }
}

bool MoeExecutor::acquire(Group& group) {
  group.slot = residency_->acquire(layer_, group.expert, use_);
  if (group.slot == nullptr) return false;
  group.miss = !residency_->ready(*group.slot);
  return true;
}

// ---------------------------------------------------------------- few rows

void MoeExecutor::run_step(const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x, const float* hidden,
                           std::span<std::optional<Error>> row_errors, const NextMoeLayer& next) {
  // Experts that are here already are pinned first: a miss must not evict what this layer is about to use.
  for (Group& group : groups_)
    if (!group.done && residency_->is_resident(layer_, group.expert)) acquire(group);
  reads_begin_ = now_seconds();
  waited_ = false;
  bool first_wave = true;
  while (true) {
    int64_t held = 0, waiting = 0;
    for (Group& group : groups_) {
      if (!group.done && group.slot == nullptr && waiting == 0 && !acquire(group)) waiting++;
      if (!group.done && group.slot != nullptr) held++;
    }
    residency_->start_reads(use_);
    if (first_wave) {
      double begin = now_seconds();
      run_shared(weights, rows, x);
      now_.resident_seconds += now_seconds() - begin;
      first_wave = false;
      if (waiting == 0) read_guess(next, rows, hidden, row_errors);
    }
    if (held == 0 && (waiting == 0 || !wait_for_slot(row_errors))) break;
    while (held > 0) {
      uint32_t seen = residency_->completions();
      int64_t done = run_ready(x, row_errors);
      if (done == 0) {
        wait_for_reads(seen);
        done = fail_overdue(row_errors);
      }
      held -= done;
    }
  }
  combine(rows, row_errors);
}

// Only while decoding: a sweep reads ahead by itself. A layer that lacks slots for its own has none to give.
void MoeExecutor::read_guess(const NextMoeLayer& next, int64_t rows, const float* hidden,
                             std::span<const std::optional<Error>> row_errors) {
  if (!prefetch_ || next.layer < 0 || use_ != ExpertUse::kDecode) return;
  double begin = now_seconds();
  std::span<const int32_t> experts =
      guess_.predict(next, rows, hidden, buffers_.acc, row_errors, *residency_, buffers_.guess, *threads_);
  now_.router_seconds += now_seconds() - begin;
  if (!experts.empty()) residency_->prefetch(next.layer, experts);
}

// Computes every held group whose matrices are in, releases it, and returns how many were finished (or failed).
int64_t MoeExecutor::run_ready(const ActivationBuffer& x, std::span<std::optional<Error>> row_errors) {
  double begin = now_seconds();
  jobs_.clear();
  int64_t finished = 0, misses = 0;
  for (Group& group : groups_) {
    if (group.done || group.slot == nullptr || !residency_->ready(*group.slot)) continue;
    finished++;
    group.done = true;
    Status status = residency_->settle(*group.slot);
    if (!status.ok()) {
      fail_rows(group, status.error(), row_errors);
      continue;
    }
    misses += group.miss;
    jobs_.push_back({group.slot->gate, group.slot->up, group.slot->down, buffers_.pair_rows + group.first, group.count,
                     group.first});
  }
  if (finished == 0) return 0;
  if (misses > 0) now_.read_seconds = waited_ ? begin - reads_begin_ : 0;
  waited_ = false;
  buffers_.experts.run(jobs_, x, buffers_.outputs, *threads_);
  for (Group& group : groups_) {
    if (!group.done || group.slot == nullptr) continue;
    residency_->release(group.slot);
    group.slot = nullptr;
  }
  count_ready(static_cast<int64_t>(jobs_.size()) - misses, misses, now_seconds() - begin);
  return finished;
}

// Hits and misses that were computed together share the time evenly.
void MoeExecutor::count_ready(int64_t hits, int64_t misses, double seconds) {
  if (hits + misses == 0) return;
  double each = seconds / static_cast<double>(hits + misses);
  now_.resident_seconds += each * static_cast<double>(hits);
  now_.miss_seconds += each * static_cast<double>(misses);
  if (misses > 0) now_.last_miss_seconds = each;
}

void MoeExecutor::wait_for_reads(uint32_t seen) {
  double begin = now_seconds();
  residency_->wait(seen);
  now_.wait_seconds += now_seconds() - begin;
  waited_ = true;
}

// Gives up held groups whose reads are older than the limit; returns how many.
int64_t MoeExecutor::fail_overdue(std::span<std::optional<Error>> row_errors) {
  int64_t failed = 0;
  for (Group& group : groups_) {
    if (group.done || group.slot == nullptr) continue;
    std::optional<Error> error = residency_->overdue(*group.slot);
    if (!error) continue;
    fail_rows(group, *error, row_errors);
    residency_->release(group.slot);
    group.slot = nullptr;
    group.done = true;
    failed++;
  }
  return failed;
}

// This layer holds no slot and finds none: all are loading for requests that have given up. Waits for one of them.
// False: those reads, too, are older than the limit, and the rows that still lack an expert have failed.
bool MoeExecutor::wait_for_slot(std::span<std::optional<Error>> row_errors) {
  uint32_t seen = residency_->completions();
  if (residency_->collect() > 0) return true;
  wait_for_reads(seen);
  std::optional<Error> error = residency_->overdue_unowned();
  if (!error) return true;
  for (Group& group : groups_) {
    if (group.done) continue;
    fail_rows(group, *error, row_errors);
    group.done = true;
  }
  return false;
}

void MoeExecutor::combine(int64_t rows, std::span<std::optional<Error>> row_errors) {
  int64_t used = shape_.routing.used, width = shape_.width;
  for (int64_t r = 0; r < rows; r++) {
    if (row_errors[static_cast<size_t>(r)]) continue;
    float* acc = buffers_.acc + r * width;
    float* partial = buffers_.partial + r * width;
    int64_t i = r * used;
    for (int32_t range = 0; range < kRanges; range++) {
      std::fill(partial, partial + width, 0.0f);
      for (; i < (r + 1) * used && range_of(buffers_.ids[i]) == range; i++)
        kernels().axpy(buffers_.weights[i], buffers_.outputs + buffers_.pair_of[i] * width, width, partial);
      kernels().add(partial, width, acc);
    }
  }
}

int32_t MoeExecutor::range_of(int32_t expert) const {
  return static_cast<int32_t>(int64_t{expert} * kRanges / shape_.routing.experts);
}

// ---------------------------------------------------------------- many rows

void MoeExecutor::run_sweep(const MoeLayerWeights& weights, int64_t rows, const ActivationBuffer& x,
                            std::span<std::optional<Error>> row_errors) {
  int64_t ahead = sweep_ahead(layer_);
  int64_t count = static_cast<int64_t>(groups_.size()), next = 0;
  touched_share_ = static_cast<double>(count) / shape_.routing.experts;
  if (ahead_layer_ == layer_) take_ahead();
  auto read_on = [&](int64_t current) {
    for (; next < count && next - current < ahead; next++) {
      Group& group = groups_[static_cast<size_t>(next)];
      if (!group.done && group.slot == nullptr && !acquire(group)) break;
    }
    residency_->start_reads(ExpertUse::kSweep);
  };
  read_on(0);
  run_shared(weights, rows, x);
  std::fill(buffers_.partial, buffers_.partial + rows * shape_.width, 0.0f);
  int32_t range = 0;
  for (int64_t g = 0; g < count; g++) {
    read_on(g);
    Group& group = groups_[static_cast<size_t>(g)];
    for (; range < range_of(group.expert); range++) flush_partials(rows);
    while (!group.done && group.slot == nullptr && wait_for_slot(row_errors)) read_on(g);
    if (!group.done) sweep_group(group, x, row_errors);
  }
  for (; range < kRanges; range++) flush_partials(rows);
}

// How many experts a sweep may hold: all that it may take from decoding. More than the drive needs to be busy, so that
// it stays so while attention computes.
int64_t MoeExecutor::sweep_ahead(int32_t layer) const {
  return std::min<int64_t>(residency_->sweep_slots(layer), 64);
}

void MoeExecutor::expect_rows(int64_t rows) {
  double missed = 1 - static_cast<double>(shape_.routing.used) / shape_.routing.experts;
  touched_share_ = 1 - std::pow(missed, static_cast<double>(rows));
}

void MoeExecutor::read_ahead(int32_t layer) {
  constexpr double kNearlyAll = 0.97;
  drop_ahead();
  if (touched_share_ < kNearlyAll) return;
  size_t most = static_cast<size_t>(sweep_ahead(layer));
  ahead_layer_ = layer;
  residency_->begin_layer(layer, ExpertUse::kSweep);
  for (int32_t expert = 0; expert < shape_.routing.experts && ahead_.size() < most; expert++) {
    if (residency_->is_resident(layer, expert) || residency_->refusal(layer, expert) != nullptr) continue;
    ExpertSlot* slot = residency_->acquire(layer, expert, ExpertUse::kSweep);
    if (slot == nullptr) break;
    ahead_.push_back(slot);
  }
  residency_->start_reads(ExpertUse::kSweep);
}

void MoeExecutor::drop_ahead() {
  for (ExpertSlot* slot : ahead_) residency_->release_unused(slot);
  ahead_.clear();
  ahead_layer_ = -1;
}

// Gives the slots read ahead to their groups, and back where the router did not choose the expert.
void MoeExecutor::take_ahead() {
  size_t g = 0;
  for (ExpertSlot*& slot : ahead_) {
    while (g < groups_.size() && groups_[g].expert < slot->expert) g++;
    if (g == groups_.size() || groups_[g].expert != slot->expert || groups_[g].done) continue;
    groups_[g].slot = slot;
    groups_[g].miss = true;
    slot = nullptr;
  }
  std::erase(ahead_, nullptr);
  drop_ahead();
}

void MoeExecutor::sweep_group(Group& group, const ActivationBuffer& x, std::span<std::optional<Error>> row_errors) {
  while (true) {
    uint32_t seen = residency_->completions();
    if (residency_->ready(*group.slot)) break;
    wait_for_reads(seen);
    if (std::optional<Error> error = residency_->overdue(*group.slot)) {
      fail_rows(group, *error, row_errors);
      residency_->release(group.slot);
      group.done = true;
      return;
    }
  }
  double begin = now_seconds();
  Status status = residency_->settle(*group.slot);
  if (status.ok()) {
    FfnJob job{group.slot->gate, group.slot->up, group.slot->down, buffers_.pair_rows + group.first, group.count, 0};
    buffers_.experts.run({&job, 1}, x, buffers_.outputs, *threads_);
    threads_->run_range(group.count, 8, [&](int64_t first, int64_t end, int) {
      for (int64_t i = first; i < end; i++)
        kernels().axpy(buffers_.pair_weights[group.first + i], buffers_.outputs + i * shape_.width, shape_.width,
                       buffers_.partial + int64_t{buffers_.pair_rows[group.first + i]} * shape_.width);
    });
  } else {
    fail_rows(group, status.error(), row_errors);
  }
  residency_->release(group.slot);
  group.done = true;
  count_ready(group.miss ? 0 : 1, group.miss ? 1 : 0, now_seconds() - begin);
}

// acc += partial; partial = 0, for all rows.
void MoeExecutor::flush_partials(int64_t rows) {
  threads_->run_range(rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      float* partial = buffers_.partial + r * shape_.width;
      kernels().add(partial, shape_.width, buffers_.acc + r * shape_.width);
      std::fill(partial, partial + shape_.width, 0.0f);
    }
  });
}

}  // namespace llmd
