// Which path the reader takes, and what it says when the kernel denies io_uring.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

#include "io/reader.h"
#include "io/uring_backend.h"
#include "temp_file.h"

namespace llmd {
namespace {

TEST(UringDenial, NamesTheSysctl_WhenItForbids) {
  std::string text = uring_denial(EPERM, "2");
  EXPECT_NE(text.find("kernel.io_uring_disabled = 2"), std::string::npos);
  EXPECT_NE(text.find("sysctl kernel.io_uring_disabled=0"), std::string::npos);
}

TEST(UringDenial, NamesCauseAndCure_ForEveryErrorItKnows) {
  EXPECT_NE(uring_denial(EPERM, "0").find("seccomp"), std::string::npos);
  EXPECT_NE(uring_denial(EPERM, "").find("seccomp"), std::string::npos);
  EXPECT_NE(uring_denial(ENOSYS, "").find("kernel"), std::string::npos);
  EXPECT_NE(uring_denial(ENOMEM, "").find("LimitMEMLOCK"), std::string::npos);
  EXPECT_NE(uring_denial(EMFILE, "").find("LimitNOFILE"), std::string::npos);
  EXPECT_NE(uring_denial(EFAULT, "").find("Bad address"), std::string::npos);
}

/// From here on `system_call` fails with `error_number` in this process.
void deny(long system_call, int error_number) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(system_call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error_number)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{sizeof(program) / sizeof(program[0]), program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    std::fprintf(stderr, "cannot install a seccomp filter\n");
    _exit(3);
  }
}

/// Reads a file by the automatic path after a denial; prints path and reason. Exit code 0 = right bytes by threads.
[[noreturn]] void read_denied(long system_call, int error_number) {
  TempFile temp(100'000);
  deny(system_call, error_number);
  auto reader = Reader::create({});
  if (!reader.ok()) _exit(1);
  DirectFile file = DirectFile::open(temp.path()).value();
  OwnedRead read(file, 10, 99'999);
  (*reader)->submit({{read.get()}});
  wait_for(*read.get());
  bool right = read.state() == ReadState::kDone && read.matches(temp);
  std::fprintf(stderr, "%s: %s\n", (*reader)->path_name().c_str(), (*reader)->path_reason().c_str());
  unlink(temp.path().c_str());
  _exit(right && (*reader)->path_name() == "threads" ? 0 : 2);
}

TEST(ReaderPathDeathTest, FallsBackToThreadsAndSaysWhy_WhenSystemCallsAreDenied) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(read_denied(SYS_io_uring_setup, EPERM), testing::ExitedWithCode(0), "threads: io_uring is .*; allow");
  EXPECT_EXIT(read_denied(SYS_io_uring_setup, ENOSYS), testing::ExitedWithCode(0), "threads: io_uring is not there");
  EXPECT_EXIT(read_denied(SYS_io_uring_setup, ENOMEM), testing::ExitedWithCode(0), "threads: .*LimitMEMLOCK");
  EXPECT_EXIT(read_denied(SYS_io_uring_enter, EPERM), testing::ExitedWithCode(0), "threads: io_uring is .*; allow");
}

[[noreturn]] void create_denied_ring() {
  deny(SYS_io_uring_setup, ENOSYS);
  ReaderOptions options;
  options.path = ReaderOptions::Path::kUring;
  auto reader = Reader::create(options);
  if (reader.ok()) _exit(1);
  std::fprintf(stderr, "%s: %s\n", reader.error().code.c_str(), reader.error().message.c_str());
  _exit(0);
}

TEST(ReaderPathDeathTest, ReportsCauseAndCure_WhenTheRingIsAskedForAndDenied) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(create_denied_ring(), testing::ExitedWithCode(0), "io_unavailable: io_uring is not there");
}

}  // namespace
}  // namespace llmd
