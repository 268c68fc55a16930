#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>

#include "tests/kv/store_fixture.h"

namespace llmd {
namespace {

class Tree : public testing::Test {
 protected:
  explicit Tree(uint32_t pages = 16) : world(pages), tree(*world.pool) {}

  /// Matches `tokens`, computes the rest.
  std::unique_ptr<Conversation> run(const std::vector<int32_t>& tokens, uint8_t form = 0, uint64_t space = 0) {
    auto c = std::make_unique<Conversation>(world, 4096);
    reused = tree.match(space, std::span(tokens).first(tokens.size() - 1), c->sequence, c->forms);
    c->tokens = tokens;
    c->forms.resize(tokens.size(), form);
    EXPECT_TRUE(c->sequence.extend(static_cast<int32_t>(tokens.size())).ok());
    world.compute(c->sequence, c->tokens, c->forms, static_cast<size_t>(reused));
    return c;
  }
  void remember(Conversation& c, uint64_t space = 0) { tree.insert(space, c.sequence, c.tokens, c.forms); }
  bool intact(Conversation& c) { return world.holds(c.sequence, c.tokens, c.forms); }

  KvWorld world;
  PrefixTree tree;
  int32_t reused = 0;
};

TEST_F(Tree, SharesPages_AndHandsBackTheirForms) {
  auto first = run(counting(600), 1);
  EXPECT_EQ(reused, 0);
  remember(*first);
  first.reset();
  EXPECT_EQ(world.pool->pages_free(), 13u);
  EXPECT_EQ(tree.pages_idle(), 3u);
  auto second = run(counting(900), 0);
  EXPECT_EQ(reused, 600);
  EXPECT_EQ(second->forms[599], 1);
  EXPECT_EQ(second->forms[600], 0);
  EXPECT_TRUE(intact(*second));
  EXPECT_EQ(world.pool->pages_free(), 11u);  // two full pages shared, one copied, one new
}

TEST_F(Tree, EndsInsideAPage_WhenTokensDiffer) {
  remember(*run(counting(512)));
  std::vector<int32_t> other = counting(512);
  other[300] = -1;
  auto second = run(other);
  EXPECT_EQ(reused, 300);
  remember(*second);
  auto first = run(counting(513)), again = run(other);
  EXPECT_EQ(reused, 511);
  EXPECT_TRUE(intact(*first) && intact(*second) && intact(*again));
}

TEST_F(Tree, KeepsOnePage_WhenAPartialOneGrows) {
  auto c = run(counting(10));
  remember(*c);
  for (int32_t length : {20, 21, 200}) {
    ASSERT_TRUE(c->sequence.extend(length).ok());
    c->tokens = counting(length);
    c->forms.resize(c->tokens.size(), 0);
    world.compute(c->sequence, c->tokens, c->forms, 10);
    remember(*c);
    EXPECT_EQ(tree.pages(), 1u);
  }
  c.reset();
  EXPECT_EQ(world.pool->pages_free(), 15u);
  EXPECT_EQ(tree.match_length(0, counting(1000)), 200);
}

TEST_F(Tree, TheTakerOfAPageAppendsInPlace_OthersCopy) {
  auto owner = run(counting(100));
  remember(*owner);
  auto guest = run(counting(101));
  EXPECT_EQ(reused, 100);
  std::byte* page = owner->sequence.row(0, 0);
  EXPECT_NE(guest->sequence.row(0, 0), page);
  ASSERT_TRUE(owner->sequence.extend(101).ok());
  EXPECT_EQ(owner->sequence.row(0, 0), page);
  owner->sequence.truncate(50);
  ASSERT_TRUE(owner->sequence.extend(51).ok());
  EXPECT_NE(owner->sequence.row(0, 0), page);
}

TEST_F(Tree, ReportsExhaustion_WhenACopyFindsNoPage) {
  remember(*run(counting(100)));
  auto c = std::make_unique<Conversation>(world, 4096);
  ASSERT_EQ(tree.match(0, counting(100), c->sequence, c->forms), 100);
  KvSequence hog(*world.pool, 16 * kKvPageTokens);
  ASSERT_TRUE(hog.extend(15 * kKvPageTokens).ok());
  Status status = c->sequence.extend(101);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "kv_exhausted");
  EXPECT_EQ(c->sequence.length(), 100);
  hog.truncate(0);
  EXPECT_TRUE(c->sequence.extend(101).ok());
}

TEST_F(Tree, KeepsSpacesApart) {
  remember(*run(counting(300), 0, 7), 7);
  run(counting(300), 0, 8);
  EXPECT_EQ(reused, 0);
  run(counting(300), 0, 7);
  EXPECT_EQ(reused, 299);
}

TEST_F(Tree, PrefersWhatWasUsedLast_WhenOnlyFormsDiffer) {
  auto a = std::make_unique<Conversation>(world, 4096), b = std::make_unique<Conversation>(world, 4096);
  for (auto* c : {a.get(), b.get()}) {
    c->tokens = counting(300);
    c->forms.assign(300, c == a.get() ? 0 : 1);
    ASSERT_TRUE(c->sequence.extend(300).ok());
    world.compute(c->sequence, c->tokens, c->forms, 0);
    remember(*c);
  }
  auto c = run(counting(301));
  EXPECT_EQ(reused, 300);
  EXPECT_EQ(c->forms[299], 1);
  EXPECT_TRUE(intact(*c));
}

TEST_F(Tree, GivesUpIdlePages_LeavesFirst_AndNoneInUse) {
  auto running = run(counting(512));
  remember(*running);
  remember(*run(counting(768, 5000)));  // idle, and used last
  remember(*run(counting(768, 9000)));
  EXPECT_EQ(tree.pages(), 8u);
  KvSequence hungry(*world.pool, 16 * kKvPageTokens);
  ASSERT_TRUE(hungry.extend(10 * kKvPageTokens).ok());  // 8 are free
  EXPECT_EQ(tree.match_length(0, counting(768, 5000)), 256);
  ASSERT_TRUE(hungry.extend(14 * kKvPageTokens).ok());
  EXPECT_EQ(tree.pages(), 2u);
  EXPECT_FALSE(hungry.extend(14 * kKvPageTokens + 1).ok());
  EXPECT_EQ(tree.match_length(0, counting(512)), 512);
  EXPECT_TRUE(intact(*running));
}

TEST_F(Tree, KeepsADearPageLonger) {
  auto deep = run(counting(12 * kKvPageTokens));
  remember(*deep);
  deep.reset();
  remember(*run(counting(kKvPageTokens, 50000)));
  // The deep one is older by one page, and dearer by 11/64 of a quarter of 16 pages: not enough.
  EXPECT_EQ(tree.reclaim(1), 1u);
  EXPECT_EQ(tree.match_length(0, counting(13 * kKvPageTokens)), 11 * kKvPageTokens);
  EXPECT_EQ(tree.reclaim(100), 12u);
  EXPECT_EQ(world.pool->pages_free(), 16u);
}

/// Random conversations over few distinct texts, beside a plain list of what was remembered.
class TreeProperty : public testing::TestWithParam<uint32_t> {
 protected:
  struct Known {
    uint64_t space;
    std::vector<int32_t> tokens;
  };

