#include "io/uring_backend.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

namespace llmd {

namespace {

constexpr unsigned kSubmissionEntries = 2 * kBackendReadsMax;
constexpr uint64_t kWakeTag = UINT64_MAX;

std::string read_sysctl() {
  std::ifstream file("/proc/sys/kernel/io_uring_disabled");
  std::string value;
  std::getline(file, value);
  return value;
}

Error denied(int error_number) {
  return operating_error("io_unavailable", uring_denial(error_number, read_sysctl()));
}

/// Results of io_uring_enter that mean "look at the completions and come again".
bool is_transient(int error_number) {
  return error_number == EINTR || error_number == ETIME || error_number == EAGAIN || error_number == EBUSY ||
         error_number == EBADR || error_number == ENOMEM;
}

}  // namespace

std::string uring_denial(int error_number, std::string_view sysctl) {
  if (error_number == EPERM && !sysctl.empty() && sysctl != "0") {
    return "io_uring is switched off by kernel.io_uring_disabled = " + std::string(sysctl) +
           "; allow it with: sysctl kernel.io_uring_disabled=0";
  }
  if (error_number == EPERM || error_number == EACCES) {
    return "io_uring is denied, probably by a seccomp filter; allow io_uring_setup, io_uring_enter and "
           "io_uring_register (systemd: SystemCallFilter=@aio, containers: their seccomp profile)";
  }
  if (error_number == ENOSYS) {
    return "io_uring is not there: the kernel is built without it or a seccomp filter hides it; use a kernel of 5.11 "
           "or later, or allow io_uring_setup, io_uring_enter and io_uring_register";
  }
  if (error_number == ENOMEM) {
    return "io_uring cannot get its memory, probably because of the limit on locked memory; raise LimitMEMLOCK= in the "
           "unit or ulimit -l";
  }
  if (error_number == EMFILE || error_number == ENFILE) {
    return "io_uring cannot get a file descriptor; raise LimitNOFILE= in the unit or ulimit -n";
  }
  return std::string("io_uring does not work here: ") + std::strerror(error_number);
}

Result<std::unique_ptr<UringBackend>> UringBackend::create(uint32_t threads) {
  std::unique_ptr<UringBackend> backend(new UringBackend);
  LLMD_RETURN_IF_ERROR(backend->set_up());
  LLMD_RETURN_IF_ERROR(backend->prove());
  LLMD_ASSIGN_OR_RETURN(backend->threads_, ThreadBackend::create(threads, "reads that may block",
                                                                 [self = backend.get()] { self->wake(); }));
  return backend;
}

Status UringBackend::set_up() {
  io_uring_params parameters{};
  // Completions need not interrupt the owner: it looks only when it enters the kernel. Kernels before 5.19 do not know
  // the flag. IORING_SETUP_SINGLE_ISSUER would tie the ring to this thread, which is not the owner, for no gain: the
  // lock it saves is never contended.
  parameters.flags = IORING_SETUP_COOP_TASKRUN;
  int error = io_uring_queue_init_params(kSubmissionEntries, &ring_, &parameters);
  if (error == -EINVAL) {
    parameters = io_uring_params{};
    error = io_uring_queue_init_params(kSubmissionEntries, &ring_, &parameters);
  }
  if (error < 0) return denied(-error);
  ring_made_ = true;
  constexpr unsigned kNeeded = IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG;
  if ((ring_.features & kNeeded) != kNeeded) {
    return operating_error("io_unavailable", "io_uring is too old in this kernel; use a kernel of 5.11 or later");
  }
  LLMD_CHECK(parameters.sq_entries > kBackendReadsMax && parameters.cq_entries > kBackendReadsMax);
  event_fd_ = eventfd(0, EFD_CLOEXEC);
  if (event_fd_ < 0) return denied(errno);
  reason_ = "io_uring, " + std::to_string(kBackendReadsMax) + " reads at once at most";
  return {};
}

Status UringBackend::prove() {
  wake();
  arm_wake();
  int submitted = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    submitted = io_uring_submit_and_wait(&ring_, 1);
    io_uring_cqe* completion = nullptr;
    if (io_uring_peek_cqe(&ring_, &completion) == 0) {
      int32_t result = completion->res;
      io_uring_cqe_seen(&ring_, completion);
      wake_armed_ = false;
      if (result == static_cast<int32_t>(sizeof(event_value_))) return {};
      return denied(result < 0 ? -result : EIO);
    }
    if (submitted < 0 && !is_transient(-submitted)) break;
  }
  return denied(submitted < 0 ? -submitted : EIO);
}

