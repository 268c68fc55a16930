// A reader that had nothing to look at for centuries asked its backend to sleep until then: the time of day plus that
// sleep overflowed int64 (UndefinedBehaviorSanitizer saw it), and a wait that had overflowed returned at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "../io/temp_file.h"
#include "io/pread_backend.h"
#include "io/reader.h"

namespace llmd {
namespace {

class SleepRecorder final : public Backend {
 public:
  explicit SleepRecorder(int64_t& longest_ns) : longest_ns_(longest_ns) {}
  void start(const BackendRead& read) override { inner_.start(read); }
  size_t wait(std::span<BackendResult> results, int64_t timeout_ns) override {
    longest_ns_ = std::max(longest_ns_, timeout_ns);
    return inner_.wait(results, timeout_ns);
  }
  void wake() override { inner_.wake(); }
  void close() override { inner_.close(); }
  const std::string& name() const override { return inner_.name(); }
  const std::string& reason() const override { return inner_.reason(); }

 private:
  PreadBackend inner_;
  int64_t& longest_ns_;
};

TEST(LongSleep, IsCutToAnHour) {
  int64_t longest_ns = 0;
  {
    ReaderOptions options;
    options.late_after_ns = UINT64_MAX / 2;
    auto reader = Reader::create_with_backend(options, std::make_unique<SleepRecorder>(longest_ns)).value();
    TempFile temp(8192);
    DirectFile file = DirectFile::open_buffered(temp.path()).value();
    OwnedRead read(file, 0, 8192);
    reader->submit({{read.get()}});
    wait_for(*read.get());
    EXPECT_EQ(read.state(), ReadState::kDone);
  }
  EXPECT_GT(longest_ns, 0);
  EXPECT_LE(longest_ns, 3'600'000'000'000);
}

}  // namespace
}  // namespace llmd
