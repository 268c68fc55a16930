// The KV store when all goes well: what was put comes back after a restart, and the limits hold.
#include "kv/kv_store.h"

#include <sys/stat.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/kv/store_fixture.h"

namespace llmd {
namespace {

using Store = StoreTest;

TEST_F(Store, BringsRowsAndFormsBack_AfterARestart) {
  restart();
  keep(counting(700), 1);
  EXPECT_EQ(store->statistics().records, 3u);
  EXPECT_EQ(store->statistics().pages_written, 3u);
  restart();
  auto c = run(counting(900), 0);
  EXPECT_EQ(from_memory, 0);
  EXPECT_EQ(promised, 700);
  EXPECT_EQ(reused, 700);
  EXPECT_EQ(c->forms[699], 1);
  EXPECT_EQ(c->forms[700], 0);
  EXPECT_EQ(store->statistics().pages_loaded, 3u);
  run(counting(900));
  EXPECT_EQ(from_memory, 700);
  EXPECT_EQ(store->statistics().pages_loaded, 3u);
}

TEST_F(Store, HoldsPagesOfAnySize) {
  for (const std::vector<KvStream>& shape :
       {std::vector<KvStream>{{0, "k", 1}},
        {{0, "latent", 612}, {1, "latent", 612}, {2, "latent", 612}},
        {{0, "latent", 1152}, {1, "latent", 1152}, {2, "latent", 1152}, {3, "latent", 1152}, {4, "latent", 1152}}}) {
    streams = shape;
    options.identity = std::to_string(shape[0].bytes_per_token);
    restart();
    keep(counting(515), 1);
    restart();
    run(counting(600));
    EXPECT_EQ(reused, 515);
  }
}

TEST_F(Store, AddsToWhatIsInMemory_EvenInsideAPage) {
  restart();
  keep(counting(800));
  restart();
  auto first = run(counting(301));  // takes 300 of what is stored, computes one
  remember(*first);
  EXPECT_EQ(reused, 300);
  auto c = run(counting(1000));
  EXPECT_EQ(from_memory, 301);
  EXPECT_EQ(reused, 800);
}

TEST_F(Store, FindsTheLongestPrefix_WhenPagesBeginAlike) {
  restart();
  std::vector<int32_t> other = counting(500);
  other[100] = other[400] = -1;
  keep(counting(500));
  keep(other);
  other[400] = -2;
  restart();
  run(other);
  EXPECT_EQ(reused, 400);
}

TEST_F(Store, KeepsSpacesAndModelsApart) {
  restart();
  keep(counting(300), 0, 7);
  restart();
  run(counting(300), 0, 8);
  EXPECT_EQ(reused, 0);
  options.identity = "another";
  restart();
  run(counting(300), 0, 7);
  EXPECT_EQ(reused, 0);
  EXPECT_EQ(store->statistics().records, 2u);  // they count, and stay
  options.identity = "";
  restart();
  run(counting(301), 0, 7);
  EXPECT_EQ(reused, 300);
}

TEST_F(Store, NeverJoinsPagesOfAnotherHistory) {
  restart();
  keep(counting(300), 0);
  // The same tokens in other forms, as when the prompt was not taken from the tree.
  auto c = std::make_unique<Conversation>(*world, 4096);
  c->tokens = counting(700);
  c->forms.assign(700, 1);
  ASSERT_TRUE(c->sequence.extend(700).ok());
  world->compute(c->sequence, c->tokens, c->forms, 0);
  store->put(0, c->sequence, c->tokens, c->forms);
  ASSERT_TRUE(store->drain(kLongNs));
  c.reset();
  restart();
  auto again = run(counting(800), 2);  // run() compares the rows
  EXPECT_EQ(reused, 700);
  EXPECT_EQ(again->forms[0], 1);
}

TEST_F(Store, ReplacesAPartialPage_WhenItHasGrown) {
  restart();
  keep(counting(100));
  auto c = run(counting(200));
  remember(*c);
  ASSERT_TRUE(store->drain(kLongNs));
  EXPECT_EQ(store->statistics().records, 1u);
  restart();
  EXPECT_EQ(files().size(), 1u);
  run(counting(300));
  EXPECT_EQ(reused, 200);
}

TEST_F(Store, WritesNothingTwice) {
  restart();
  keep(counting(600));
  keep(counting(600));
  EXPECT_EQ(store->statistics().pages_written, 3u);
}

TEST_F(Store, StaysBelowItsSize_AndGivesUpWhatWasUsedLongestAgo) {
  restart(64);
  uint64_t page = kRecordBlock + world->layout.page_bytes();
  options.bytes_max = 6 * page;
  restart(64);
  keep(counting(512));
  keep(counting(512, 1000));
  run(counting(512));
  keep(counting(512));  // used again
  keep(counting(1024, 2000));
  EXPECT_LE(store->statistics().bytes, 6 * page);
  EXPECT_EQ(store->statistics().evicted, 2u);
  restart(64);
  EXPECT_EQ(files().size(), 6u);
  run(counting(513));
  EXPECT_EQ(reused, 512);
  run(counting(513, 1000));
  EXPECT_EQ(reused, 0);
  options.bytes_max = 3 * page;
  restart(64);
  EXPECT_LE(files().size(), 3u);
}

TEST_F(Store, KeepsABoundedNumberOfRecords) {
  options.records_max = 4;
  restart(64);
  keep(counting(1024));
  keep(counting(1024, 5000));
  EXPECT_EQ(store->statistics().records, 4u);
  options.records_max = 2;
  restart(64);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(Store, IsOneProcesses_AndNobodyElseReadsIt) {
  restart();
  KvWorld other(4);
  auto second = KvStore::open(options, *other.pool, *reader);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, "kv_store_busy");
  keep(counting(10));
  struct stat status {};
  ASSERT_EQ(stat(directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(files()[0].c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(Store, SaysSo_WhenThereIsNoMemoryForALoad) {
  restart();
  keep(counting(1024));
  restart(4);
  KvSequence hog(*world->pool, 1024);
  ASSERT_TRUE(hog.extend(257).ok());
  Conversation c(*world, 4096);
  auto load = store->load(0, counting(1024), c.sequence, c.forms);
  ASSERT_FALSE(load.ok());
  EXPECT_EQ(load.error().code, "kv_exhausted");
  EXPECT_EQ(c.sequence.length(), 0);
  hog.truncate(0);
  run(counting(1025 - 1));
  EXPECT_EQ(reused, 1023);
}

TEST_F(Store, ReturnsThePages_WhenALoadIsAbandoned) {
  restart();
  keep(counting(1024));
  restart();
  for (int i = 0; i < 20; i++) {
    Conversation c(*world, 4096);
    auto load = store->load(0, counting(1024), c.sequence, c.forms);
    ASSERT_TRUE(load.ok() && load.value() != nullptr);
    if (i % 3 == 0) wait(*load.value());
    store->abandon(std::move(load).value());
  }
  while (world->pool->pages_free() < 16) {
    store->poll();
    std::this_thread::yield();
  }
  EXPECT_EQ(store->statistics().invalid, 0u);
}

/// Holds the writer up before its first step.
class HeldStore : public StoreTest {
 protected:
  HeldStore() {
    options.write_hook = [this](int step) {
      if (step != 0) return;
      begun = true;
      begun.notify_all();
      held.wait(true);
    };
  }
  ~HeldStore() override {
    release();
    store.reset();
  }
  void release() {
    held = false;
    held.notify_all();
  }
  std::atomic<bool> held{true}, begun{false};
};

TEST_F(HeldStore, GivesBackPagesThatWait_WhenMemoryIsShort) {
  restart(8);
  remember(*run(counting(1024)));
  remember(*run(counting(1024, 5000)));
  begun.wait(false);
  EXPECT_EQ(store->statistics().pending, 8u);
  EXPECT_EQ(world->pool->pages_free(), 0u);
  KvSequence hungry(*world->pool, 4096);
  ASSERT_TRUE(hungry.extend(7 * kKvPageTokens).ok());  // the page at hand stays
  EXPECT_FALSE(hungry.extend(8 * kKvPageTokens).ok());
  EXPECT_EQ(store->statistics().not_written, 7u);
  release();
  EXPECT_TRUE(store->drain(kLongNs));
  EXPECT_EQ(store->statistics().records, 1u);
  EXPECT_TRUE(hungry.extend(8 * kKvPageTokens).ok());
}

TEST_F(HeldStore, StoresWhatWasThere_WhenTheConversationGoesOn) {
  restart();
  auto c = run(counting(100), 1);
  remember(*c);
  ASSERT_TRUE(c->sequence.extend(140).ok());  // appends in the very page
  c->tokens = counting(140);
  c->forms.resize(140, 0);
  release();
  world->compute(c->sequence, c->tokens, c->forms, 100);
  ASSERT_TRUE(store->drain(kLongNs));
  c->sequence.truncate(20);
  ASSERT_TRUE(c->sequence.extend(21).ok());
  c.reset();
  restart();
  run(counting(300));
  EXPECT_EQ(reused, 100);
}

TEST_F(HeldStore, ForgetsWhatWaits_WhenItIsClosed) {
  restart();
  remember(*run(counting(1024)));
  release();
  store.reset();
  tree.reset();
  EXPECT_EQ(world->pool->pages_free(), 16u);
  restart();
  run(counting(1024));  // whatever was written by then
}

/// Many conversations over few texts, little memory, restarts: run() compares every row that is reused.
class StoreProperty : public StoreTest, public testing::WithParamInterface<uint32_t> {};

TEST_P(StoreProperty, NeverReturnsAWrongRow) {
  std::mt19937 random(GetParam());
  options.bytes_max = 24 * (kRecordBlock + KvLayout(streams).page_bytes());
  restart(12);
  for (int turn = 0; turn < 120; turn++) {
    std::vector<int32_t> tokens = counting(2 + static_cast<int32_t>(random() % 1000));
    for (auto changes = random() % 3; changes > 0; changes--)
      for (size_t i = random() % 1000; i < tokens.size(); i++) tokens[i] += 10000;
    uint64_t space = random() % 2;
    auto c = run(tokens, random() % 2, space);
    EXPECT_GE(reused, from_memory / kKvPageTokens * kKvPageTokens);
    if (random() % 5 != 0) remember(*c, space);
    c.reset();
    if (random() % 2 == 0) store->poll();
    if (random() % 10 == 0) restart(12);
    ASSERT_FALSE(HasFailure()) << "turn " << turn;
  }
  EXPECT_EQ(store->statistics().invalid, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreProperty, testing::Range(1u, 5u));

}  // namespace
}  // namespace llmd
