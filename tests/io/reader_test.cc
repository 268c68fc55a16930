// The reader over both real paths: what it returns, how it ends, and that it never returns wrong bytes.
#include "io/reader.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <random>
#include <thread>

#include "temp_file.h"

namespace llmd {
namespace {

class ReaderPaths : public testing::TestWithParam<ReaderOptions::Path> {
 protected:
  std::unique_ptr<Reader> create(ReaderOptions options = {}) {
    options.path = GetParam();
    auto reader = Reader::create(options);
    return reader.ok() ? std::move(reader).value() : nullptr;
  }
  void SetUp() override {
    if (create() == nullptr) GTEST_SKIP() << "SKIPPED: this kernel or container has no io_uring";
  }
};

TEST_P(ReaderPaths, ReturnsTheBytesOfTheFile_WhateverOffsetLengthAndAlignment) {
  TempFile temp((8 << 20) + 1234);
  for (bool direct : {true, false}) {
    DirectFile file = (direct ? DirectFile::open(temp.path()) : DirectFile::open_buffered(temp.path())).value();
    for (uint32_t chunk : {4096u, 65536u, 1u << 20}) {
      ReaderOptions options;
      options.chunk_bytes = chunk;
      options.bytes_in_flight_max = 2 << 20;
      auto reader = create(options);
      std::mt19937_64 random(chunk);
      std::vector<std::unique_ptr<OwnedRead>> reads;
      std::vector<Read*> pointers;
      for (int i = 0; i < 150; ++i) {
        uint64_t begin = random() % temp.content().size();
        uint64_t bytes = 1 + random() % (i % 10 == 0 ? 2'000'000 : 30'000);
        uint64_t end = std::min<uint64_t>(begin + bytes, temp.content().size());
        reads.push_back(std::make_unique<OwnedRead>(file, begin, end, static_cast<uint32_t>(random() % 8)));
        pointers.push_back(reads.back()->get());
        pointers.back()->priority = static_cast<ReadPriority>(random() % 4);
      }
      reader->submit(pointers);
      for (auto& read : reads) {
        wait_for(*read->get());
        ASSERT_EQ(read->state(), ReadState::kDone) << read_error(*read->get()).to_string();
        ASSERT_TRUE(read->matches(temp)) << "offset " << (*read)->offset << " length " << (*read)->length;
      }
      EXPECT_EQ(reader->statistics().reads, 150u);
      EXPECT_EQ(reader->statistics().errors, 0u);
      EXPECT_EQ(reader->statistics().in_flight_bytes, 0u);
    }
  }
}

TEST_P(ReaderPaths, LeavesMemoryAroundTheReadAlone) {
  TempFile temp(1 << 20);
  DirectFile file = DirectFile::open(temp.path()).value();
  uint64_t block = file.block_bytes();
  auto reader = create();
  OwnedRead read(file, 3 * block + 5, 9 * block, 1);
  reader->submit({{read.get()}});
  wait_for(*read.get());
  ASSERT_EQ(read.state(), ReadState::kDone);
  EXPECT_TRUE(read.matches(temp));
  for (uint64_t i = 1; i <= block; ++i) {
    ASSERT_EQ(read->buffer[-static_cast<std::ptrdiff_t>(i)], std::byte{0x5A});
    ASSERT_EQ(read->buffer[read->length + i - 1], std::byte{0x5A});
  }
}

TEST_P(ReaderPaths, IsDone_WhenTheNeededBytesEndWithTheFile) {
  for (size_t bytes : {1u, 511u, 4096u, 4097u, 1'000'001u}) {
    TempFile temp(bytes);
    DirectFile file = DirectFile::open(temp.path()).value();
    auto reader = create();
    OwnedRead read(file, bytes / 2, bytes);
    reader->submit({{read.get()}});
    wait_for(*read.get());
    ASSERT_EQ(read.state(), ReadState::kDone) << bytes;
    EXPECT_TRUE(read.matches(temp)) << bytes;
  }
}

TEST_P(ReaderPaths, IsDoneAtOnce_WhenNothingIsNeeded) {
  TempFile temp(10'000);
  DirectFile file = DirectFile::open(temp.path()).value();
  auto reader = create();
  OwnedRead read(file, 0, 8192);
  read->needed_end = 0;
  reader->submit({{read.get()}});
  wait_for(*read.get());
  EXPECT_EQ(read.state(), ReadState::kDone);
  EXPECT_EQ(reader->statistics().chunks, 0u);
}

TEST_P(ReaderPaths, NamesTheEnd_WhenTheFileIsTruncatedWhileRunning) {
  for (uint64_t size : {2'000'000u, 1'998'848u, 0u}) {  // inside a block, at a block, empty
    TempFile temp(4 << 20);
    DirectFile file = DirectFile::open(temp.path()).value();
    auto reader = create();
    ASSERT_EQ(truncate(temp.path().c_str(), static_cast<off_t>(size)), 0);
    OwnedRead read(file, 0, 4 << 20), before(file, 0, 1 << 20), behind(file, 3 << 20, 4 << 20);
    reader->submit({{read.get(), before.get(), behind.get()}});
    for (Read* each : {read.get(), before.get(), behind.get()}) wait_for(*each);
    ASSERT_EQ(read.state(), ReadState::kFailed);
    EXPECT_EQ(read->error_number, 0);
    EXPECT_EQ(read->error_offset, size);
    Error error = read_error(*read.get());
    EXPECT_EQ(error.code, "model_truncated");
    EXPECT_EQ(error.file, temp.path());
    EXPECT_EQ(error.offset, size);
    EXPECT_EQ(behind.state(), ReadState::kFailed);
    EXPECT_EQ(before.state(), size == 0 ? ReadState::kFailed : ReadState::kDone);
  }
}

TEST_P(ReaderPaths, GoesOnReading_WhenTheFileIsDeletedOrReplaced) {
  TempFile temp(1 << 20);
  DirectFile file = DirectFile::open(temp.path()).value();
  auto reader = create();
  unlink(temp.path().c_str());
  OwnedRead read(file, 100, 1 << 20);
  reader->submit({{read.get()}});
  wait_for(*read.get());
  ASSERT_EQ(read.state(), ReadState::kDone);
  EXPECT_TRUE(read.matches(temp));
}

TEST_P(ReaderPaths, FinishesEveryReadOnce_WhenAThousandAreCancelled) {
  TempFile temp(4 << 20);
  DirectFile file = DirectFile::open(temp.path()).value();
  ReaderOptions options;
  options.bytes_in_flight_max = 256 << 10;
  options.chunk_bytes = 16 << 10;
  auto reader = create(options);
  ReadGate gate;
  std::vector<std::unique_ptr<OwnedRead>> reads;
  std::vector<Read*> pointers;
  for (uint64_t i = 0; i < 1000; ++i) {
    uint64_t begin = i * 4000 % (3 << 20);
    reads.push_back(std::make_unique<OwnedRead>(file, begin, begin + 60'000, 0, &gate));
    pointers.push_back(reads.back()->get());
  }
  reader->submit(pointers);
  reader->cancel(pointers);
  size_t cancelled = 0;
  for (auto& read : reads) {
    wait_for(*read->get());
    if (read->state() == ReadState::kDone) {
      ASSERT_TRUE(read->matches(temp));
    } else {
      ASSERT_EQ((*read)->error_number, ECANCELED);
      ++cancelled;
    }
  }
  for (uint32_t seen = 0; seen != 1000;) seen = wait_for_any(gate, seen);
  EXPECT_GT(cancelled, 900u);
  reader->cancel(pointers);  // all finished: nothing happens
  reads.clear();             // the memory is the test's again; a late write would be seen by a sanitizer
  reader.reset();
  EXPECT_EQ(gate.completed, 1000u);
}

TEST_P(ReaderPaths, FinishesEveryRead_WhenDestroyedWithReadsQueued) {
  TempFile temp(4 << 20);
  DirectFile file = DirectFile::open(temp.path()).value();
  for (int round = 0; round < 6; ++round) {
    ReaderOptions options;
    options.bytes_in_flight_max = 128 << 10;
    options.chunk_bytes = 32 << 10;
    auto reader = create(options);
    std::vector<std::unique_ptr<OwnedRead>> reads;
    std::vector<Read*> pointers;
    for (uint64_t i = 0; i < 50; ++i) {
      reads.push_back(std::make_unique<OwnedRead>(file, i * 70'000, i * 70'000 + 200'000));
      pointers.push_back(reads.back()->get());
    }
    reader->submit(pointers);
    reader.reset();
    for (auto& read : reads) {
      ASSERT_TRUE((*read)->finished());
      if (read->state() == ReadState::kDone) {
        ASSERT_TRUE(read->matches(temp));
      } else {
        ASSERT_EQ((*read)->error_number, ECANCELED);
      }
    }
  }
}

TEST_P(ReaderPaths, ServesManyThreads_WhenTheyReuseTheirReads) {
  TempFile temp(2 << 20);
  DirectFile file = DirectFile::open(temp.path()).value();
  auto reader = create();
  std::atomic<int> wrong{0};
  auto work = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    ReadGate gate;
    uint32_t seen = 0;
    for (int i = 0; i < 100; ++i) {
      uint64_t begin = random() % (1 << 20), middle = random() % (1 << 20);
      OwnedRead first(file, begin, begin + 1 + random() % 200'000, 0, &gate);
      OwnedRead second(file, middle, middle + 1 + random() % 5'000, 0, &gate);
      for (int again = 0; again < 2; ++again) {
        reader->submit({{first.get(), second.get()}});
        uint32_t target = seen + 2;
        while (seen != target) seen = wait_for_any(gate, seen);
        bool right = first.state() == ReadState::kDone && second.state() == ReadState::kDone && first.matches(temp) &&
                     second.matches(temp);
        if (!right) ++wrong;
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(ReaderPaths, LeavesNothingInThePageCache_WhenReadsAreBuffered) {
  TempFile temp(8 << 20);
  DirectFile file = DirectFile::open_buffered(temp.path()).value();
  posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
  auto reader = create();
  OwnedRead read(file, 0, 8 << 20);
  reader->submit({{read.get()}});
  wait_for(*read.get());
  ASSERT_EQ(read.state(), ReadState::kDone);
  EXPECT_TRUE(read.matches(temp));
  void* map = mmap(nullptr, 8 << 20, PROT_READ, MAP_SHARED, file.fd(), 0);
  ASSERT_NE(map, MAP_FAILED);
  std::vector<unsigned char> pages((8 << 20) / 4096);
  ASSERT_EQ(mincore(map, 8 << 20, pages.data()), 0);
  munmap(map, 8 << 20);
  EXPECT_LT(std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }), 64);
}

INSTANTIATE_TEST_SUITE_P(Paths, ReaderPaths,
                         testing::Values(ReaderOptions::Path::kUring, ReaderOptions::Path::kThreads),
                         [](const auto& parameter) {
                           return parameter.param == ReaderOptions::Path::kUring ? "io_uring" : "threads";
                         });

}  // namespace
}  // namespace llmd
