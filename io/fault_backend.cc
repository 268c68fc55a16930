#include "io/fault_backend.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/check.h"

namespace llmd {

namespace {

constexpr int kRubbish = 0xA5;
constexpr uint64_t kRoundsMax = 8;

/// A bijection of 64 bits that looks random (the finaliser of splitmix64).
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

bool one_in(uint32_t n, uint64_t dice) {
  return n != 0 && dice % n == 0;
}

void scribble(const BackendRead& read, uint64_t from) {
  if (from < read.length) std::memset(read.buffer + from, kRubbish, read.length - from);
}

}  // namespace

FaultBackend::FaultBackend(const FaultOptions& options, std::unique_ptr<Backend> inner)
    : options_(options), inner_(std::move(inner)), name_("fault:" + inner_->name()), random_state_(mix(options.seed)) {}

uint64_t FaultBackend::random() {
  return random_state_ = mix(random_state_);
}

void FaultBackend::hold(BackendResult result) {
  bool delayed = one_in(options_.delay_one_in, random());
  held_.push_back({result, round_ + (delayed ? 1 + random() % kRoundsMax : 0)});
}

void FaultBackend::start(const BackendRead& read) {
  LLMD_CHECK(read.tag < kBackendReadsMax);
  uint32_t attempt = attempts_[read.offset]++;
  uint64_t dice = mix(options_.seed ^ mix(read.offset ^ mix(attempt)));
  auto next = [&dice] { return dice = mix(dice); };

  int32_t error = 0;
  bool answered = true;
  if (read.offset < options_.bad_end && read.offset + read.length > options_.bad_begin) {
    error = -EIO;
  } else if (one_in(options_.eio_one_in, next())) {
    error = -EIO;
  } else if (one_in(options_.eagain_one_in, next())) {
    error = next() % 2 == 0 ? -EAGAIN : -EINTR;
  } else if (!one_in(options_.zero_one_in, next())) {
    answered = false;
  }
  if (answered) {
    scribble(read, 0);
    return hold({read.tag, error});
  }

  uint64_t claim = read.length;
  if (one_in(options_.short_one_in, next())) claim = 1 + next() % read.length;
  if (options_.short_residue >= 0 && attempt == 0) {
    uint64_t unit = options_.short_unit;
    claim = next() % (read.length / unit + 1) * unit + static_cast<uint64_t>(options_.short_residue);
    claim = std::clamp<uint64_t>(claim, 1, read.length);
  }
  if (options_.truncated_at < read.offset + claim) {
    claim = options_.truncated_at > read.offset ? options_.truncated_at - read.offset : 0;
  }
  reads_[read.tag] = read;
  claims_[read.tag] = static_cast<uint32_t>(claim);
  inner_->start(read);
}

int32_t FaultBackend::spoil(const BackendRead& read, int32_t result) {
  if (result < 0) return result;
  int32_t claim = std::min(result, static_cast<int32_t>(claims_[read.tag]));
  scribble(read, static_cast<uint64_t>(claim));
  return claim;
}

size_t FaultBackend::wait(std::span<BackendResult> results, int64_t timeout_ns) {
  std::array<BackendResult, kBackendReadsMax> arrived;
  size_t count = inner_->wait(arrived, held_.empty() ? timeout_ns : 0);
  for (size_t i = 0; i < count; ++i) hold({arrived[i].tag, spoil(reads_[arrived[i].tag], arrived[i].result)});
  ++round_;
  // Delivered in a seeded order: each slot takes one of the due results at random.
  auto not_due = [&](const Held& held) { return held.due_round > round_; };
  auto due_begin = std::partition(held_.begin(), held_.end(), not_due);
  size_t delivered = 0;
  while (delivered < results.size() && due_begin != held_.end()) {
    auto picked = due_begin + static_cast<std::ptrdiff_t>(random() % static_cast<uint64_t>(held_.end() - due_begin));
    results[delivered++] = picked->result;
    *picked = held_.back();
    held_.pop_back();
  }
  return delivered;
}

}  // namespace llmd
