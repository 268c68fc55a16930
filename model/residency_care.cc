// The part of Residency that runs beside the steps: bad experts, reads that nobody waits for, warming.
#include <algorithm>
#include <cerrno>

#include "io/check.h"
#include "model/residency.h"

namespace llmd {
namespace {

// Warm reads queued at once: enough for the drive between two calls of maintain(), few enough to change one's mind.
constexpr uint64_t kWarmingBytesMax = 256u << 20;
constexpr size_t kWarmingExpertsMax = 256;

}  // namespace

// ---------------------------------------------------------------- bad experts

const Error* Residency::refusal(int32_t layer, int32_t expert) const {
  for (const BadExpert& bad : bad_)
    if (bad.layer == layer && bad.expert == expert)
      return options_.clock->now_ns() < bad.until_ns ? &bad.error : nullptr;
  return nullptr;
}

void Residency::mark_bad(const ExpertSlot& slot, const Error& error) {
  auto same = [&](const BadExpert& bad) { return bad.layer == slot.layer && bad.expert == slot.expert; };
  std::erase_if(bad_, same);
  if (bad_.size() == kBadMax) bad_.erase(bad_.begin());
  bad_.push_back({slot.layer, slot.expert, options_.clock->now_ns() + options_.bad_expert_ns, error});
}

void Residency::mark_good(const ExpertSlot& slot) {
  std::erase_if(bad_, [&](const BadExpert& bad) { return bad.layer == slot.layer && bad.expert == slot.expert; });
}

// One try in the background for each whose time is over: the drive may have healed with nobody asking.
void Residency::probe_bad() {
  uint64_t now = options_.clock->now_ns();
  for (BadExpert& bad : bad_) {
    if (now < bad.until_ns) continue;
    bad.until_ns = now + options_.bad_expert_ns;
    if (is_resident(bad.layer, bad.expert)) continue;
    pool_.make_room(catalog_->layer(bad.layer).size_class);
    (void)start_quietly(bad.layer, bad.expert, ExpertUse::kSweep);
  }
}

// ---------------------------------------------------------------- reads that nobody waits for

bool Residency::start_quietly(int32_t layer, int32_t expert, ExpertUse urgency) {
  ExpertPool::Taken taken = pool_.acquire(layer, expert, ExpertUse::kWarm);
  if (taken.slot < 0) return false;
  ExpertSlot& slot = slots_[static_cast<size_t>(taken.slot)];
  if (taken.hit) {
    pool_.release(taken.slot);
    return true;
  }
  begin_slot(slot, taken.slot, layer, expert);
  start_reads(urgency);
  pool_.release(taken.slot);
  unowned_.push_back(taken.slot);
  return true;
}

// Ends what has landed and drops what failed or was taken back. What is pinned has an owner again.
size_t Residency::collect() {
  warming_bytes_ = 0;
  return std::erase_if(unowned_, [&](int32_t index) {
    ExpertSlot& slot = slots_[static_cast<size_t>(index)];
    if (!pool_.loading(index)) return true;
    if (pool_.pins(index) > 0) return false;
    if (slot.reads_finished() && std::any_of(slot.reads, slot.reads + slot.reads_count, taken_back)) {
      if (pool_.guessed(index))
        counts_.prefetch_bytes -= catalog_->layer(slot.layer).expert_bytes;
      else
        warm_next_ = 0;  // it comes again when nothing runs
      pool_.drop_late(index);
      return true;
    }
    if (!ready(slot)) {
      if (slot.reads[0].priority == ReadPriority::kWarm) warming_bytes_ += catalog_->layer(slot.layer).slot_bytes;
      return false;
    }
    if (!settle(slot).ok()) pool_.drop(index);
    return true;
  });
}

// ---------------------------------------------------------------- guesses

void Residency::prefetch(int32_t layer, std::span<const int32_t> experts) {
  guess_pins_.clear();
  for (int32_t expert : experts)
    if (is_resident(layer, expert)) guess_pins_.push_back(pool_.acquire(layer, expert, ExpertUse::kGuess).slot);
  for (int32_t expert : experts) {
    if (is_resident(layer, expert) || refusal(layer, expert) != nullptr) continue;
    ExpertPool::Taken taken = pool_.acquire(layer, expert, ExpertUse::kGuess);
    if (taken.slot < 0) continue;
    begin_slot(slots_[static_cast<size_t>(taken.slot)], taken.slot, layer, expert);
    pool_.release(taken.slot);
    guesses_.push_back(taken.slot);
    unowned_.push_back(taken.slot);
    counts_.prefetch_bytes += catalog_->layer(layer).expert_bytes;
  }
  for (int32_t slot : guess_pins_) pool_.release(slot);
  submit_guesses();
}

// Takes back the guesses that the drive has not begun; collect() drops them. The rest of those that it has begun is
// queued again at once.
void Residency::stop_guesses() {
  taking_back_.clear();
  for (int32_t index : guesses_)
    if (pool_.loading(index)) add_unfinished(slots_[static_cast<size_t>(index)]);
  if (!taking_back_.empty()) reader_->cancel(taking_back_);
  for (int32_t index : guesses_) {
    ExpertSlot& slot = slots_[static_cast<size_t>(index)];
    if (!pool_.loading(index) || std::all_of(slot.reads, slot.reads + slot.reads_count, taken_back)) continue;
    for (int32_t i = 0; i < slot.reads_count; i++)
      if (taken_back(slot.reads[i])) slot.reads[i].state.store(ReadState::kIdle, std::memory_order_relaxed);
  }
  submit_guesses();
  guesses_.clear();
}

// Expert by expert, so that as few as possible are half done when time is up.
void Residency::submit_guesses() {
  pending_first_.clear();
  pending_down_.clear();
  guess_reads_.clear();
  for (int32_t index : guesses_) {
    ExpertSlot& slot = slots_[static_cast<size_t>(index)];
    for (int32_t i = 0; i < slot.reads_count; i++) {
      if (slot.reads[i].state.load(std::memory_order_acquire) != ReadState::kIdle) continue;
      slot.reads[i].priority = ReadPriority::kPrefetch;
      guess_reads_.push_back(&slot.reads[i]);
    }
  }
  if (!guess_reads_.empty()) reader_->submit(guess_reads_);
  submitted_ += static_cast<uint32_t>(guess_reads_.size());
}

bool Residency::too_old(const ExpertSlot& slot) const {
  if (options_.read_timeout_ns == 0) return false;
  uint64_t now = reader_->now_ns();
  for (int32_t i = 0; i < slot.reads_count; i++) {
    const Read& read = slot.reads[i];
    if (!read.finished() && now > read.submitted_ns && now - read.submitted_ns > options_.read_timeout_ns) return true;
  }
  return false;
}

std::optional<Error> Residency::overdue(const ExpertSlot& slot) {
  if (!pool_.loading(slot.index) || !too_old(slot)) return {};
  uint64_t seconds = options_.read_timeout_ns / 1'000'000'000;
  for (int32_t i = 0; i < slot.reads_count; i++) {
    const Read& read = slot.reads[i];
    if (read.finished()) continue;
    Error error = operating_error("model_read_timeout",
                                  "the drive has not answered a read for " + std::to_string(seconds) +
                                      " s (--read-timeout); look at the kernel's log",
                                  read.file->path(), read.offset);
    counts_.reads_overdue++;
    mark_bad(slot, error);
    return error;
  }
  return {};
}

std::optional<Error> Residency::overdue_unowned() {
  for (int32_t index : unowned_)
    if (std::optional<Error> error = overdue(slots_[static_cast<size_t>(index)])) return error;
  return {};
}

// ---------------------------------------------------------------- warming

void Residency::set_heat(std::span<const float> rates) {
  pool_.set_heat(rates);
  warm_order_.clear();
  warm_next_ = 0;
  for (size_t i = 0; i < rates.size(); i++)
    if (rates[i] > 0) warm_order_.push_back(static_cast<int32_t>(i));
  std::stable_sort(warm_order_.begin(), warm_order_.end(),
                   [&](int32_t a, int32_t b) { return rates[static_cast<size_t>(a)] > rates[static_cast<size_t>(b)]; });
}

// A class keeps its floor of empty slots for those who ask while it warms.
void Residency::warm() {
  const int32_t experts = catalog_->experts_per_layer();
  while (warm_next_ < warm_order_.size() && warming_bytes_ < kWarmingBytesMax && unowned_.size() < kWarmingExpertsMax) {
    int32_t layer = warm_order_[warm_next_] / experts, expert = warm_order_[warm_next_] % experts;
    warm_next_++;
    int32_t size_class = catalog_->layer(layer).size_class;
    if (size_class < 0 || is_resident(layer, expert) || refusal(layer, expert) != nullptr) continue;
    if (pool_.empty_slots(size_class) <= pool_.shape().slots_floor(static_cast<size_t>(size_class))) continue;
    (void)start_quietly(layer, expert, ExpertUse::kWarm);
    warming_bytes_ += catalog_->layer(layer).slot_bytes;
    counts_.warm_reads++;
    counts_.warm_bytes += catalog_->layer(layer).expert_bytes;
  }
}

// Takes back what the drive has not begun: a warm read that it has begun holds a demand up already.
void Residency::stop_warming() {
  if (warming_bytes_ == 0) return;
  warming_bytes_ = 0;
  taking_back_.clear();
  for (int32_t index : unowned_) {
    ExpertSlot& slot = slots_[static_cast<size_t>(index)];
    if (pool_.loading(index) && pool_.pins(index) == 0 && slot.reads[0].priority == ReadPriority::kWarm)
      add_unfinished(slot);
  }
  if (!taking_back_.empty()) reader_->cancel(taking_back_);
}

bool Residency::maintain(bool idle) {
  if (!unowned_.empty()) collect();
  if (!bad_.empty()) probe_bad();
  if (idle && warm_next_ < warm_order_.size()) warm();
  return !unowned_.empty();
}

}  // namespace llmd
