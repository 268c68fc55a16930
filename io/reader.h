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
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/direct_file.h"
#include "io/result.h"

namespace llmd {

enum class ReadPriority : uint8_t { kDemand = 0, kSweep = 1, kPrefetch = 2, kWarm = 3 };
enum class ReadState : uint32_t { kIdle = 0, kPending = 1, kDone = 2, kFailed = 3 };

/// Counts completions so that one thread can sleep until any of its reads has finished. The count moves after the state
/// of the read: a gate must live until it has counted every read that was submitted with it.
struct ReadGate {
  std::atomic<uint32_t> completed{0};  // incremented (release) and notified once for every finished read
};

/// The reader's own notes in a pending Read; nobody else touches them.
struct ReadProgress {
  uint64_t end = 0;          // reading stops here: the end of the block that holds the last needed byte
  uint64_t issued_end = 0;   // everything before it has been started
  uint32_t outstanding = 0;  // pieces started and not finished
  bool started = false;      // too late to cancel
  bool cancelled = false;
  bool failed = false;
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
  Read* next = nullptr;       // the reader's queue link
  ReadProgress progress;

  bool finished() const {
    ReadState now = state.load(std::memory_order_acquire);
    return now == ReadState::kDone || now == ReadState::kFailed;
  }
};

/// The operating Error of a failed read: code "model_read_error" or "model_truncated", with file and offset.
Error read_error(const Read& read);

struct ReaderOptions {
  enum class Path { kAuto, kUring, kThreads } path = Path::kAuto;
  uint64_t bytes_in_flight_max = 64u << 20;
  uint32_t chunk_bytes = 1u << 20;  // reads are cut into pieces of at most this size (rounded to the block)
  uint32_t queue_reads_max = 4096;  // submitted and unfinished at once; more is a bug of the caller
  uint32_t threads = 8;             // of the fallback path, and of the ring for files that may block
  uint32_t retry_pause_us = 1000;   // after the first EAGAIN; doubles with each further one in a row
};

struct ReaderStatistics {
  uint64_t reads = 0, bytes = 0, chunks = 0, retries = 0, short_reads = 0, errors = 0;
  uint64_t in_flight_bytes = 0;
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
  virtual ReaderStatistics statistics() const = 0;
  virtual const std::string& path_name() const = 0;    // "io_uring" or "threads"
  virtual const std::string& path_reason() const = 0;  // one line for the log and /health
};

/// Sleeps (after a short spin) until the read has finished.
void wait_for(const Read& read);
/// Sleeps (after a short spin) until gate.completed differs from `seen`; returns the new value.
uint32_t wait_for_any(const ReadGate& gate, uint32_t seen);

}  // namespace llmd