  std::vector<int32_t> text() {
    std::vector<int32_t> tokens = counting(1 + static_cast<int32_t>(random() % 1100));
    for (int changes = static_cast<int>(random() % 3); changes > 0; changes--)
      for (size_t i = random() % 1100; i < tokens.size(); i++) tokens[i] += 10000;
    return tokens;
  }
  size_t longest(uint64_t space, std::span<const int32_t> tokens) const {
    size_t best = 0;
    for (const Known& known : known_) {
      size_t both = std::min(known.tokens.size(), tokens.size());
      auto at = std::mismatch(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(both), known.tokens.begin());
      if (known.space == space) best = std::max(best, static_cast<size_t>(at.first - tokens.begin()));
    }
    return best;
  }

  void play(uint32_t pages, bool gives_up);

  std::mt19937 random{GetParam()};
  std::vector<Known> known_;
};

void TreeProperty::play(uint32_t pages, bool gives_up) {
  KvWorld world(pages);
  {
    PrefixTree tree(*world.pool);
    struct Running : Conversation {
      using Conversation::Conversation;
      uint64_t space = 0;
    };
    std::list<Running> running;
    auto grow = [&](Running& c, std::span<const int32_t> more) {
      size_t from = c.tokens.size();
      if (!c.sequence.extend(static_cast<int32_t>(from + more.size())).ok()) return;
      c.tokens.insert(c.tokens.end(), more.begin(), more.end());
      while (c.forms.size() < c.tokens.size()) c.forms.push_back(random() % 50 == 0);
      world.compute(c.sequence, c.tokens, c.forms, from);
    };
    auto remember = [&](Running& c) {
      tree.insert(c.space, c.sequence, c.tokens, c.forms);
      known_.push_back({c.space, c.tokens});
    };
    for (int turn = 0; turn < 400; turn++) {
      const auto what = random() % 6;
      if (what < 2 || running.empty()) {
        std::vector<int32_t> tokens = text();
        Running& c = running.emplace_back(world, 4096);
        c.space = random() % 2;
        auto matched = static_cast<size_t>(tree.match(c.space, tokens, c.sequence, c.forms));
        ASSERT_EQ(matched, c.forms.size());
        if (gives_up)
          ASSERT_LE(matched, longest(c.space, tokens));
        else
          ASSERT_EQ(matched, longest(c.space, tokens));
        c.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(matched));
        grow(c, std::span(tokens).subspan(matched));
      } else {
        auto at = std::next(running.begin(), static_cast<std::ptrdiff_t>(random() % running.size()));
        if (what == 2) {
          grow(*at, counting(1 + static_cast<int32_t>(random() % 60), static_cast<int32_t>(at->tokens.size())));
        } else if (what == 3) {
          remember(*at);
        } else if (what == 4) {
          size_t kept = random() % (at->tokens.size() + 1);
          at->sequence.truncate(static_cast<int32_t>(kept));
          at->tokens.resize(kept);
          at->forms.resize(kept);
          grow(*at, counting(5, 777));
        } else {
          if (random() % 4 != 0) remember(*at);
          running.erase(at);
        }
      }
      if (running.size() > 8) running.pop_front();
      for (Running& c : running) ASSERT_TRUE(world.holds(c.sequence, c.tokens, c.forms)) << "turn " << turn;
    }
    running.clear();
    EXPECT_EQ(tree.pages(), tree.pages_idle());
    EXPECT_EQ(tree.pages() + world.pool->pages_free(), pages);
  }
  EXPECT_EQ(world.pool->pages_free(), pages);
}

TEST_P(TreeProperty, FindsTheLongestKnownPrefix_WhenNothingWasGivenUp) {
  play(4000, false);
}

TEST_P(TreeProperty, NeverChangesARow_WhenPagesAreShort) {
  play(24, true);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TreeProperty, testing::Range(1u, 9u));

}  // namespace
}  // namespace llmd
