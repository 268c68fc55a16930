#include "daemon/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace llmd {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// An output whose clock stands still until told, and which keeps what was written.
struct Recorder {
  std::vector<std::string> written;
  std::chrono::steady_clock::time_point now{};

  ProgressOutput output(bool terminal, int columns = 120) {
    ProgressOutput out;
    out.terminal = terminal;
    out.columns = columns;
    out.write = [this](std::string_view text) { written.emplace_back(text); };
    out.now = [this] { return now; };
    return out;
  }
};

TEST(Progress, WritesALineEveryFiveSeconds_WhenThereIsNoTerminal) {
  Recorder recorder;
  {
    Progress progress("reading", 1000, Progress::Unit::kItems, recorder.output(false));
    for (uint64_t i = 1; i <= 100; ++i) {
      recorder.now += 100ms;
      progress.update(i * 10);
    }
  }
  EXPECT_THAT(recorder.written,
              ElementsAre("reading: 50 %, 500 of 1000, 100.0/s, 5 s left", "reading: 100 %, 1000 of 1000, 100.0/s",
                          "reading: 100 %, 1000 of 1000, 100.0/s"));
}

TEST(Progress, RedrawsOneLineAndEndsIt_WhenThereIsATerminal) {
  Recorder recorder;
  {
    Progress progress("x", 100, Progress::Unit::kItems, recorder.output(true));
    recorder.now += 50ms;
    progress.update(10);
    EXPECT_THAT(recorder.written, IsEmpty());
    recorder.now += 50ms;
    progress.update(50);
    progress.update(51);
  }
  ASSERT_THAT(recorder.written, SizeIs(3));
  EXPECT_EQ(recorder.written[0], "\r[############............] x: 50 %, 50 of 100, 500.0/s, 0 s left\x1b[K");
  EXPECT_THAT(recorder.written[1], HasSubstr("51 of 100"));
  EXPECT_EQ(recorder.written[2], "\n");
}

TEST(Progress, SaysNothing_WhenTheWorkIsShort) {
  Recorder recorder;
  {
    Progress progress("x", 100, Progress::Unit::kItems, recorder.output(true));
    progress.update(100);
  }
  EXPECT_THAT(recorder.written, IsEmpty());
}

TEST(Progress, StaysWithinTheTerminal) {
  for (const int columns : {0, 1, 20, 40}) {
    Recorder recorder;
    Progress progress("a long label", 100, Progress::Unit::kBytes, recorder.output(true, columns));
    recorder.now += 1s;
    progress.update(50);
    ASSERT_THAT(recorder.written, SizeIs(1));
    EXPECT_LE(recorder.written[0].size(), static_cast<size_t>(std::max(columns - 1, 1)) + 4);  // \r and \x1b[K
  }
}

TEST(Progress, NeverGoesBackwards_WhenThreadsReportOutOfOrder) {
  Recorder recorder;
  Progress progress("x", 100, Progress::Unit::kItems, recorder.output(false));
  progress.update(90);
  recorder.now += 10s;
  progress.update(20);
  ASSERT_THAT(recorder.written, SizeIs(1));
  EXPECT_THAT(recorder.written[0], HasSubstr("90 of 100"));
}

TEST(Progress, DescribesBytesInTheUnitOfTheTotal) {
  const uint64_t gib = 1ull << 30;
  EXPECT_EQ(Progress::describe("w", 12 * gib, 48 * gib, Progress::Unit::kBytes, 10),
            "w: 25 %, 12.0 of 48.0 GiB, 1.2 GiB/s, 30 s left");
  EXPECT_EQ(Progress::describe("w", 0, 48 * gib, Progress::Unit::kBytes, 10), "w: 0 %, 0.0 of 48.0 GiB");
  EXPECT_EQ(Progress::describe("w", 100, 0, Progress::Unit::kBytes, 1), "w: 100 B, 100.0 B/s");
  EXPECT_EQ(Progress::describe("w", 3, 2, Progress::Unit::kItems, 1), "w: 100 %, 3 of 2, 3.0/s");
  EXPECT_EQ(Progress::describe("w", 1, 10'000'000, Progress::Unit::kItems, 1),
            "w: 0 %, 1 of 10000000, 1.0/s, 2777 h 46 min left");
}

}  // namespace
}  // namespace llmd
