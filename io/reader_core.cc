#include "io/reader_core.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace llmd {

namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t align_down(uint64_t value, uint64_t block) {
  return value & ~(block - 1);
}
uint64_t align_up(uint64_t value, uint64_t block) {
  return align_down(value + block - 1, block);
}

/// Errors of the medium, where a smaller read may succeed and a repeat may too.
bool is_medium_error(int error_number) {
  return error_number == EIO || error_number == ENODATA || error_number == EILSEQ || error_number == EREMOTEIO ||
         error_number == EBADMSG;
}

bool is_passing_error(int error_number) {
  return error_number == EINTR || error_number == EAGAIN || error_number == ENOMEM;
}

void add(std::atomic<uint64_t>& counter, uint64_t by) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

void check_read(const Read& read) {
  LLMD_CHECK(read.file != nullptr && read.buffer != nullptr);
  uint64_t mask = read.file->block_bytes() - 1;
  LLMD_CHECK(((read.offset | read.length | reinterpret_cast<uintptr_t>(read.buffer)) & mask) == 0);
  LLMD_CHECK(read.offset <= INT64_MAX && read.length <= INT64_MAX - read.offset);
  LLMD_CHECK(read.needed_end <= read.offset + read.length);
  LLMD_CHECK(read.state.load(std::memory_order_relaxed) != ReadState::kPending);
}

}  // namespace

void ReaderCore::Queue::push(Read* read) {
  read->next = nullptr;
  (last == nullptr ? first : last->next) = read;
  last = read;
}

void ReaderCore::Queue::pop() {
  first = first->next;
  if (first == nullptr) last = nullptr;
}

ReaderCore::ReaderCore(const ReaderOptions& options, std::unique_ptr<Backend> backend)
    : options_(options),
      backend_(std::move(backend)),
      clock_(*options.clock),
      bytes_in_flight_max_(options.bytes_in_flight_max) {
  for (Operation& operation : operations_) {
    operation.next = free_;
    free_ = &operation;
  }
}

Status ReaderCore::start() {
  LLMD_ASSIGN_OR_RETURN(thread_, Thread::start("io", kIoStackBytes, [this] { run(); }));
  return {};
}

ReaderCore::~ReaderCore() {
  if (!thread_.running()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  backend_->wake();
  thread_.join();
}

void ReaderCore::submit(std::span<Read* const> reads) {
  uint32_t before = pending_.fetch_add(static_cast<uint32_t>(reads.size()), std::memory_order_relaxed);
  LLMD_CHECK(before + reads.size() <= options_.queue_reads_max);
  add(counters_.reads, reads.size());
  uint64_t now = clock_.now_ns();
  for (Read* read : reads) {
    check_read(*read);
    uint64_t block = read->file->block_bytes();
    uint64_t end = std::min(read->offset + read->length, align_up(read->needed_end, block));
    read->progress = ReadProgress{};
    read->progress.issued_end = read->offset;
    read->progress.end = std::max(end, read->offset);
    read->error_number = 0;
    read->error_offset = 0;
    read->submitted_ns = now;
    read->state.store(ReadState::kPending, std::memory_order_relaxed);
  }
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    for (Read* read : reads) queues_[static_cast<size_t>(read->priority)].push(read);
    wake = wake_wanted_;
    wake_wanted_ = false;
  }
  if (wake) backend_->wake();
}

void ReaderCore::cancel(std::span<Read* const> reads) {
  Queue taken;
  {
    std::lock_guard lock(mutex_);
    for (Read* read : reads) read->progress.cancelled = true;
    for (Queue& queue : queues_) {
      Queue kept;
      for (Read* read = queue.first; read != nullptr;) {
        Read* next = read->next;
        (read->progress.cancelled && !read->progress.started ? taken : kept).push(read);
        read = next;
      }
      queue = kept;
    }
  }
  for (Read* read = taken.first; read != nullptr;) {
    Read* next = read->next;
    fail_read(read, ECANCELED, read->offset);
    finish(read);
    read = next;
  }
}

