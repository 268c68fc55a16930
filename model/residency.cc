#include "model/residency.h"

#include <algorithm>

#include "io/check.h"

namespace llmd {

Residency::Residency(const ExpertCatalog& catalog, std::span<const DirectFile> files, Reader& reader,
                     const PoolLayout& layout, std::span<std::byte> memory)
    : catalog_(&catalog),
      files_(files),
      reader_(&reader),
      memory_(memory),
      pool_(catalog.pool_shape(), layout, PolicyKind::kHeat),
      slots_(std::make_unique<ExpertSlot[]>(pool_.slot_numbers())) {
  LLMD_CHECK(memory.size() >= layout.bytes);
  pending_first_.reserve(2 * static_cast<size_t>(catalog.experts_per_layer()));
  pending_down_.reserve(static_cast<size_t>(catalog.experts_per_layer()));
}

// A buffer belongs to the kernel until its own completion, and the gate to the reader until it has counted that: a
// read's state says so a moment earlier, which is not enough.
Residency::~Residency() {
  for (uint32_t seen = completions(); seen != submitted_;) seen = wait(seen);
}

ExpertSlot* Residency::acquire(int32_t layer, int32_t expert, ExpertUse use) {
  ExpertPool::Taken taken = pool_.acquire(layer, expert, use);
  if (taken.slot < 0) return nullptr;
  ExpertSlot& slot = slots_[static_cast<size_t>(taken.slot)];
  if (taken.hit) return &slot;
  slot.index = taken.slot;
  slot.layer = layer;
  slot.expert = expert;
  prepare_reads(slot, catalog_->layer(layer));
  counts_.bytes_read += catalog_->layer(layer).expert_bytes;
  return &slot;
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
    read.state.store(ReadState::kIdle, std::memory_order_relaxed);
    data[t] = read.buffer + (begin - read.offset);
    (t + 1 < layer.tensors_count ? pending_first_ : pending_down_).push_back(&read);
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
  ReadPriority priority = use == ExpertUse::kDecode ? ReadPriority::kDemand : ReadPriority::kSweep;
  for (std::vector<Read*>* list : {&pending_first_, &pending_down_}) {
    for (Read* read : *list) read->priority = priority;
    if (!list->empty()) reader_->submit(*list);
    submitted_ += static_cast<uint32_t>(list->size());
    list->clear();
  }
}

Status Residency::settle(ExpertSlot& slot) {
  if (!pool_.loading(slot.index)) return {};
  LLMD_CHECK(slot.reads_finished());
  for (int32_t i = 0; i < slot.reads_count; i++) {
    if (slot.reads[i].state.load(std::memory_order_acquire) != ReadState::kFailed) continue;
    counts_.read_errors++;
    return read_error(slot.reads[i]);
  }
  if (checker_ != nullptr && checker_->due()) LLMD_RETURN_IF_ERROR(check_bytes(slot));
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
  // Its reads failed: nothing may find it, and the slot is free again.
  LLMD_CHECK(slot->reads_finished());
  pool_.drop(slot->index);
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
  return all;
}

}  // namespace llmd
