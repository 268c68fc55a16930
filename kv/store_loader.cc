#include "kv/store_loader.h"

#include <algorithm>
#include <utility>

#include "io/crc32c.h"

namespace llmd {
namespace {

void prepare(Read& read, const DirectFile& file, uint64_t offset, uint64_t bytes, std::byte* buffer) {
  read.file = &file;
  read.offset = offset;
  read.length = bytes;
  read.needed_end = offset + bytes;
  read.buffer = buffer;
  read.priority = ReadPriority::kDemand;
  read.state.store(ReadState::kIdle, std::memory_order_relaxed);
}

Error damaged(const KvLoad::Part& part, const char* what) {
  return operating_error("kv_record_invalid", what, part.path);
}

}  // namespace

StoreLoader::StoreLoader(Reader& reader, const KvLayout& layout, std::function<void()> on_finished)
    : reader_(reader),
      layout_(layout),
      on_finished_(std::move(on_finished)),
      slots_(std::make_unique<std::array<Slot, kRecordsInFlight>>()) {}

Result<std::unique_ptr<StoreLoader>> StoreLoader::start(Reader& reader, const KvLayout& layout,
                                                        std::function<void()> on_finished) {
  std::unique_ptr<StoreLoader> loader(new StoreLoader(reader, layout, std::move(on_finished)));
  LLMD_ASSIGN_OR_RETURN(loader->thread_, Thread::start("kv-load", kIoStackBytes, [l = loader.get()] { l->run(); }));
  return loader;
}

StoreLoader::~StoreLoader() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (KvLoad* load : loads_) load->cancelled = true;
    if (current_ != nullptr) current_->cancelled = true;
    work_.notify_one();
  }
  thread_.join();
}

void StoreLoader::submit(KvLoad& load) {
  std::lock_guard lock(mutex_);
  loads_.push_back(&load);
  work_.notify_one();
}

void StoreLoader::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !loads_.empty(); });
    if (loads_.empty()) return;
    current_ = loads_.front();
    loads_.pop_front();
    lock.unlock();
    perform(*current_);
    lock.lock();
    std::exchange(current_, nullptr)->finished.store(true, std::memory_order_release);
    count_completion(gate_);
    if (on_finished_) on_finished_();
  }
}

// Parts are started in order, a window ahead of the one that is checked next.
void StoreLoader::perform(KvLoad& load) {
  size_t started = 0, checked = 0;
  bool going = true;
  while (true) {
    going = going && !load.cancelled.load(std::memory_order_relaxed);
    while (going && started < load.parts.size() && started - checked < slots_->size()) {
      Slot& slot = (*slots_)[started % slots_->size()];
      Status opened = open(slot, load.parts[started++]);
      slot.error = opened.ok() ? std::nullopt : std::optional(std::move(opened).error());
    }
    if (checked == started) return;
    Slot& slot = (*slots_)[checked % slots_->size()];
    if (!slot.error) {
      wait_for(slot.header);
      wait_for(slot.rows);
    }
    if (going) {
      Status good = slot.error ? Status(*slot.error) : check(slot, load.parts[checked]);
      if (good.ok()) {
        load.good++;
      } else {
        load.error = std::move(good).error();
        going = false;
      }
    }
    slot.file.reset();
    checked++;
  }
}

Status StoreLoader::open(Slot& slot, const KvLoad::Part& part) {
  LLMD_ASSIGN_OR_RETURN(slot.file, DirectFile::open(part.path));
  if (slot.file->block_bytes() > kRecordBlock) {
    LLMD_ASSIGN_OR_RETURN(slot.file, DirectFile::open_buffered(part.path));
  }
  uint64_t payload = (part.count * layout_.bytes_per_token() + kRecordBlock - 1) / kRecordBlock * kRecordBlock;
  if (slot.file->bytes() != kRecordBlock + payload) return damaged(part, "its size is wrong");
  prepare(slot.header, *slot.file, 0, kRecordBlock, slot.block.data());
  prepare(slot.rows, *slot.file, kRecordBlock, payload, part.rows);
  Read* reads[] = {&slot.header, &slot.rows};
  reader_.submit(reads);
  return {};
}

Status StoreLoader::check(Slot& slot, const KvLoad::Part& part) {
  for (const Read* read : {&slot.header, &slot.rows})
    if (read->state.load(std::memory_order_acquire) == ReadState::kFailed) return read_error(*read);
  Result<RecordHeader> header = decode_header(slot.block);
  if (!header.ok()) {
    Error error = std::move(header).error();
    error.file = part.path;
    return error;
  }
  if (header->id != part.id || header->count != part.count || header->bytes_per_token != layout_.bytes_per_token())
    return damaged(part, "it is not what its name says");
  if (crc32c({part.rows, static_cast<size_t>(header->payload_bytes())}) != header->payload_crc)
    return damaged(part, "its rows are damaged");
  if (part.count < static_cast<uint32_t>(kKvPageTokens)) spread_rows(layout_, part.rows, part.count);
  return {};
}

}  // namespace llmd