void ReaderCore::raise(std::span<Read* const> reads, ReadPriority priority) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    auto raised = [&](const Read* read) {
      return read->priority > priority && std::find(reads.begin(), reads.end(), read) != reads.end();
    };
    Queue taken;
    for (Queue& queue : queues_) {
      Queue kept;
      for (Read* read = queue.first; read != nullptr;) {
        Read* next = read->next;
        (raised(read) ? taken : kept).push(read);
        read = next;
      }
      queue = kept;
    }
    for (Read* read : reads) read->priority = std::min(read->priority, priority);
    for (Read* read = taken.first; read != nullptr;) {
      Read* next = read->next;
      queues_[static_cast<size_t>(priority)].push(read);
      read = next;
    }
    wake = wake_wanted_ && taken.first != nullptr;
    if (wake) wake_wanted_ = false;
  }
  if (wake) backend_->wake();
}

void ReaderCore::set_bytes_in_flight_max(uint64_t bytes) {
  bytes_in_flight_max_.store(bytes, std::memory_order_relaxed);
  backend_->wake();
}

void ReaderCore::set_sweep_bytes_in_flight_max(uint64_t bytes) {
  if (sweep_bytes_in_flight_max_.exchange(bytes, std::memory_order_relaxed) < bytes) backend_->wake();
}

ReaderStatistics ReaderCore::statistics() const {
  ReaderStatistics result;
  result.reads = counters_.reads.load(std::memory_order_relaxed);
  result.bytes = counters_.bytes.load(std::memory_order_relaxed);
  result.chunks = counters_.chunks.load(std::memory_order_relaxed);
  result.retries = counters_.retries.load(std::memory_order_relaxed);
  result.short_reads = counters_.short_reads.load(std::memory_order_relaxed);
  result.errors = counters_.errors.load(std::memory_order_relaxed);
  result.in_flight_bytes = counters_.in_flight_bytes.load(std::memory_order_relaxed);
  result.late_reads = counters_.late_reads.load(std::memory_order_relaxed);
  uint64_t oldest = counters_.oldest_started_ns.load(std::memory_order_relaxed), now = clock_.now_ns();
  result.oldest_age_ns = oldest == 0 || now < oldest ? 0 : now - oldest;
  return result;
}

void ReaderCore::run() {
  std::array<BackendResult, kBackendReadsMax> results;
  for (;;) {
    start_due_operations();
    while (issue_next()) {
    }
    if (busy_operations_ == 0) {
      std::lock_guard lock(mutex_);
      bool queued = std::any_of(queues_.begin(), queues_.end(), [](const Queue& queue) { return queue.first; });
      if (stopping_ && !queued) break;
    }
    size_t count = backend_->wait(results, sleep_ns());
    for (size_t i = 0; i < count; ++i) {
      LLMD_CHECK(results[i].tag < operations_.size());
      on_result(&operations_[results[i].tag], results[i].result);
    }
    look_at_ages();
  }
  backend_->close();
}

/// Starts one piece of the most urgent read, or finishes a read that needs none. False: nothing more can be done now.
bool ReaderCore::issue_next() {
  if (free_ == nullptr) return false;
  uint64_t length = 0;
  Read* read = take_next(&length);
  if (read == nullptr) return false;
  if (length == 0) {
    finish_if_idle(read);
    return true;
  }
  Operation* operation = free_;
  free_ = operation->next;
  *operation = Operation{};
  operation->read = read;
  operation->offset = operation->valid_end = read->progress.issued_end;
  operation->end = read->progress.issued_end + length;
  operation->length = static_cast<uint32_t>(length);
  operation->budget_bytes = length;
  link_newest(operation);
  read->progress.issued_end += length;
  ++read->progress.outstanding;
  ++busy_operations_;
  budget_used_ += length;
  counters_.in_flight_bytes.store(budget_used_, std::memory_order_relaxed);
  add(counters_.chunks, 1);
  start_operation(operation);
  return true;
}

