// FaultBackend: a seeded liar between the reader's logic and another backend. Only tests and `llmd bench` use it.
//
// Whether a read is harmed follows from the seed, its offset and how often that offset was asked for, so a failure
// replays from its seed whatever the timing. Harmed reads also leave rubbish in the part of the buffer that they do not
// claim: who trusts more than the result said computes wrong bytes and is found out. Results may be held back for some
// rounds and are delivered in a seeded order. The owner and wake() rules of io/backend.h hold.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "io/backend.h"

namespace llmd {

struct FaultOptions {
  uint64_t seed = 1;
  // One read in this many is harmed so; 0 = none.
  uint32_t short_one_in = 0;   // some of the bytes, at least one
  uint32_t zero_one_in = 0;    // as at the end of a file
  uint32_t eio_one_in = 0;     // a bad answer that a repeat mends
  uint32_t eagain_one_in = 0;  // EAGAIN and EINTR by turns
  uint32_t delay_one_in = 0;   // held back for 1 to 8 rounds
  // Every first read of an offset brings a multiple of `short_unit` plus `short_residue` bytes; -1 = off.
  int32_t short_residue = -1;
  uint32_t short_unit = 4096;
  // Reads that touch [bad_begin, bad_end) fail with EIO, always.
  uint64_t bad_begin = 0, bad_end = 0;
  // The file ends here.
  uint64_t truncated_at = UINT64_MAX;
};

class FaultBackend final : public Backend {
 public:
  FaultBackend(const FaultOptions& options, std::unique_ptr<Backend> inner);

  void start(const BackendRead& read) override;
  size_t wait(std::span<BackendResult> results, int64_t timeout_ns) override;
  void wake() override { inner_->wake(); }
  void close() override { inner_->close(); }
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return inner_->reason(); }

 private:
  struct Held {
    BackendResult result;
    uint64_t due_round = 0;
  };
  uint64_t random();
  void hold(BackendResult result);
  int32_t spoil(const BackendRead& read, int32_t result);

  const FaultOptions options_;
  const std::unique_ptr<Backend> inner_;
  std::string name_;
  std::array<BackendRead, kBackendReadsMax> reads_;
  std::array<uint32_t, kBackendReadsMax> claims_{};  // at most this many bytes will be claimed
  std::unordered_map<uint64_t, uint32_t> attempts_;  // by offset
  std::vector<Held> held_;
  uint64_t round_ = 0;
  uint64_t random_state_;
};

}  // namespace llmd
