// ReaderCore: the logic of the Reader, the same over every backend (io/backend.h).
//
//   submit() --> four queues, one per priority --> pieces of chunk_bytes --> backend --> results
//   any thread   (mutex)                           one thread owns everything from here on
//
// A Read at the head of the most urgent queue is cut into pieces; each piece takes one of kBackendReadsMax operation
// slots and its bytes from the budget bytes_in_flight_max until it is finished. What can happen to a piece:
//
//   all bytes, or all that are needed   finished
//   short                               goes on at the last whole block; counted as an attempt when no block came
//   0                                   the file ended early: truncated
//   EINTR, EAGAIN, ENOMEM               again, after a growing pause; kAttemptsMax in a row without progress
//   a medium error (EIO, ...)           again with half the length, down to one page of the file, twice there: so the
//                                       failing page is known and one bad answer of a drive is survived
//   anything else                       the error of the read
//
// A prefetch is started only while nothing more urgent is with the drive, in small pieces and few at a time: whoever is
// more urgent a moment later waits for those. One that turns out to be wanted is raised to another queue.
//
// Pieces in the hands of the drive stand in a list by age; the oldest is looked at when it would become late, which the
// owner wakes for only while something is in flight.
//
// A read fails once, with the lowest offset; its other pieces are waited for, not retried. Cancelling is not stopping:
// only what has not been started can be taken back. Nothing is allocated after construction.
#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include "io/backend.h"
#include "io/reader.h"
#include "io/thread.h"

namespace llmd {

class ReaderCore final : public Reader {
 public:
  ReaderCore(const ReaderOptions& options, std::unique_ptr<Backend> backend);
  ~ReaderCore() override;
  /// Starts the owning thread; nothing may be submitted before.
  Status start();

  void submit(std::span<Read* const> reads) override;
  void cancel(std::span<Read* const> reads) override;
  void raise(std::span<Read* const> reads, ReadPriority priority) override;
  void set_bytes_in_flight_max(uint64_t bytes) override;
  void set_sweep_bytes_in_flight_max(uint64_t bytes) override;
  uint64_t bytes_in_flight_max() const override { return bytes_in_flight_max_.load(std::memory_order_relaxed); }
  uint64_t now_ns() const override { return clock_.now_ns(); }
  uint64_t cpu_ns() const override { return thread_.cpu_ns(); }
  ReaderStatistics statistics() const override;
  const std::string& path_name() const override { return backend_->name(); }
  const std::string& path_reason() const override { return backend_->reason(); }

 private:
  static constexpr size_t kPriorities = 4;
  static constexpr uint32_t kAttemptsMax = 10;
  static constexpr uint64_t kPauseNsMax = 100'000'000;
  // Of prefetches, with the drive at once: what a demand may have to wait for. Also at most an eighth of what may be in
  // flight at all, which is measured to suit the drive. Smaller pieces cost more processor time than they save.
  static constexpr uint64_t kPrefetchBytesMax = 2048u << 10;
  // A warm start has this part of the bytes in flight: the first request comes while it is at work.
  static constexpr uint64_t kWarmShare = 4;

  /// One piece of a read, from its start to its last byte.
  struct Operation {
    Read* read = nullptr;
    uint64_t offset = 0;        // where the read in the kernel begins
    uint64_t valid_end = 0;     // every byte of the piece before it is in
    uint64_t end = 0;           // of the piece
    uint32_t length = 0;        // of the read in the kernel
    uint32_t attempts = 0;      // in a row without progress
    uint64_t retry_ns = 0;      // paused until then
    Operation* next = nullptr;  // in the list of free or of paused operations
    uint64_t budget_bytes = 0;
    uint64_t started_ns = 0;  // first given to the backend
    Operation *older = nullptr, *newer = nullptr;
    bool last_try = false;  // one page, and it has failed once
    bool late = false;      // looked at, and too old
  };
  struct Queue {
    Read* first = nullptr;
    Read* last = nullptr;
    void push(Read* read);
    void pop();
  };
  struct Counters {
    std::atomic<uint64_t> reads{0}, bytes{0}, chunks{0}, retries{0}, short_reads{0}, errors{0}, in_flight_bytes{0};
    std::atomic<uint64_t> late_reads{0}, oldest_started_ns{0};
  };

  void run();
  bool issue_next();
  Read* take_next(uint64_t* length);
  Read* first_queued(Queue** queue);
  uint64_t prefetch_room() const;
  bool has_room(ReadPriority priority, uint64_t length) const;
  void start_operation(Operation* operation);
  void start_due_operations();
  int64_t sleep_ns() const;

  void link_newest(Operation* operation);
  void unlink(Operation* operation);
  uint64_t next_late_ns() const;
  void look_at_ages();
  void report_late(const Operation& operation, uint64_t now);

  void on_result(Operation* operation, int32_t result);
  void on_bytes(Operation* operation, uint64_t count);
  void on_error(Operation* operation, int error_number);
  void resume(Operation* operation, uint64_t pause_ns);
  void fail(Operation* operation, int error_number);
  void end_operation(Operation* operation);
  void fail_read(Read* read, int error_number, uint64_t offset);
  void finish_if_idle(Read* read);
  void finish(Read* read);

  const ReaderOptions options_;
  const std::unique_ptr<Backend> backend_;
  const Clock& clock_;

  std::mutex mutex_;  // guards the queues and the fields up to pending_, ReadProgress::started and
                      // ::cancelled, and the priority of pending reads
  std::array<Queue, kPriorities> queues_;
  bool wake_wanted_ = false;  // the owner sleeps and could start more
  bool stopping_ = false;
  std::atomic<uint32_t> pending_{0};
  std::atomic<uint64_t> bytes_in_flight_max_, sweep_bytes_in_flight_max_{UINT64_MAX};

  // The owner's.
  std::array<Operation, kBackendReadsMax> operations_;
  Operation* free_ = nullptr;
  Operation* paused_ = nullptr;
  Operation *oldest_ = nullptr, *newest_ = nullptr;
  uint64_t last_report_ns_ = 0, unreported_ = 0;
  bool reported_ = false;
  uint32_t busy_operations_ = 0;
  uint64_t budget_used_ = 0;

  mutable Counters counters_;
  Thread thread_;
};

}  // namespace llmd
