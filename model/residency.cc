#include "model/residency.h"

#include <algorithm>
#include <cerrno>

#include "io/check.h"

namespace llmd {
namespace {

// How long to sleep at most before ages are looked at again.
constexpr uint64_t kAgeCheckNs = 250'000'000;

ReadPriority priority_of(ExpertUse use) {
  switch (use) {
    case ExpertUse::kDecode:
      return ReadPriority::kDemand;
    case ExpertUse::kSweep:
      return ReadPriority::kSweep;
    case ExpertUse::kGuess:
      return ReadPriority::kPrefetch;
    case ExpertUse::kWarm:
      break;
  }
  return ReadPriority::kWarm;
}

bool failed(const Read& read) {
  return read.state.load(std::memory_order_acquire) == ReadState::kFailed;
}

}  // namespace

Residency::Residency(const ExpertCatalog& catalog, std::span<const DirectFile> files, Reader& reader,
                     const PoolLayout& layout, std::span<std::byte> memory, const ResidencyOptions& options)
    : catalog_(&catalog),
      files_(files),
      reader_(&reader),
      memory_(memory),
      options_(options),
      pool_(catalog.pool_shape(), layout, PolicyKind::kHeat),
      slots_(std::make_unique<ExpertSlot[]>(pool_.slot_numbers())) {
  LLMD_CHECK(memory.size() >= layout.bytes);
  pending_first_.reserve(2 * static_cast<size_t>(catalog.experts_per_layer()));
  pending_down_.reserve(static_cast<size_t>(catalog.experts_per_layer()));
  guesses_.reserve(static_cast<size_t>(catalog.experts_per_layer()));
  guess_pins_.reserve(static_cast<size_t>(catalog.experts_per_layer()));
  guess_reads_.reserve(3 * static_cast<size_t>(catalog.experts_per_layer()));
  unowned_.reserve(pool_.slot_numbers());
  taking_back_.reserve(3 * pool_.slot_numbers());
  bad_.reserve(kBadMax);
}

// A buffer belongs to the kernel until its own completion, and the gate to the reader until it has counted that: a
// read's state says so a moment earlier, which is not enough.
Residency::~Residency() {
  for (uint32_t seen = completions(); seen != submitted_;) seen = wait(seen);
}

void Residency::begin_layer(int32_t layer, ExpertUse use) {
  if (!unowned_.empty()) {
    stop_warming();
    stop_guesses();
    collect();
  }
  pool_.begin_layer(layer, use);
}

ExpertSlot* Residency::acquire(int32_t layer, int32_t expert, ExpertUse use) {
  ExpertPool::Taken taken = pool_.acquire(layer, expert, use);
  if (taken.slot < 0) return nullptr;
  ExpertSlot& slot = slots_[static_cast<size_t>(taken.slot)];
  if (taken.hit) {
    if (pool_.loading(taken.slot)) hurry(slot, use);
    return &slot;
  }
  begin_slot(slot, taken.slot, layer, expert);
  counts_.bytes_read += catalog_->layer(layer).expert_bytes;
  return &slot;
}

void Residency::begin_slot(ExpertSlot& slot, int32_t index, int32_t layer, int32_t expert) {
  slot.index = index;
  slot.layer = layer;
  slot.expert = expert;
  slot.retried = false;
  prepare_reads(slot, catalog_->layer(layer));
}

// What is on its way at a low priority goes on like a miss.
void Residency::hurry(ExpertSlot& slot, ExpertUse use) {
  Read* reads[3];
  size_t count = 0;
  for (int32_t i = 0; i < slot.reads_count; i++) {
    if (taken_back(slot.reads[i]))
      queue_read(slot, slot.reads[i]);
    else if (!slot.reads[i].finished())
      reads[count++] = &slot.reads[i];
  }
  if (count > 0) reader_->raise({reads, count}, priority_of(use));
}

void Residency::add_unfinished(ExpertSlot& slot) {
  for (int32_t i = 0; i < slot.reads_count; i++)
    if (!slot.reads[i].finished() && slot.reads[i].priority != ReadPriority::kDemand)
      taking_back_.push_back(&slot.reads[i]);
}

bool Residency::taken_back(const Read& read) {
  return failed(read) && read.error_number == ECANCELED;
}

// The last matrix of an expert is down, which is needed after the others.
void Residency::queue_read(ExpertSlot& slot, Read& read) {
  read.state.store(ReadState::kIdle, std::memory_order_relaxed);
  (&read == &slot.reads[slot.reads_count - 1] ? pending_down_ : pending_first_).push_back(&read);
}

void Residency::prepare_reads(ExpertSlot& slot, const ExpertLayer& layer) {
  constexpr uint64_t kBlock = ExpertCatalog::kBlock;
  std::byte* memory = memory_.data() + pool_.offset(slot.index);
  const std::byte* data[3] = {};
  slot.reads_count = layer.tensors_count;
  for (int32_t t = 0; t < layer.tensors_count; t++) {
    const ExpertTensor& tensor = layer.tensors[t];
    uint64_t begin = tensor.file_offset + static_cast<uint64_t>(slot.expert) * tensor.expert_bytes;
    uint64_t end = begin + tensor.expert_bytes;
    Read& read = slot.reads[t];
    read.file = &files_[tensor.shard];
    read.offset = begin / kBlock * kBlock;
    read.length = (end + kBlock - 1) / kBlock * kBlock - read.offset;
    read.needed_end = end;
    read.buffer = memory + tensor.region_offset;
    read.gate = &gate_;
    data[t] = read.buffer + (begin - read.offset);
    queue_read(slot, read);
  }
  auto matrix = [&](int32_t t) {
    const ExpertTensor& tensor = layer.tensors[t];
    return Matrix{data[t], tensor.type, tensor.n_in, tensor.n_out, tensor.row_bytes};
  };
  slot.down = matrix(layer.tensors_count - 1);
  slot.gate = matrix(0);
  if (layer.fused) {
    slot.up = slot.gate.rows(slot.gate.n_out / 2, slot.gate.n_out / 2);
    slot.gate = slot.gate.rows(0, slot.gate.n_out / 2);
  } else {
    slot.up = matrix(1);
  }
}

void Residency::start_reads(ExpertUse use) {
  for (std::vector<Read*>* list : {&pending_first_, &pending_down_}) {
    for (Read* read : *list) read->priority = priority_of(use);
    if (!list->empty()) reader_->submit(*list);
    submitted_ += static_cast<uint32_t>(list->size());
    list->clear();
  }
}

bool Residency::ready(ExpertSlot& slot) {
  if (!pool_.loading(slot.index)) return true;
  if (!slot.reads_finished()) return false;
  if (slot.retried) return true;
  Read* again[3] = {};
  size_t count = 0;
  for (int32_t i = 0; i < slot.reads_count; i++)
    if (failed(slot.reads[i])) again[count++] = &slot.reads[i];
  if (count == 0) return true;
  slot.retried = true;
  counts_.read_retries++;
  for (size_t i = 0; i < count; i++) again[i]->state.store(ReadState::kIdle, std::memory_order_relaxed);
  reader_->submit({again, count});
  submitted_ += static_cast<uint32_t>(count);
  return false;
}

Status Residency::settle(ExpertSlot& slot) {
  if (!pool_.loading(slot.index)) return {};
  LLMD_CHECK(slot.reads_finished());
  for (int32_t i = 0; i < slot.reads_count; i++) {
    if (!failed(slot.reads[i])) continue;
    counts_.read_errors++;
    Error error = read_error(slot.reads[i]);
    mark_bad(slot, error);
    return error;
  }
  if (checker_ != nullptr && checker_->due()) {
    Status checked = check_bytes(slot);
    if (!checked.ok()) {
      mark_bad(slot, checked.error());
      return checked;
    }
  }
  if (!bad_.empty()) mark_good(slot);
  pool_.loaded(slot.index);
  return {};
}

// Bytes that do not match are read once more: what went wrong may be the way here and not the file.
Status Residency::check_bytes(ExpertSlot& slot) {
  for (int32_t t = 0; t < slot.reads_count; t++) {
    Read& read = slot.reads[t];
    uint64_t begin = read.needed_end - catalog_->layer(slot.layer).tensors[t].expert_bytes;
    const std::byte* data = read.buffer + (begin - read.offset);
    if (checker_->matches(slot.layer, t, slot.expert, data)) continue;
    read.state.store(ReadState::kIdle, std::memory_order_relaxed);
    Read* again = &read;
    reader_->submit({&again, 1});
    submitted_++;
    wait_for(read);
    if (read.state.load(std::memory_order_acquire) == ReadState::kFailed) return read_error(read);
    if (checker_->matches(slot.layer, t, slot.expert, data)) continue;
    counts_.read_errors++;
    return checker_->mismatch(slot.layer, t, slot.expert);
  }
  return {};
}

void Residency::release(ExpertSlot* slot) {
  pool_.release(slot->index);
  if (pool_.pins(slot->index) > 0 || !pool_.loading(slot->index)) return;
  if (slot->reads_finished())
    pool_.drop(slot->index);  // its reads failed: nothing may find it, and the slot is free again
  else if (std::find(unowned_.begin(), unowned_.end(), slot->index) == unowned_.end())
    unowned_.push_back(slot->index);
}

void Residency::release_unused(ExpertSlot* slot) {
  pool_.not_touched(slot->index);
  if (ready(*slot)) (void)settle(*slot);  // an error here is nobody's; a row that needs the expert meets it again
  release(slot);
}

uint32_t Residency::wait(uint32_t seen) const {
  if (options_.read_timeout_ns == 0) return wait_for_any(gate_, seen);
  return wait_for_any(gate_, seen, real_clock().now_ns() + std::min(options_.read_timeout_ns, kAgeCheckNs));
}

Status Residency::fill() {
  for (int32_t layer = 0; layer < catalog_->layers(); layer++) {
    int32_t size_class = catalog_->layer(layer).size_class;
    if (size_class < 0) continue;
    std::vector<ExpertSlot*> loading;
    for (int32_t expert = 0; expert < catalog_->experts_per_layer() && pool_.empty_slots(size_class) > 0; expert++)
      if (!is_resident(layer, expert)) loading.push_back(acquire(layer, expert, ExpertUse::kSweep));
    start_reads(ExpertUse::kSweep);
    Status status;
    for (ExpertSlot* slot : loading) {
      for (uint32_t seen = completions(); !ready(*slot);) seen = wait(seen);
      Status settled = settle(*slot);
      if (status.ok() && !settled.ok()) status = std::move(settled);
      release(slot);
    }
    LLMD_RETURN_IF_ERROR(std::move(status));
  }
  return {};
}

ResidencyStatistics Residency::statistics() const {
  ResidencyStatistics all = counts_;
  static_cast<PoolStatistics&>(all) = pool_.statistics();
  all.bad_experts = bad_.size();
  return all;
}

}  // namespace llmd
