// Residency over a drive that the test controls: retries, bad experts, reads that never end, warming.
#include "model/residency.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "io/arena.h"
#include "model/architecture.h"
#include "tests/io/scripted_backend.h"
#include "tests/model/demo_runtime.h"

namespace llmd {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

class ResidencyTest : public testing::Test {
 protected:
  void SetUp() override {
    auto model = GgufModel::open(demo_path());
    ASSERT_TRUE(model.ok());
    model_.emplace(std::move(model).value());
    std::vector<std::string> notes;
    auto architecture = Architecture::create(*model_, notes);
    ASSERT_TRUE(architecture.ok());
    auto catalog = ExpertCatalog::create(*model_, (*architecture)->shape());
    ASSERT_TRUE(catalog.ok());
    catalog_ = std::move(catalog).value();
    auto file = DirectFile::open(demo_path());
    ASSERT_TRUE(file.ok());
    files_.push_back(std::move(file).value());
    auto backend = std::make_unique<ScriptedBackend>([this](const BackendRead& read) { return answer(read); });
    backend_ = backend.get();
    ReaderOptions options;
    options.clock = &clock_;
    options.bytes_in_flight_max = 128u << 10;  // two experts or so: the others can be taken back
    auto reader = Reader::create_with_backend(options, std::move(backend));
    ASSERT_TRUE(reader.ok());
    reader_ = std::move(reader).value();
    options_.clock = &clock_;
  }
  void TearDown() override {
    backend_->release();
    residency_.reset();
  }

  // A pool of so many slots.
  void make_pool(uint32_t slots) {
    uint64_t bytes = slots * catalog_.pool_shape().classes[0].slot_bytes;
    PoolLayout layout = lay_out_pool(catalog_.pool_shape(), bytes);
    auto arena = Arena::reserve(layout.bytes);
    ASSERT_TRUE(arena.ok());
    arena_.emplace(std::move(arena).value());
    residency_ = std::make_unique<Residency>(catalog_, files_, *reader_, layout, arena_->take(layout.bytes), options_);
  }
  int32_t answer(const BackendRead& read) {
    reads_++;
    if (failures_ > 0 || broken_) {
      if (failures_ > 0) failures_--;
      return -ENODEV;  // an error that the reader itself does not try again
    }
    return static_cast<int32_t>(pread(read.fd, read.buffer, read.length, static_cast<off_t>(read.offset)));
  }
  ExpertSlot* begin(int32_t layer, int32_t expert) {
    residency_->begin_layer(layer, ExpertUse::kDecode);
    ExpertSlot* slot = residency_->acquire(layer, expert, ExpertUse::kDecode);
    residency_->start_reads(ExpertUse::kDecode);
    return slot;
  }
  void wait_until_ready(ExpertSlot& slot) {
    for (uint32_t seen = residency_->completions(); !residency_->ready(slot);) seen = residency_->wait(seen);
  }
  Status load(int32_t layer, int32_t expert) {
    ExpertSlot* slot = begin(layer, expert);
    wait_until_ready(*slot);
    Status status = residency_->settle(*slot);
    residency_->release(slot);
    return status;
  }
  std::optional<GgufModel> model_;
  ExpertCatalog catalog_;
  std::vector<DirectFile> files_;
  std::optional<Arena> arena_;
  ManualClock clock_{kSecond};
  ScriptedBackend* backend_ = nullptr;
  std::unique_ptr<Reader> reader_;
  ResidencyOptions options_;
  std::unique_ptr<Residency> residency_;
  std::atomic<int> failures_{0}, reads_{0};
  std::atomic<bool> broken_{false};
};

TEST_F(ResidencyTest, TriesAFailedExpertOnceMore) {
  make_pool(16);
  failures_ = 1;
  EXPECT_TRUE(load(1, 3).ok());
  EXPECT_TRUE(residency_->is_resident(1, 3));
  EXPECT_EQ(residency_->statistics().read_retries, 1u);
  EXPECT_EQ(residency_->statistics().read_errors, 0u);
  EXPECT_TRUE(residency_->bad().empty());
}

TEST_F(ResidencyTest, RefusesABadExpertWithoutReading_ThenFindsOutThatItHealed) {
  make_pool(16);
  broken_ = true;
  Status failed = load(1, 3);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().file, demo_path());
  EXPECT_TRUE(failed.error().offset.has_value());
  EXPECT_FALSE(residency_->is_resident(1, 3));
  ASSERT_EQ(residency_->bad().size(), 1u);
  const Error* refusal = residency_->refusal(1, 3);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->code, failed.error().code);
  EXPECT_EQ(residency_->refusal(1, 4), nullptr);
  int reads = reads_;
  EXPECT_FALSE(residency_->maintain(true));
  EXPECT_EQ(reads_, reads);

  // Its time is over and the drive is still broken: one try, and it is bad for as long again.
  clock_.advance_ns(options_.bad_expert_ns);
  EXPECT_EQ(residency_->refusal(1, 3), nullptr);
  while (residency_->maintain(true)) {
  }
  EXPECT_GT(reads_, reads);
  EXPECT_NE(residency_->refusal(1, 3), nullptr);

  broken_ = false;
  clock_.advance_ns(options_.bad_expert_ns);
  while (residency_->maintain(true)) {
  }
  EXPECT_TRUE(residency_->bad().empty());
  EXPECT_EQ(residency_->refusal(1, 3), nullptr);
  EXPECT_TRUE(load(1, 3).ok());
}

