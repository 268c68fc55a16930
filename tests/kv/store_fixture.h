// A KV store in a directory of its own, with the pool and the tree that stand before it, that can be "restarted".
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "kv/kv_store.h"
#include "kv/prefix_tree.h"
#include "tests/kv/kv_world.h"

namespace llmd {

inline std::vector<int32_t> counting(int32_t count, int32_t from = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; i++) tokens[static_cast<size_t>(i)] = from + i;
  return tokens;
}

/// A sequence with what stands in it.
struct Conversation {
  Conversation(KvWorld& world, int32_t tokens_max) : sequence(*world.pool, tokens_max) {}
  KvSequence sequence;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> forms;
};

class StoreTest : public testing::Test {
 protected:
  static constexpr uint64_t kLongNs = 60'000'000'000;

  ~StoreTest() override {
    store.reset();
    tree.reset();
    std::filesystem::remove_all(directory);
  }

  /// What was in memory is gone.
  void restart(uint32_t pages = 16) {
    store.reset();
    tree.reset();
    if (world != nullptr) past_worlds.push_back(std::move(world));
    world = std::make_unique<KvWorld>(pages, streams);
    tree = std::make_unique<PrefixTree>(*world->pool);
    options.directory = directory;
    options.log = [this](const std::string& line) { lines.push_back(line); };
    if (reader == nullptr) reader = Reader::create({}).value();
    auto opened = KvStore::open(options, *world->pool, *reader);
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    store = std::move(opened).value();
  }

  /// Begins with what is in memory, then in the store; computes the rest.
  std::unique_ptr<Conversation> run(const std::vector<int32_t>& tokens, uint8_t form = 0, uint64_t space = 0) {
    auto c = std::make_unique<Conversation>(*world, 8192);
    std::span<const int32_t> prompt = std::span(tokens).first(tokens.size() - 1);
    from_memory = reused = tree->match(space, prompt, c->sequence, c->forms);
    promised = store->match_length(space, prompt, c->forms);
    auto load = store->load(space, prompt, c->sequence, c->forms);
    EXPECT_TRUE(load.ok());
    if (load.ok() && load.value() != nullptr) {
      wait(*load.value());
      reused = store->finish(std::move(load).value(), c->sequence, c->forms);
      tree->insert(space, c->sequence, prompt.first(static_cast<size_t>(reused)), c->forms);
    }
    c->tokens.assign(prompt.begin(), prompt.begin() + reused);
    EXPECT_TRUE(world->holds(c->sequence, c->tokens, c->forms));
    c->tokens = tokens;
    c->forms.resize(tokens.size(), form);
    EXPECT_TRUE(c->sequence.extend(static_cast<int32_t>(tokens.size())).ok());
    world->compute(c->sequence, c->tokens, c->forms, static_cast<size_t>(reused));
    return c;
  }
  void wait(const KvLoad& load) {
    for (uint32_t seen = 0; !load.finished.load();) seen = wait_for_any(store->gate(), seen);
  }
  void remember(Conversation& c, uint64_t space = 0) {
    tree->insert(space, c.sequence, c.tokens, c.forms);
    store->put(space, c.sequence, c.tokens, c.forms);
  }
  /// Runs, remembers and makes durable.
  void keep(const std::vector<int32_t>& tokens, uint8_t form = 0, uint64_t space = 0) {
    remember(*run(tokens, form, space), space);
    EXPECT_TRUE(store->drain(kLongNs));
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }

  const std::string directory = testing::TempDir() + "llmd_kv_store_" + std::to_string(getpid());
  std::vector<KvStream> streams = {{0, "latent", 16}, {1, "latent", 24}};
  std::unique_ptr<Reader> reader;
  KvStoreOptions options;
  std::unique_ptr<KvWorld> world;
  std::vector<std::unique_ptr<KvWorld>> past_worlds;  // which conversations of before may still hold pages of
  std::unique_ptr<PrefixTree> tree;
  std::unique_ptr<KvStore> store;
  std::vector<std::string> lines;
  int32_t reused = 0, from_memory = 0, promised = 0;
};

}  // namespace llmd
