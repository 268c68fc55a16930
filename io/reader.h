// Reader: asynchronous reads of model files into memory that the caller owns.
//
// One interface, two paths: io_uring (one ring, one owning thread, woken by an eventfd read that sits in the ring) and,
// where the kernel denies io_uring, a pool of preadv threads. Short reads are continued, EINTR and EAGAIN retried a
// bounded number of times, everything else becomes the read's error. A seeded fault backend (io/fault_backend.h) can
// stand between this logic and the kernel in tests.
//
// Ownership: from submit() until finished() the Read and its buffer belong to the reader, also after a cancel. submit()
// and wait_for() may be called from any thread, allocate nothing and never fail; a read that cannot be done finishes
// with an error. The destructor cancels what is queued, waits for every read in flight, then returns.
//
// Age. A dying drive answers after minutes. The reader says so (ReaderOptions::on_late) and never gives a buffer back
// early. Who must not wait that long gives up the *request*, not the read:
//
//   seen = wait_for_any(gate, seen, real_clock().now_ns() + a_while);
//   if (!read.finished() && reader.now_ns() - read.submitted_ns > limit) ...  // leave read and buffer where they are
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "io/clock.h"
#include "io/direct_file.h"
#include "io/result.h"

namespace llmd {

/// The most urgent first. A prefetch is a guess: none is started while anything more urgent is queued or with the
/// drive, and little of it is with the drive at once, since what is there cannot be overtaken.
enum class ReadPriority : uint8_t { kDemand = 0, kSweep = 1, kPrefetch = 2, kWarm = 3 };
enum class ReadState : uint32_t { kIdle = 0, kPending = 1, kDone = 2, kFailed = 3 };

/// Counts completions so that one thread can sleep until any of its reads has finished. The count moves after the state
/// of the read: a gate must live until it has counted every read that was submitted with it.
struct ReadGate {
  std::atomic<uint32_t> completed{0};  // incremented (release) once for every finished read; sleep by wait_for_any()
};

/// The reader's own notes in a pending Read; nobody else touches them.
struct ReadProgress {
  uint64_t end = 0;          // reading stops here: the end of the block that holds the last needed byte
  uint64_t issued_end = 0;   // everything before it has been started
  uint32_t outstanding = 0;  // pieces started and not finished
  bool started = false;      // too late to cancel
  bool cancelled = false;
  bool failed = false;
  bool late = false;  // has been counted as late
};

/// One read of the enclosing blocks of [needed_begin, needed_end) of a file. Fill the first group, submit, wait.
struct Read {
  const DirectFile* file = nullptr;
  uint64_t offset = 0;          // multiple of file->block_bytes()
  uint64_t length = 0;          // multiple of file->block_bytes(); may reach past the end of the file
  uint64_t needed_end = 0;      // absolute file offset; the read is done when all bytes before it are in
  std::byte* buffer = nullptr;  // holds `length` bytes, aligned to file->block_bytes()
  ReadPriority priority = ReadPriority::kDemand;
  ReadGate* gate = nullptr;  // may be null

  std::atomic<ReadState> state{ReadState::kIdle};
  int error_number = 0;       // kFailed: errno value; 0 = the file ended before needed_end (truncated)
  uint64_t error_offset = 0;  // kFailed: absolute file offset of the first byte that could not be read
  uint64_t submitted_ns = 0;  // by the reader's clock (Reader::now_ns); written by submit()
  uint64_t finished_ns = 0;   // likewise, when the last piece had come; valid once finished() is true
  Read* next = nullptr;       // the reader's queue link
  ReadProgress progress;

