#include "daemon/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/formatter.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

namespace llmd {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string format(bool journal, spdlog::level::level_enum level, const std::string& text) {
  spdlog::memory_buf_t out;
  log_formatter(journal)->format(spdlog::details::log_msg("llmd", level, text), out);
  return {out.data(), out.size()};
}

TEST(Log, StampsLinesWithTheTime_WhenNotUnderTheJournal) {
  EXPECT_THAT(format(false, spdlog::level::warn, "disk is slow"),
              MatchesRegex("....-..-.. ..:..:..\\.... warning: disk is slow\n"));
}

TEST(Log, GivesTheJournalPrioritiesAndNoTime) {
  EXPECT_EQ(format(true, spdlog::level::debug, "a"), "<7>a\n");
  EXPECT_EQ(format(true, spdlog::level::info, "a"), "<6>a\n");
  EXPECT_EQ(format(true, spdlog::level::warn, "a"), "<4>a\n");
  EXPECT_EQ(format(true, spdlog::level::err, "a"), "<3>a\n");
}

TEST(Log, KeepsAForgedLineInItsOwn) {
  EXPECT_EQ(format(true, spdlog::level::info, "name\n<3>disk failed\x1b[2J\x7f"),
            "<6>name\\x0a<3>disk failed\\x1b[2J\\x7f\n");
  EXPECT_EQ(escape_controls("käse"), "käse");
}

TEST(Log, WritesATableLineByLine) {
  ::testing::internal::CaptureStderr();
  set_up_logging(LogLevel::kInfo, [](std::string_view) { return std::optional<std::string>(); });
  log_lines("a table\n  core 1\n\n  pool 2\n");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              MatchesRegex("[^\n]* info: a table\n[^\n]* info:   core 1\n[^\n]* info: \n[^\n]* info:   pool 2\n"));
}

TEST(Log, RecognisesTheJournalByItsStream) {
  struct stat info {};
  ASSERT_EQ(fstat(STDERR_FILENO, &info), 0);
  const std::string stream = std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
  for (const std::string& named : {stream, std::string("1:1")}) {
    ::testing::internal::CaptureStderr();  // another file now stands at descriptor 2
    set_up_logging(LogLevel::kInfo, [&](std::string_view) { return named; });
    spdlog::info("hello");
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(" info: hello"));
  }
  set_up_logging(LogLevel::kWarn, [&](std::string_view) { return stream; });
  EXPECT_FALSE(spdlog::should_log(spdlog::level::info));
  set_log_level(LogLevel::kDebug);
  EXPECT_TRUE(spdlog::should_log(spdlog::level::debug));
  EXPECT_FALSE(spdlog::should_log(spdlog::level::trace));
}

}  // namespace
}  // namespace llmd
