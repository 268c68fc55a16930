// run_fault_stress: many reads over a lying disk, all paths, judged against the file. One thread calls it.
//
// Quick runs are unit tests (tests/io), long ones with fresh seeds are tests/fault. Everything that goes wrong is
// counted, so that the caller can print the seed beside it.
#pragma once

#include <cerrno>
#include <memory>
#include <random>
#include <vector>

#include "io/fault_backend.h"
#include "io/pread_backend.h"
#include "io/thread_backend.h"
#include "io/uring_backend.h"
#include "temp_file.h"

namespace llmd {

struct StressResult {
  uint64_t done = 0, failed = 0, wrong = 0, untyped = 0;
  ReaderStatistics statistics;
};

inline FaultOptions dying_disk(uint64_t seed) {
  FaultOptions faults;
  faults.seed = seed;
  faults.short_one_in = 3;
  faults.eagain_one_in = 4;
  faults.eio_one_in = 5;
  faults.zero_one_in = 40;
  faults.delay_one_in = 4;
  faults.bad_begin = 1'000'000;
  faults.bad_end = 1'000'100;
  return faults;
}

/// Seeds choose the real backend beneath, too.
inline std::unique_ptr<Backend> stress_backend(uint64_t seed) {
  if (seed % 3 == 0) return std::make_unique<PreadBackend>();
  if (seed % 3 == 1) {
    auto ring = UringBackend::create();
    if (ring.ok()) return std::move(ring).value();
  }
  return ThreadBackend::create(4, "stress").value();
}

inline StressResult run_fault_stress(const FaultOptions& faults, uint32_t count) {
  static const TempFile temp((2 << 20) + 777, 42);
  std::mt19937_64 random(faults.seed);
  DirectFile file =
      (random() % 4 == 0 ? DirectFile::open_buffered(temp.path()) : DirectFile::open(temp.path())).value();
  ReaderOptions options;
  options.bytes_in_flight_max = 64 << (10 + random() % 4);
  options.chunk_bytes = 4096 << (random() % 6);
  options.retry_pause_us = 1;
  auto reader =
      Reader::create_with_backend(options, std::make_unique<FaultBackend>(faults, stress_backend(faults.seed))).value();
  ReadGate gate;
  std::vector<std::unique_ptr<OwnedRead>> reads;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t begin = random() % temp.content().size();
    uint64_t end = std::min<uint64_t>(begin + 1 + random() % 150'000, temp.content().size());
    reads.push_back(std::make_unique<OwnedRead>(file, begin, end, static_cast<uint32_t>(random() % 4), &gate));
    reads.back()->get()->priority = static_cast<ReadPriority>(random() % 4);
    reader->submit({{reads.back()->get()}});
  }
  for (uint32_t seen = 0; seen != count;) seen = wait_for_any(gate, seen);
  StressResult result;
  for (auto& read : reads) {
    if (read->state() == ReadState::kDone) {
      ++result.done;
      if (!read->matches(temp)) ++result.wrong;
      continue;
    }
    ++result.failed;
    int error = (*read)->error_number;
    bool typed = error == 0 || error == EIO || error == EAGAIN || error == EINTR;
    bool inside = (*read)->error_offset >= (*read)->offset && (*read)->error_offset < (*read)->needed_end;
    if (!typed || !inside) ++result.untyped;
  }
  result.statistics = reader->statistics();
  return result;
}

}  // namespace llmd