TEST_F(ResidencyTest, GivesUpARequestAndNotTheSlot_WhenTheDriveDoesNotAnswer) {
  options_.read_timeout_ns = 5 * kSecond;
  make_pool(8);
  backend_->hold();
  ExpertSlot* slot = begin(1, 3);
  EXPECT_FALSE(residency_->ready(*slot));
  EXPECT_FALSE(residency_->overdue(*slot).has_value());
  clock_.advance_ns(6 * kSecond);
  std::optional<Error> error = residency_->overdue(*slot);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, "model_read_timeout");
  EXPECT_EQ(error->file, demo_path());
  EXPECT_NE(residency_->refusal(1, 3), nullptr);
  residency_->release(slot);
  // The buffer is the drive's: every other slot can be had, not this one.
  std::vector<ExpertSlot*> others;
  while (ExpertSlot* other = residency_->acquire(2, static_cast<int32_t>(others.size()), ExpertUse::kDecode)) {
    EXPECT_NE(other, slot);
    others.push_back(other);
  }
  EXPECT_EQ(others.size(), 7u);
  residency_->start_reads(ExpertUse::kDecode);
  backend_->release();
  for (ExpertSlot* other : others) {
    wait_until_ready(*other);
    EXPECT_TRUE(residency_->settle(*other).ok());
    residency_->release(other);
  }
  while (residency_->maintain(true)) {
  }
  EXPECT_TRUE(residency_->is_resident(1, 3));  // it came after all
  EXPECT_TRUE(residency_->bad().empty());
  EXPECT_TRUE(load(1, 3).ok());
  EXPECT_EQ(residency_->statistics().hits, 1u);
}

// Rates that fall with the expert's id, the same in every layer.
std::vector<float> falling_rates(const PoolShape& shape) {
  std::vector<float> rates;
  for (const PoolShape::Layer& layer : shape.layers)
    for (int32_t e = 0; e < shape.experts; e++)
      rates.push_back(layer.size_class < 0 ? 0 : 1.0f / static_cast<float>(1 + e));
  return rates;
}

TEST_F(ResidencyTest, WarmsWithTheHottest_AndKeepsTheFloorEmpty) {
  make_pool(40);
  residency_->set_heat(falling_rates(catalog_.pool_shape()));
  while (residency_->maintain(true)) {
  }
  uint32_t floor = catalog_.pool_shape().slots_floor(0);
  EXPECT_EQ(residency_->pool().empty_slots(0), floor);
  EXPECT_EQ(residency_->statistics().warm_reads, 40 - floor);
  EXPECT_EQ(residency_->statistics().misses, 0u);
  for (int32_t expert = 0; expert < 6; expert++) EXPECT_TRUE(residency_->is_resident(3, expert)) << expert;
  EXPECT_FALSE(residency_->is_resident(3, 20));
}