/// The read whose turn it is and the length of its next piece; 0 = it has no further piece. Leaves it in its queue
/// while pieces remain, so that a more urgent read can overtake between two of them.
Read* ReaderCore::take_next(uint64_t* length) {
  std::lock_guard lock(mutex_);
  Queue* queue = nullptr;
  Read* read = first_queued(&queue);
  wake_wanted_ = read == nullptr;
  if (read == nullptr) return nullptr;
  ReadProgress& progress = read->progress;
  if (stopping_ && progress.issued_end < progress.end) fail_read(read, ECANCELED, progress.issued_end);
  uint64_t block = read->file->block_bytes();
  uint64_t chunk = std::max(align_down(options_.chunk_bytes, block), block);
  if (read->priority == ReadPriority::kPrefetch && !stopping_) {
    uint64_t room = prefetch_room();
    wake_wanted_ = room == 0;  // something more urgent could still be started
    if (room == 0) return nullptr;
    chunk = std::max(std::min(chunk, align_down(room, block)), block);
  }
  *length = progress.failed ? 0 : std::min(chunk, progress.end - progress.issued_end);
  if (!stopping_ && !has_room(read->priority, *length)) {
    wake_wanted_ = true;  // as above
    return nullptr;
  }
  // One piece may always fly, also when it is larger than the whole budget.
  if (budget_used_ != 0 && budget_used_ + *length > bytes_in_flight_max()) return nullptr;
  progress.started = true;
  if (*length == 0) progress.issued_end = progress.end;
  if (progress.issued_end + *length == progress.end) queue->pop();
  return read;
}

Read* ReaderCore::first_queued(Queue** queue) {
  for (Queue& candidate : queues_) {
    if (candidate.first == nullptr) continue;
    *queue = &candidate;
    return candidate.first;
  }
  return nullptr;
}

/// How long the next piece of a prefetch may be; 0: none may be started now.
uint64_t ReaderCore::prefetch_room() const {
  uint64_t most = std::min(kPrefetchBytesMax, bytes_in_flight_max() / 8), used = 0;
  for (const Operation* operation = oldest_; operation != nullptr; operation = operation->newer) {
    if (operation->read->priority < ReadPriority::kPrefetch) return 0;
    used += operation->budget_bytes;
  }
  // Two pieces, so that the drive has the next when one is done. The first may always fly.
  if (used == 0) return std::max<uint64_t>(most / 2, 1);
  return used + most / 2 <= most ? most / 2 : 0;
}

/// Whether a sweep or a warm start may have that much more with the drive.
bool ReaderCore::has_room(ReadPriority priority, uint64_t length) const {
  uint64_t most = UINT64_MAX, used = 0;
  if (priority == ReadPriority::kSweep) most = sweep_bytes_in_flight_max_.load(std::memory_order_relaxed);
  if (priority == ReadPriority::kWarm) most = bytes_in_flight_max() / kWarmShare;
  if (most == UINT64_MAX) return true;
  for (const Operation* operation = oldest_; operation != nullptr; operation = operation->newer)
    if (operation->read->priority == priority) used += operation->budget_bytes;
  return used == 0 || used + length <= most;
}

void ReaderCore::start_operation(Operation* operation) {
  const Read& read = *operation->read;
  BackendRead request;
  request.fd = read.file->fd();
  request.length = operation->length;
  request.offset = operation->offset;
  request.buffer = read.buffer + (operation->offset - read.offset);
  request.may_block = read.file->may_block();
  request.tag = static_cast<uint32_t>(operation - operations_.data());
  backend_->start(request);
}

