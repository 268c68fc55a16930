// What `--memory auto` takes, on machines laid out as files: both cgroup versions, their ancestors, and none.
#include "daemon/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace llmd {
namespace {

constexpr uint64_t kGiB = 1ull << 30;
constexpr char kUnlimitedV1[] = "9223372036854771712";

class MemoryLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "llmd_machine_" + std::to_string(getpid()) + "/";
    std::filesystem::remove_all(root_);
    write("proc/meminfo",
          "MemTotal:       98566144 kB\nMemFree:        1234567 kB\nMemAvailable:   67108864 kB\n");  // 64G
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  uint64_t automatic() { return automatic_memory(root_).bytes; }
  std::string source() { return automatic_memory(root_).source; }

  std::string root_;
};

// A sixteenth stays with the machine, at least 256 MiB, at most half.
uint64_t less_margin(uint64_t bytes) {
  return bytes - std::min(bytes / 2, std::max(bytes / 16, kGiB / 4));
}

TEST_F(MemoryLimitTest, IsWhatIsAvailable_WhenNoGroupLimits) {
  EXPECT_EQ(automatic(), 60 * kGiB);
  EXPECT_EQ(source(), "MemAvailable");
  write("proc/self/cgroup", "0::/user.slice/session.scope\n");
  EXPECT_EQ(automatic(), 60 * kGiB);
  write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  write("sys/fs/cgroup/user.slice/session.scope/memory.high", "max\n");
  EXPECT_EQ(automatic(), 60 * kGiB);
}

TEST_F(MemoryLimitTest, IsTheGroupsLimit_WhenVersion2Limits) {
  write("proc/self/cgroup", "0::/system.slice/llmd.service\n");
  write("sys/fs/cgroup/system.slice/llmd.service/memory.max", std::to_string(16 * kGiB) + "\n");
  EXPECT_EQ(automatic(), 15 * kGiB);
  EXPECT_THAT(source(), testing::EndsWith("sys/fs/cgroup/system.slice/llmd.service/memory.max"));
}

TEST_F(MemoryLimitTest, IsTheSofterLimit_WhenVersion2ThrottlesBeforeItKills) {
  write("proc/self/cgroup", "0::/system.slice/llmd.service\n");
  write("sys/fs/cgroup/system.slice/llmd.service/memory.max", std::to_string(32 * kGiB) + "\n");
  write("sys/fs/cgroup/system.slice/llmd.service/memory.high", std::to_string(16 * kGiB) + "\n");
  EXPECT_EQ(automatic(), 15 * kGiB);
  EXPECT_THAT(source(), testing::EndsWith("memory.high"));
}

TEST_F(MemoryLimitTest, IsAnAncestorsLimit_WhenThatIsTighter) {
  write("proc/self/cgroup", "0::/kube/pod1/llmd\n");
  write("sys/fs/cgroup/kube/pod1/llmd/memory.max", "max\n");
  write("sys/fs/cgroup/kube/pod1/memory.max", std::to_string(8 * kGiB) + "\n");
  write("sys/fs/cgroup/kube/memory.max", std::to_string(32 * kGiB) + "\n");
  EXPECT_EQ(automatic(), less_margin(8 * kGiB));
  EXPECT_THAT(source(), testing::EndsWith("kube/pod1/memory.max"));
}

TEST_F(MemoryLimitTest, IsTheRootsLimit_WhenTheGroupIsANamespacesRoot) {
  // In a container the process sees itself at "/", and the mount is its own group.
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", std::to_string(4 * kGiB) + "\n");
  EXPECT_EQ(automatic(), less_margin(4 * kGiB));
}

TEST_F(MemoryLimitTest, IsTheGroupsLimit_WhenVersion1Limits) {
  write("proc/self/cgroup", "12:cpu,cpuacct:/elsewhere\n7:memory:/box/inner\n0::/\n");
  write("sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", std::to_string(16 * kGiB) + "\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", std::string(kUnlimitedV1) + "\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::string(kUnlimitedV1) + "\n");
  EXPECT_EQ(automatic(), 15 * kGiB);
  EXPECT_THAT(source(), testing::EndsWith("memory/box/inner/memory.limit_in_bytes"));
}

TEST_F(MemoryLimitTest, IsAnAncestorsLimit_WhenVersion1LimitsThatMore) {
  write("proc/self/cgroup", "7:hugetlb,memory:/box/inner\n");
  write("sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", std::string(kUnlimitedV1) + "\n");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", std::to_string(16 * kGiB) + "\n");
  EXPECT_EQ(automatic(), 15 * kGiB);
}

TEST_F(MemoryLimitTest, IgnoresOtherControllers) {
  write("proc/self/cgroup", "3:mymemory:/a\n4:cpu:/b\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n");
  write("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1048576\n");
  EXPECT_EQ(automatic(), 60 * kGiB);
}

TEST_F(MemoryLimitTest, IsWhatIsAvailable_WhenThatIsLessThanTheLimit) {
  write("proc/self/cgroup", "0::/llmd\n");
  write("sys/fs/cgroup/llmd/memory.max", std::to_string(500 * kGiB) + "\n");
  EXPECT_EQ(automatic(), 60 * kGiB);
  EXPECT_EQ(source(), "MemAvailable");
}

TEST_F(MemoryLimitTest, LeavesHalf_WhenThereIsVeryLittle) {
  write("proc/self/cgroup", "0::/llmd\n");
  write("sys/fs/cgroup/llmd/memory.max", std::to_string(256u << 20) + "\n");
  EXPECT_EQ(automatic(), 128u << 20);
}

TEST_F(MemoryLimitTest, IsNothing_WhenNothingIsKnown) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(automatic(), 0u);
  write("proc/self/cgroup", "rubbish\n::\n7:memory\n0::\n");
  write("sys/fs/cgroup/memory.max", "-5\n");
  EXPECT_EQ(automatic(), 0u);
}

}  // namespace
}  // namespace llmd
