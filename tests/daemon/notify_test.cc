#include "daemon/notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace llmd {
namespace {

/// A service manager's end of the notification socket.
class Notify : public ::testing::Test {
 protected:
  void SetUp() override {
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(socket_, 0);
    const std::string path = ::testing::TempDir() + "llmd_notify_" + std::to_string(getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, path.data(), path.size());
    unlink(path.c_str());
    ASSERT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
    path_ = path;
  }
  void TearDown() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
    close(socket_);
    unlink(path_.c_str());
  }
  std::string received() {
    char text[512];
    const ssize_t n = recv(socket_, text, sizeof text, MSG_DONTWAIT);
    return n < 0 ? "" : std::string(text, static_cast<size_t>(n));
  }

  int socket_ = -1;
  std::string path_;
};

TEST_F(Notify, SpeaksTheProtocol) {
  notify_ready("serving demo");
  EXPECT_EQ(received(), "READY=1\nSTATUS=serving demo");
  notify_status("reading\nREADY=1");
  EXPECT_EQ(received(), "STATUS=reading READY=1");
  notify_extend_timeout(std::chrono::seconds(30));
  EXPECT_EQ(received(), "EXTEND_TIMEOUT_USEC=30000000");
  notify_stopping("draining");
  EXPECT_EQ(received(), "STOPPING=1\nSTATUS=draining");
  notify_watchdog();
  EXPECT_EQ(received(), "WATCHDOG=1");
}

TEST_F(Notify, IsSilent_WhenNobodyListens) {
  unsetenv("NOTIFY_SOCKET");
  notify_ready("serving");
  EXPECT_EQ(received(), "");
}

TEST_F(Notify, HalvesTheWatchdogTime) {
  EXPECT_FALSE(watchdog_interval().has_value());
  setenv("WATCHDOG_USEC", "30000000", 1);
  EXPECT_EQ(watchdog_interval(), std::chrono::seconds(15));
  setenv("WATCHDOG_PID", "1", 1);  // meant for another process
  EXPECT_FALSE(watchdog_interval().has_value());
}

}  // namespace
}  // namespace llmd