void ReaderCore::start_due_operations() {
  if (paused_ == nullptr) return;
  uint64_t now = clock_.now_ns();
  Operation* rest = paused_;
  paused_ = nullptr;
  while (rest != nullptr) {
    Operation* operation = rest;
    rest = rest->next;
    if (operation->retry_ns <= now) {
      start_operation(operation);
    } else {
      operation->next = paused_;
      paused_ = operation;
    }
  }
}

/// Until a paused operation is due or another read would be late; negative: until something happens. At most an hour
/// (to wake early does no harm): what waits adds this to the time of day in int64 nanoseconds.
int64_t ReaderCore::sleep_ns() const {
  uint64_t due = next_late_ns();
  for (const Operation* operation = paused_; operation != nullptr; operation = operation->next) {
    due = std::min(due, operation->retry_ns);
  }
  if (due == UINT64_MAX) return -1;
  uint64_t now = clock_.now_ns();
  constexpr uint64_t kLongestSleepNs = 3'600'000'000'000;
  return due <= now ? 0 : static_cast<int64_t>(std::min(due - now, kLongestSleepNs));
}

void ReaderCore::link_newest(Operation* operation) {
  operation->started_ns = clock_.now_ns();
  operation->older = newest_;
  (newest_ == nullptr ? oldest_ : newest_->newer) = operation;
  newest_ = operation;
  counters_.oldest_started_ns.store(oldest_->started_ns, std::memory_order_relaxed);
}

void ReaderCore::unlink(Operation* operation) {
  (operation->older == nullptr ? oldest_ : operation->older->newer) = operation->newer;
  (operation->newer == nullptr ? newest_ : operation->newer->older) = operation->older;
  counters_.oldest_started_ns.store(oldest_ == nullptr ? 0 : oldest_->started_ns, std::memory_order_relaxed);
}

/// When the first piece that is not late yet will be; UINT64_MAX: nothing is in flight, or all of it is late already.
uint64_t ReaderCore::next_late_ns() const {
  for (const Operation* operation = oldest_; operation != nullptr; operation = operation->newer) {
    if (!operation->late) return operation->started_ns + options_.late_after_ns;
  }
  return UINT64_MAX;
}

void ReaderCore::look_at_ages() {
  uint64_t now = clock_.now_ns();
  for (Operation* operation = oldest_; operation != nullptr; operation = operation->newer) {
    if (operation->started_ns + options_.late_after_ns > now) return;
    bool known = operation->late || operation->read->progress.late;
    operation->late = operation->read->progress.late = true;
    if (known) continue;
    add(counters_.late_reads, 1);
    report_late(*operation, now);
  }
}

void ReaderCore::report_late(const Operation& operation, uint64_t now) {
  if (reported_ && now - last_report_ns_ < options_.late_after_ns) {
    ++unreported_;
    return;
  }
  reported_ = true;
  last_report_ns_ = now;
  LateRead late{operation.read->file, operation.valid_end, now - operation.started_ns, unreported_};
  unreported_ = 0;
  if (options_.on_late) options_.on_late(late);
}

void ReaderCore::on_result(Operation* operation, int32_t result) {
  LLMD_CHECK(operation->read != nullptr);
  if (result > 0 && static_cast<uint32_t>(result) <= operation->length) {
    on_bytes(operation, static_cast<uint32_t>(result));
  } else if (result == 0) {
    fail(operation, 0);
  } else {
    on_error(operation, result < 0 ? -result : EIO);  // more bytes than asked for: nothing of it can be trusted
  }
}

void ReaderCore::on_bytes(Operation* operation, uint64_t count) {
  Read* read = operation->read;
  uint64_t got_end = operation->offset + count;
  if (got_end > operation->valid_end) {
    add(counters_.bytes, got_end - operation->valid_end);
    operation->valid_end = got_end;
  }
  if (operation->valid_end >= std::min(operation->end, read->needed_end)) return end_operation(operation);
  if (count < operation->length) add(counters_.short_reads, 1);
  uint64_t next_offset = align_down(operation->valid_end, read->file->block_bytes());
  if (next_offset > operation->offset) {
    operation->attempts = 0;
    operation->last_try = false;
  } else if (++operation->attempts > kAttemptsMax) {
    return fail(operation, 0);  // the file ends inside this block
  }
  operation->offset = next_offset;
  operation->length = static_cast<uint32_t>(std::min<uint64_t>(operation->length, operation->end - next_offset));
  resume(operation, 0);
}

