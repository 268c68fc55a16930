#include "daemon/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace llmd {
namespace {

using namespace std::chrono_literals;

TEST(Signals, HandsOverWhatArrived) {
  auto signals = Signals::create();
  ASSERT_TRUE(signals.ok()) << signals.error().message;
  EXPECT_EQ(signals->wait(0ms), 0);
  raise(SIGTERM);
  EXPECT_EQ(signals->wait(), SIGTERM);
  raise(SIGINT);
  EXPECT_EQ(signals->wait(10s), SIGINT);
  raise(SIGHUP);
  EXPECT_EQ(signals->wait(10s), SIGHUP);
  EXPECT_EQ(signals->wait(1ms), 0);
}

TEST(Signals, StillWorksAfterAMove) {
  auto signals = Signals::create();
  ASSERT_TRUE(signals.ok());
  Signals moved = std::move(*signals);
  raise(SIGTERM);
  EXPECT_EQ(moved.wait(10s), SIGTERM);
}

TEST(Signals, TurnsABrokenPipeIntoAnError) {
  auto signals = Signals::create();
  ASSERT_TRUE(signals.ok());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

}  // namespace
}  // namespace llmd
