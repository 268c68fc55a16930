#include "model/processors.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "../gguf/temporary_folder.h"

namespace llmd {
namespace {

class ProcessorsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.path(path)).parent_path());
    folder_.write(path, text);
  }
  std::string root() const { return folder_.path(""); }
  void siblings(int cpu, const std::string& list) {
    write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", list + "\n");
  }
  llmd::testing::TemporaryFolder folder_;
};

TEST_F(ProcessorsTest, PutsOneCpuOfEachCoreFirst_WhenCoresHaveSiblings) {
  for (int cpu = 0; cpu < 8; cpu++) siblings(cpu, std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  int cores = 0;
  EXPECT_EQ(order_by_core(root(), {0, 1, 2, 3, 4, 5, 6, 7}, cores), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(cores, 4);
  EXPECT_EQ(order_by_core(root(), {1, 2, 5, 7}, cores), (std::vector<int>{1, 2, 7, 5}));
  EXPECT_EQ(cores, 3);
}

TEST_F(ProcessorsTest, TakesEveryCpuForACore_WhenTopologyIsHidden) {
  int cores = 0;
  EXPECT_EQ(order_by_core(root(), {3, 4}, cores), (std::vector<int>{3, 4}));
  EXPECT_EQ(cores, 2);
}

TEST_F(ProcessorsTest, ReadsQuotaOfAnyAncestor_InVersion2) {
  write("proc/self/cgroup", "0::/system.slice/llmd.service\n");
  EXPECT_EQ(cgroup_cpu_quota(root()), 0);
  write("sys/fs/cgroup/system.slice/llmd.service/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root()), 0);
  write("sys/fs/cgroup/system.slice/cpu.max", "350000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root()), 3);
  write("sys/fs/cgroup/system.slice/llmd.service/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root()), 1);  // never none
}

TEST_F(ProcessorsTest, ReadsQuotaOfAnyAncestor_InVersion1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/group/inner\n4:memory:/other\n");
  write("sys/fs/cgroup/cpu/group/cpu.cfs_quota_us", "600000\n");
  write("sys/fs/cgroup/cpu/group/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu/group/inner/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/group/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root()), 6);
}

TEST(Processors, DefaultThreadsAreTheCores_WithinTheQuota) {
  Processors processors;
  processors.cores = 8;
  EXPECT_EQ(processors.default_threads(), 8);
  processors.quota = 3;
  EXPECT_EQ(processors.default_threads(), 3);
  processors.quota = 30;
  EXPECT_EQ(processors.default_threads(), 8);
  EXPECT_GE(allowed_processors().default_threads(), 1);
}

}  // namespace
}  // namespace llmd