void ReaderCore::on_error(Operation* operation, int error_number) {
  if (is_passing_error(error_number)) {
    if (++operation->attempts > kAttemptsMax) return fail(operation, error_number);
    uint64_t pause_ns = uint64_t{options_.retry_pause_us} * 1000 << (operation->attempts - 1);
    add(counters_.retries, 1);
    return resume(operation, error_number == EINTR ? 0 : std::min(pause_ns, kPauseNsMax));
  }
  if (!is_medium_error(error_number)) return fail(operation, error_number);
  uint64_t page = std::max<uint64_t>(kPageBytes, operation->read->file->block_bytes());
  uint64_t next_page = align_down(operation->offset, page) + page;
  if (operation->offset + operation->length > next_page) {
    uint64_t middle = align_down(operation->offset + operation->length / 2, page);
    operation->length = static_cast<uint32_t>(std::max(next_page, middle) - operation->offset);
  } else if (operation->last_try) {
    return fail(operation, error_number);
  } else {
    operation->last_try = true;
  }
  add(counters_.retries, 1);
  resume(operation, 0);
}

/// Starts the operation again, unless its read has failed before this point already.
void ReaderCore::resume(Operation* operation, uint64_t pause_ns) {
  const Read& read = *operation->read;
  if (read.progress.failed && read.error_offset <= operation->valid_end) return end_operation(operation);
  if (pause_ns == 0) return start_operation(operation);
  operation->retry_ns = clock_.now_ns() + pause_ns;
  operation->next = paused_;
  paused_ = operation;
}

void ReaderCore::fail(Operation* operation, int error_number) {
  fail_read(operation->read, error_number, operation->valid_end);
  end_operation(operation);
}

void ReaderCore::end_operation(Operation* operation) {
  Read* read = operation->read;
  budget_used_ -= operation->budget_bytes;
  counters_.in_flight_bytes.store(budget_used_, std::memory_order_relaxed);
  --busy_operations_;
  unlink(operation);
  operation->read = nullptr;
  operation->next = free_;
  free_ = operation;
  --read->progress.outstanding;
  finish_if_idle(read);
}

void ReaderCore::fail_read(Read* read, int error_number, uint64_t offset) {
  if (read->progress.failed && read->error_offset <= offset) return;
  read->progress.failed = true;
  read->error_number = error_number;
  read->error_offset = offset;
}

void ReaderCore::finish_if_idle(Read* read) {
  if (read->progress.outstanding == 0 && read->progress.issued_end == read->progress.end) finish(read);
}

void ReaderCore::finish(Read* read) {
  bool failed = read->progress.failed;
  if (failed) add(counters_.errors, 1);
  if (!read->file->direct() && read->progress.started) {
    // Weights have their place in the arena; a second copy in the page cache would break the memory budget.
    posix_fadvise(read->file->fd(), static_cast<off_t>(read->offset),
                  static_cast<off_t>(read->progress.end - read->offset), POSIX_FADV_DONTNEED);
  }
  ReadGate* gate = read->gate;
  read->finished_ns = clock_.now_ns();
  pending_.fetch_sub(1, std::memory_order_relaxed);
  // From this store on the owner may reuse or destroy the Read. notify_all() needs only its address: libstdc++ looks up
  // a table of waiters by it and at most hands it to the futex call.
  read->state.store(failed ? ReadState::kFailed : ReadState::kDone, std::memory_order_release);
  read->state.notify_all();
  if (gate != nullptr) count_completion(*gate);
}

}  // namespace llmd