TEST_F(ResidencyTest, DisplacesNothing_WhenItWarmsLate) {
  make_pool(24);
  for (int32_t expert = 8; expert < 32; expert++) ASSERT_TRUE(load(2, expert).ok());
  residency_->set_heat(falling_rates(catalog_.pool_shape()));
  while (residency_->maintain(true)) {
  }
  EXPECT_EQ(residency_->statistics().evictions, 0u);
  EXPECT_EQ(residency_->statistics().warm_reads, 0u);
}

TEST_F(ResidencyTest, TakesWarmReadsBack_WhenALayerRuns_AndReadsThemLater) {
  make_pool(40);
  backend_->hold();
  residency_->set_heat(falling_rates(catalog_.pool_shape()));
  EXPECT_TRUE(residency_->maintain(true));
  backend_->wait_until_started(1);
  ExpertSlot* slot = begin(4, 30);
  backend_->release();
  wait_until_ready(*slot);
  EXPECT_TRUE(residency_->settle(*slot).ok());
  residency_->release(slot);
  while (residency_->maintain(false)) {
  }
  uint32_t empty = residency_->pool().empty_slots(0), floor = catalog_.pool_shape().slots_floor(0);
  EXPECT_GE(empty, floor);
  while (residency_->maintain(true)) {
  }
  EXPECT_EQ(residency_->pool().empty_slots(0), floor);
  EXPECT_EQ(residency_->statistics().read_errors, 0u);
  EXPECT_TRUE(residency_->bad().empty());
}

TEST_F(ResidencyTest, PutsAWarmReadInFront_WhenItIsDemanded) {
  make_pool(40);
  backend_->hold();
  residency_->set_heat(falling_rates(catalog_.pool_shape()));
  EXPECT_TRUE(residency_->maintain(true));
  // The last of those that warm: its reads are far back in the queue, or held.
  int32_t expert = 5;
  ASSERT_TRUE(residency_->is_resident(5, expert));
  ExpertSlot* slot = begin(5, expert);
  for (int32_t i = 0; i < slot->reads_count; i++) {
    if (slot->reads[i].progress.started) continue;
    EXPECT_EQ(slot->reads[i].priority, ReadPriority::kDemand);
  }
  backend_->release();
  wait_until_ready(*slot);
  EXPECT_TRUE(residency_->settle(*slot).ok());
  residency_->release(slot);
  while (residency_->maintain(true)) {
  }
  EXPECT_EQ(residency_->statistics().read_errors, 0u);
}

// Those loaded on a guess and not used yet, found by looking.
uint64_t guesses_held(const Residency& residency) {
  uint64_t held = 0;
  for (size_t slot = 0; slot < residency.pool().slot_numbers(); slot++)
    held += residency.pool().guessed(static_cast<int32_t>(slot));
  return held;
}

void expect_guesses(const Residency& residency, uint64_t useful, uint64_t wasted, uint64_t late, uint64_t held) {
  ResidencyStatistics s = residency.statistics();
  EXPECT_EQ(s.guesses_useful, useful);
  EXPECT_EQ(s.guesses_wasted, wasted);
  EXPECT_EQ(s.guesses_late, late);
  EXPECT_EQ(guesses_held(residency), held);
  EXPECT_EQ(s.guesses, useful + wasted + late + held);
}

TEST_F(ResidencyTest, ReadsAGuessOnce_WhenItIsWantedWhileInFlight) {
  make_pool(16);
  ASSERT_TRUE(load(1, 3).ok());
  size_t before = backend_->started().size();
  backend_->hold();
  residency_->prefetch(2, std::vector<int32_t>{7});
  backend_->wait_until_started(before + 1);
  ExpertSlot* slot = begin(2, 7);
  ASSERT_NE(slot, nullptr);
  EXPECT_FALSE(residency_->ready(*slot));
  for (int32_t i = 0; i < slot->reads_count; i++) EXPECT_EQ(slot->reads[i].priority, ReadPriority::kDemand);
  backend_->release();
  wait_until_ready(*slot);
  EXPECT_TRUE(residency_->settle(*slot).ok());
  uint64_t asked = 0, started = 0;
  for (int32_t i = 0; i < slot->reads_count; i++) asked += slot->reads[i].progress.end - slot->reads[i].offset;
  residency_->release(slot);
  std::vector<BackendRead> reads = backend_->started();
  for (size_t i = before; i < reads.size(); i++) started += reads[i].length;
  EXPECT_EQ(started, asked);
  EXPECT_EQ(residency_->statistics().misses, 1u);
  expect_guesses(*residency_, 1, 0, 0, 0);
  EXPECT_EQ(residency_->statistics().prefetch_bytes, catalog_.layer(2).expert_bytes);
}

