// The expert pool was destroyed when its reads' states said they were over, a moment before the reader had counted them
// on the pool's gate: a write to freed memory, which the sanitizers see here.
#include <gtest/gtest.h>

#include <vector>

#include "io/arena.h"
#include "model/architecture.h"
#include "model/residency.h"

namespace llmd {
namespace {

TEST(PoolTeardown, WaitsUntilTheReaderHasLetGo_OfItsGate) {
  auto model = GgufModel::open(std::string(LLMD_SOURCE_DIR) + "/demo/llmd-demo.gguf");
  ASSERT_TRUE(model.ok());
  std::vector<std::string> notes;
  auto architecture = Architecture::create(*model, notes);
  ASSERT_TRUE(architecture.ok());
  auto catalog = ExpertCatalog::create(*model, (*architecture)->shape());
  ASSERT_TRUE(catalog.ok());
  std::vector<DirectFile> files;
  auto file = DirectFile::open(model->shards()[0].path);
  ASSERT_TRUE(file.ok());
  files.push_back(std::move(file).value());
  auto reader = Reader::create({});
  ASSERT_TRUE(reader.ok());
  PoolLayout split = lay_out_pool(catalog->pool_shape(), pool_floor_bytes(catalog->pool_shape()));
  auto arena = Arena::reserve(split.bytes);
  ASSERT_TRUE(arena.ok());
  std::span<std::byte> memory = arena->take(split.bytes);
  for (int round = 0; round < 300; round++) {
    auto pool = std::make_unique<Residency>(*catalog, files, **reader, split, memory);
    std::vector<ExpertSlot*> slots;
    for (int32_t expert = 0; expert < 4; expert++)
      slots.push_back(pool->acquire(1 + round % 5, (expert + round) % 32, ExpertUse::kDecode));
    pool->start_reads(ExpertUse::kDecode);
    if (round % 2 == 0) continue;  // destroyed with reads in flight
    for (ExpertSlot* slot : slots) {
      while (!pool->ready(*slot)) {
      }
      ASSERT_TRUE(pool->settle(*slot).ok());
      pool->release(slot);
    }
  }
}

}  // namespace
}  // namespace llmd
