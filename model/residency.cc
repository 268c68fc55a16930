#include "model/residency.h"

#include <algorithm>

#include "io/check.h"

namespace llmd {
namespace {

uint32_t class_floor(const ExpertSizeClass& size_class, int32_t used) {
  return static_cast<uint32_t>(std::min(size_class.layers, 2) * used);
}

}  // namespace

uint64_t Residency::floor_bytes(const ExpertCatalog& catalog, int32_t used) {
  uint64_t bytes = 0;
  for (const ExpertSizeClass& c : catalog.size_classes()) bytes += c.slot_bytes * class_floor(c, used);
  return bytes;
}

uint64_t Residency::full_bytes(const ExpertCatalog& catalog) {
  uint64_t bytes = 0;
  for (const ExpertSizeClass& c : catalog.size_classes())
    bytes += c.slot_bytes * static_cast<uint64_t>(c.layers) * static_cast<uint64_t>(catalog.experts_per_layer());
  return bytes;
}

PoolSplit Residency::split(const ExpertCatalog& catalog, int32_t used, uint64_t bytes) {
  PoolSplit split;
  uint64_t floor = floor_bytes(catalog, used), full = full_bytes(catalog);
  LLMD_CHECK(bytes >= floor);
  for (const ExpertSizeClass& c : catalog.size_classes()) {
    uint64_t most = static_cast<uint64_t>(c.layers) * static_cast<uint64_t>(catalog.experts_per_layer());
    uint64_t least = std::min<uint64_t>(most, class_floor(c, used));
    // What is above the floor is shared by how much each class could still use.
    double share =
        full > floor ? static_cast<double>((most - least) * c.slot_bytes) / static_cast<double>(full - floor) : 0;
    uint64_t extra = static_cast<uint64_t>(share * static_cast<double>(bytes - floor)) / c.slot_bytes;
    uint64_t slots = std::min(most, least + extra);
    split.slots.push_back(static_cast<uint32_t>(slots));
    split.bytes += slots * c.slot_bytes;
  }
  return split;
}

Residency::Residency(const ExpertCatalog& catalog, std::span<const DirectFile> files, Reader& reader,
                     const PoolSplit& split, std::span<std::byte> memory)
    : catalog_(&catalog), files_(files), reader_(&reader) {
  LLMD_CHECK(memory.size() >= split.bytes);
  uint32_t total = 0;
  for (uint32_t slots : split.slots) total += slots;
  slots_ = std::make_unique<ExpertSlot[]>(total);
  std::byte* next = memory.data();
  uint32_t index = 0;
  for (size_t c = 0; c < split.slots.size(); c++) {
    SizeClass size_class;
    size_class.first = index;
    size_class.slots = split.slots[c];
    for (uint32_t i = 0; i < size_class.slots; i++, index++) {
      slots_[index].memory = next;
      slots_[index].size_class = static_cast<int32_t>(c);
      next += catalog.size_classes()[c].slot_bytes;
    }
    for (uint32_t i = size_class.slots; i > 0; i--)
      size_class.free.push_back(static_cast<int32_t>(size_class.first + i - 1));
    classes_.push_back(std::move(size_class));
  }
  table_.assign(static_cast<size_t>(catalog.layers()) * static_cast<size_t>(catalog.experts_per_layer()), -1);
  pending_first_.reserve(2 * static_cast<size_t>(catalog.experts_per_layer()));
  pending_down_.reserve(static_cast<size_t>(catalog.experts_per_layer()));
}

// A buffer belongs to the kernel until its own completion, and the gate to the reader until it has counted that: a
// read's state says so a moment earlier, which is not enough.
Residency::~Residency() {
  for (uint32_t seen = completions(); seen != submitted_;) seen = wait(seen);
}

bool Residency::is_resident(int32_t layer, int32_t expert) const {
  return const_cast<Residency*>(this)->entry(layer, expert) >= 0;
}

ExpertSlot* Residency::acquire(int32_t layer_index, int32_t expert, ExpertUse use) {
  const ExpertLayer& layer = catalog_->layer(layer_index);
  SizeClass& size_class = classes_[static_cast<size_t>(layer.size_class)];
  int32_t index = entry(layer_index, expert);
  if (index >= 0) {
    ExpertSlot& slot = slots_[static_cast<size_t>(index)];
    slot.pins++;
    statistics_.hits++;
    statistics_.touched_bytes += layer.expert_bytes;
    if (use == ExpertUse::kDecode) {
      unlink(size_class, index);
      link_newest(size_class, index);
    }
    return &slot;
  }
  index = take_slot(size_class);
  if (index < 0) return nullptr;
  ExpertSlot& slot = slots_[static_cast<size_t>(index)];
  slot.layer = layer_index;
  slot.expert = expert;
  slot.pins = 1;
  slot.loading = true;
  entry(layer_index, expert) = index;
  if (use == ExpertUse::kDecode)
    link_newest(size_class, index);
  else
    link_oldest(size_class, index);
  prepare_reads(slot, layer);
  statistics_.misses++;
  statistics_.bytes_read += layer.expert_bytes;
  statistics_.touched_bytes += layer.expert_bytes;
  return &slot;
}

int32_t Residency::take_slot(SizeClass& size_class) {
  if (!size_class.free.empty()) {
    int32_t index = size_class.free.back();
    size_class.free.pop_back();
    return index;
  }
  for (int32_t index = size_class.oldest; index >= 0; index = slots_[static_cast<size_t>(index)].newer) {
    ExpertSlot& slot = slots_[static_cast<size_t>(index)];
    if (slot.pins > 0) continue;
    statistics_.evictions++;
    unlink(size_class, index);
    entry(slot.layer, slot.expert) = -1;
    return index;
  }
  return -1;
}

void Residency::prepare_reads(ExpertSlot& slot, const ExpertLayer& layer) {
  constexpr uint64_t kBlock = ExpertCatalog::kBlock;
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
    read.buffer = slot.memory + tensor.region_offset;
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
  if (!slot.loading) return {};
  LLMD_CHECK(slot.reads_finished());
  for (int32_t i = 0; i < slot.reads_count; i++) {
    if (slot.reads[i].state.load(std::memory_order_acquire) != ReadState::kFailed) continue;
    statistics_.read_errors++;
    return read_error(slot.reads[i]);
  }
  slot.loading = false;
  return {};
}

void Residency::release(ExpertSlot* slot) {
  LLMD_CHECK(slot->pins > 0);
  slot->pins--;
  if (slot->pins > 0 || !slot->loading) return;
  // Its reads failed: nothing may find it, and the slot is free again.
  LLMD_CHECK(slot->reads_finished());
  empty(*slot);
}

Status Residency::fill() {
  for (int32_t layer = 0; layer < catalog_->layers(); layer++) {
    if (catalog_->layer(layer).tensors_count == 0) continue;
    const SizeClass& size_class = classes_[static_cast<size_t>(catalog_->layer(layer).size_class)];
    std::vector<ExpertSlot*> loading;
    for (int32_t expert = 0; expert < catalog_->experts_per_layer() && !size_class.free.empty(); expert++)
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

void Residency::empty(ExpertSlot& slot) {
  SizeClass& size_class = classes_[static_cast<size_t>(slot.size_class)];
  unlink(size_class, index_of(slot));
  entry(slot.layer, slot.expert) = -1;
  slot.layer = slot.expert = -1;
  slot.loading = false;
  slot.reads_count = 0;
  size_class.free.push_back(index_of(slot));
}

void Residency::unlink(SizeClass& size_class, int32_t index) {
  ExpertSlot& slot = slots_[static_cast<size_t>(index)];
  (slot.newer >= 0 ? slots_[static_cast<size_t>(slot.newer)].older : size_class.newest) = slot.older;
  (slot.older >= 0 ? slots_[static_cast<size_t>(slot.older)].newer : size_class.oldest) = slot.newer;
  slot.newer = slot.older = -1;
}

void Residency::link_newest(SizeClass& size_class, int32_t index) {
  ExpertSlot& slot = slots_[static_cast<size_t>(index)];
  slot.newer = -1;
  slot.older = size_class.newest;
  (size_class.newest >= 0 ? slots_[static_cast<size_t>(size_class.newest)].newer : size_class.oldest) = index;
  size_class.newest = index;
}

void Residency::link_oldest(SizeClass& size_class, int32_t index) {
  ExpertSlot& slot = slots_[static_cast<size_t>(index)];
  slot.older = -1;
  slot.newer = size_class.oldest;
  (size_class.oldest >= 0 ? slots_[static_cast<size_t>(size_class.oldest)].older : size_class.newest) = index;
  size_class.oldest = index;
}

}  // namespace llmd
