#include "io/thread.h"

#include <signal.h>

#include <cstring>
#include <ctime>
#include <memory>

namespace llmd {

namespace {

struct StartArguments {
  std::string name;
  std::function<void()> body;
};

void* run_thread(void* opaque) {
  std::unique_ptr<StartArguments> arguments(static_cast<StartArguments*>(opaque));
  pthread_setname_np(pthread_self(), arguments->name.substr(0, 15).c_str());
  arguments->body();
  return nullptr;
}

}  // namespace

Result<Thread> Thread::start(const std::string& name, size_t stack_bytes, std::function<void()> body) {
  auto arguments = std::make_unique<StartArguments>(StartArguments{name, std::move(body)});
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  // The new thread inherits the mask. Faults of its own making stay deliverable, so that a crash is still reported.
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&blocked, fault);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  Thread thread;
  int error = pthread_create(&thread.handle_, &attributes, run_thread, arguments.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    return operating_error("thread_start", "cannot start the thread " + name + ": " + std::strerror(error) +
                                               "; raise TasksMax= in the unit or ulimit -u");
  }
  arguments.release();
  thread.running_ = true;
  return thread;
}

Thread::Thread(Thread&& other) noexcept : handle_(other.handle_), running_(other.running_) {
  other.running_ = false;
}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    join();
    handle_ = other.handle_;
    running_ = other.running_;
    other.running_ = false;
  }
  return *this;
}

uint64_t Thread::cpu_ns() const {
  clockid_t clock{};
  timespec used{};
  if (!running_ || pthread_getcpuclockid(handle_, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

void Thread::join() {
  if (!running_) return;
  pthread_join(handle_, nullptr);
  running_ = false;
}

}  // namespace llmd
