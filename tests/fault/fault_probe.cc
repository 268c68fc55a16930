// fault_probe io_uring|threads FILE OFFSET:END...: reads the ranges at once and prints one line for each, in order:
// "done HASH" (FNV-1a of the bytes) or "failed CODE OFFSET". With no file there, "open CODE". Driven by fuse_faults.py.
//
// Exit code 0 whatever the reads did, 2 when the path cannot be had.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "io/reader.h"

namespace {

struct Range {
  llmd::Read read;
  uint64_t begin = 0;
  std::unique_ptr<std::byte, decltype(&std::free)> memory{nullptr, &std::free};
};

void prepare(Range* range, const llmd::DirectFile& file, const char* text) {
  char* rest = nullptr;
  range->begin = std::strtoull(text, &rest, 10);
  uint64_t end = std::strtoull(*rest == ':' ? rest + 1 : rest, nullptr, 10);
  uint64_t block = file.block_bytes();
  range->read.file = &file;
  range->read.offset = range->begin / block * block;
  range->read.length = (end + block - 1) / block * block - range->read.offset;
  range->read.needed_end = end;
  range->memory.reset(static_cast<std::byte*>(std::aligned_alloc(block, range->read.length + block)));
  range->read.buffer = range->memory.get();
}

uint64_t hash(const Range& range) {
  uint64_t value = 0xcbf29ce484222325u;
  for (uint64_t i = range.begin - range.read.offset; i < range.read.needed_end - range.read.offset; ++i) {
    value = (value ^ static_cast<uint64_t>(range.read.buffer[i])) * 0x100000001b3u;
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 1;
  llmd::ReaderOptions options;
  bool ring = std::strcmp(argv[1], "io_uring") == 0;
  options.path = ring ? llmd::ReaderOptions::Path::kUring : llmd::ReaderOptions::Path::kThreads;
  auto reader = llmd::Reader::create(options);
  if (!reader.ok()) {
    std::printf("%s\n", reader.error().to_string().c_str());
    return 2;
  }
  auto file = llmd::DirectFile::open(argv[2]);
  if (!file.ok()) {
    std::printf("open %s\n", file.error().code.c_str());
    return 0;
  }
  std::vector<Range> ranges(static_cast<size_t>(argc - 3));
  std::vector<llmd::Read*> reads;
  for (size_t i = 0; i < ranges.size(); ++i) {
    prepare(&ranges[i], *file, argv[3 + i]);
    reads.push_back(&ranges[i].read);
  }
  (*reader)->submit(reads);
  for (const Range& range : ranges) {
    llmd::wait_for(range.read);
    if (range.read.state == llmd::ReadState::kDone) {
      std::printf("done %016" PRIx64 "\n", hash(range));
    } else {
      llmd::Error error = llmd::read_error(range.read);
      std::printf("failed %s %" PRIu64 "\n", error.code.c_str(), error.offset.value_or(0));
    }
  }
  return 0;
}