UringBackend::~UringBackend() {
  threads_.reset();  // they write to the eventfd
  if (ring_made_) io_uring_queue_exit(&ring_);
  if (event_fd_ >= 0) ::close(event_fd_);
}

void UringBackend::arm_wake() {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  LLMD_CHECK(entry != nullptr);
  io_uring_prep_read(entry, event_fd_, &event_value_, sizeof(event_value_), 0);
  io_uring_sqe_set_data64(entry, kWakeTag);
  wake_armed_ = true;
}

void UringBackend::start(const BackendRead& read) {
  if (read.may_block) {
    ++in_threads_;
    return threads_->start(read);
  }
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  LLMD_CHECK(entry != nullptr);
  io_uring_prep_read(entry, read.fd, read.buffer, read.length, read.offset);
  io_uring_sqe_set_data64(entry, read.tag);
}

size_t UringBackend::wait(std::span<BackendResult> results, int64_t timeout_ns) {
  bool was_armed = wake_armed_;
  size_t count = reap(results);
  count += take_from_threads(results.subspan(count));
  // A wake-up that came since the last call must not be slept over.
  if (count > 0 || was_armed != wake_armed_) timeout_ns = 0;
  if (!wake_armed_ && !closing_) arm_wake();
  int entered = 0;
  if (timeout_ns < 0) {
    entered = io_uring_submit_and_wait(&ring_, 1);
  } else if (timeout_ns == 0) {
    entered = io_uring_submit(&ring_);
  } else {
    __kernel_timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    io_uring_cqe* completion = nullptr;
    entered = io_uring_submit_and_wait_timeout(&ring_, &completion, 1, &timeout, nullptr);
  }
  if (entered < 0) {
    // Anything else means that the ring itself is broken (bad descriptor, bad pointer): a bug of this file.
    LLMD_CHECK(is_transient(-entered));
    if (entered == -EAGAIN || entered == -ENOMEM) {
      timespec pause{0, 1'000'000};  // no memory for requests: what was not submitted stays queued for the next call
      nanosleep(&pause, nullptr);
    }
  }
  count += reap(results.subspan(count));
  return count + take_from_threads(results.subspan(count));
}

size_t UringBackend::take_from_threads(std::span<BackendResult> results) {
  if (in_threads_ == 0 || results.empty()) return 0;
  size_t count = threads_->wait(results, 0);
  in_threads_ -= static_cast<uint32_t>(count);
  return count;
}

size_t UringBackend::reap(std::span<BackendResult> results) {
  size_t count = 0;
  io_uring_cqe* completion = nullptr;
  while (io_uring_peek_cqe(&ring_, &completion) == 0) {
    if (completion->user_data == kWakeTag) {
      wake_armed_ = false;
    } else if (count == results.size()) {
      break;
    } else {
      results[count++] = {static_cast<uint32_t>(completion->user_data), completion->res};
    }
    io_uring_cqe_seen(&ring_, completion);
  }
  return count;
}

void UringBackend::wake() {
  uint64_t one = 1;
  ssize_t written = 0;
  do {
    written = write(event_fd_, &one, sizeof(one));
  } while (written < 0 && errno == EINTR);
  LLMD_CHECK(written == static_cast<ssize_t>(sizeof(one)));
}

void UringBackend::close() {
  threads_->close();
  // The kernel owns event_value_ until the armed read has come back.
  closing_ = true;
  wake();
  while (wake_armed_) wait({}, -1);
}

}  // namespace llmd