  bool finished() const {
    ReadState now = state.load(std::memory_order_acquire);
    return now == ReadState::kDone || now == ReadState::kFailed;
  }
};

/// The operating Error of a failed read: code "model_read_error" or "model_truncated", with file and offset.
Error read_error(const Read& read);

/// A read that has been in the hands of the drive for too long, for a log line.
struct LateRead {
  const DirectFile* file = nullptr;
  uint64_t offset = 0;  // of the piece that is missing
  uint64_t age_ns = 0;  // since the piece was started
  uint64_t others = 0;  // reads that became late since the last report and were not reported themselves
};

struct ReaderOptions {
  enum class Path { kAuto, kUring, kThreads } path = Path::kAuto;
  uint64_t bytes_in_flight_max = 64u << 20;
  uint32_t chunk_bytes = 1u << 20;  // reads are cut into pieces of at most this size (rounded to the block)
  uint32_t queue_reads_max = 4096;  // submitted and unfinished at once; more is a bug of the caller
  uint32_t threads = 8;             // of the fallback path, and of the ring for files that may block
  uint32_t retry_pause_us = 1000;   // after the first EAGAIN; doubles with each further one in a row
  uint64_t late_after_ns = 1'000'000'000;
  /// Called by the reader's thread for a read that has become late: once for each read and at most once in
  /// late_after_ns. It must be quick and must not call the reader. May be empty.
  std::function<void(const LateRead&)> on_late;
  const Clock* clock = &real_clock();  // must outlive the reader
};

struct ReaderStatistics {
  uint64_t reads = 0, bytes = 0, chunks = 0, retries = 0, short_reads = 0, errors = 0;
  uint64_t in_flight_bytes = 0;
  uint64_t late_reads = 0;     // ever older than late_after_ns while in the hands of the drive
  uint64_t oldest_age_ns = 0;  // of what is with the drive now; 0 = nothing is
};

class Backend;

class Reader {
 public:
  /// Errors: "io_unavailable" when the path asked for (not kAuto) cannot be had; the message names the cause and cure.
  static Result<std::unique_ptr<Reader>> create(const ReaderOptions& options);
  /// The same reader over a backend of the caller's (io/backend.h). Errors: "thread_start".
  static Result<std::unique_ptr<Reader>> create_with_backend(const ReaderOptions& options,
                                                             std::unique_ptr<Backend> backend);
  virtual ~Reader() = default;

  virtual void submit(std::span<Read* const> reads) = 0;
  /// Takes back reads that have not been started: they finish as kFailed with ECANCELED, before this returns. Those in
  /// flight go on. Cheapest in one call: its cost grows with all that is queued.
  virtual void cancel(std::span<Read* const> reads) = 0;
  /// Makes reads more urgent that may be queued or in flight already; what is finished stays so. They take their turn
  /// behind those of the same priority.
  virtual void raise(std::span<Read* const> reads, ReadPriority priority) = 0;
  /// How many bytes may be with the drive at once, from the next start on. Any thread.
  virtual void set_bytes_in_flight_max(uint64_t bytes) = 0;
  virtual uint64_t bytes_in_flight_max() const = 0;
  /// How many of them may be a sweep's: what a demand read may have to wait for, so it is small while somebody decodes
  /// beside a sweep. One piece may always fly. Any thread; unlimited at first.
  virtual void set_sweep_bytes_in_flight_max(uint64_t bytes) = 0;
  /// The clock that submitted_ns is measured by.
  virtual uint64_t now_ns() const = 0;
  /// Processor time of the reader's thread so far. Call it while the reader lives.
  virtual uint64_t cpu_ns() const = 0;
  virtual ReaderStatistics statistics() const = 0;
  virtual const std::string& path_name() const = 0;    // "io_uring" or "threads"
  virtual const std::string& path_reason() const = 0;  // one line for the log and /health
};

/// Sleeps (after a short spin) until the read has finished.
void wait_for(const Read& read);
/// Sleeps (after a short spin) until gate.completed differs from `seen` or the real clock has reached `deadline_ns`;
/// returns the count as it is then.
uint32_t wait_for_any(const ReadGate& gate, uint32_t seen, uint64_t deadline_ns = UINT64_MAX);
/// Counts one completion and wakes who sleeps in wait_for_any(). For the reader; the gate may be gone when it returns.
void count_completion(ReadGate& gate);

}  // namespace llmd