TEST_F(ResidencyTest, DropsAGuess_WhenItsLayerBeginsBeforeTheDriveDoes) {
  make_pool(16);
  backend_->hold();
  ExpertSlot* first = begin(1, 3);
  backend_->wait_until_started(1);
  residency_->prefetch(2, std::vector<int32_t>{7, 8});
  EXPECT_TRUE(residency_->is_resident(2, 7));  // it has a slot
  backend_->go_round();
  size_t started = backend_->started().size();
  ExpertSlot* wanted = begin(2, 8);
  EXPECT_FALSE(residency_->is_resident(2, 7));
  expect_guesses(*residency_, 0, 0, 2, 0);
  EXPECT_EQ(residency_->statistics().prefetch_bytes, 0u);
  EXPECT_EQ(residency_->statistics().misses, 2u);
  backend_->release();
  for (ExpertSlot* slot : {first, wanted}) {
    wait_until_ready(*slot);
    EXPECT_TRUE(residency_->settle(*slot).ok());
    residency_->release(slot);
  }
  EXPECT_GT(backend_->started().size(), started);
  for (const BackendRead& read : backend_->started())
    for (int32_t t = 0; t < catalog_.layer(2).tensors_count; t++) {
      const ExpertTensor& tensor = catalog_.layer(2).tensors[t];
      EXPECT_FALSE(read.offset > tensor.file_offset + 7 * tensor.expert_bytes &&
                   read.offset + read.length < tensor.file_offset + 8 * tensor.expert_bytes);
    }
}

TEST_F(ResidencyTest, KeepsAGuessThatNobodyWanted_UntilItsSlotIsTaken) {
  make_pool(8);
  ASSERT_TRUE(load(1, 3).ok());
  backend_->hold();
  residency_->prefetch(2, std::vector<int32_t>{7});
  backend_->wait_until_started(static_cast<size_t>(reads_) + 1);
  backend_->release();
  ASSERT_TRUE(load(2, 9).ok());  // the layer that it was read for
  while (residency_->maintain(false)) {
  }
  EXPECT_TRUE(residency_->is_resident(2, 7));
  expect_guesses(*residency_, 0, 0, 0, 1);
  for (int32_t expert = 10; expert < 18; expert++) ASSERT_TRUE(load(2, expert).ok());
  EXPECT_FALSE(residency_->is_resident(2, 7));
  expect_guesses(*residency_, 0, 1, 0, 0);
  EXPECT_EQ(residency_->statistics().decode_misses, 10u);
}

TEST_F(ResidencyTest, AddsUpItsGuesses_AfterManySteps) {
  DemoOptions options;
  options.prefetch = true;
  Result<DemoModel> planned = open_demo(options);
  ASSERT_TRUE(planned.ok());
  uint64_t floor = planned->runtime->plan().floor_bytes, full = planned->runtime->plan().full_bytes;
  options.memory_bytes = floor + (full - floor) / 4;
  DemoModel model = load_demo(options);
  Generator generator(*model.runtime, 256);
  for (int32_t token : some_tokens(200, 12))
    ASSERT_TRUE(generator.decode(token, [](int32_t, std::span<const float>) {}).ok());
  const Residency& residency = *model.runtime->residency();
  ResidencyStatistics s = residency.statistics();
  EXPECT_GT(s.guesses_useful, 0u);
  EXPECT_EQ(s.guesses, s.guesses_useful + s.guesses_wasted + s.guesses_late + guesses_held(residency));
  const GuessCounts& counts = model.runtime->moe()->guesses();
  EXPECT_LE(counts.missing_right, counts.missing);
  EXPECT_LE(counts.right, counts.routed);
  EXPECT_LE(s.guesses_useful, counts.missing_right);
  EXPECT_GT(counts.right * 3, counts.routed);  // far better than chance, which is 4 of 32
}

}  // namespace
}  // namespace llmd
