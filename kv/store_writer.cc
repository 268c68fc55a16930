#include "kv/store_writer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace llmd {
namespace {

// linux/ioprio.h, which not every libc carries: this thread, the idle class.
constexpr int kIoprioWhoProcess = 1, kIoprioClassIdle = 3, kIoprioClassShift = 13;

}  // namespace

Result<std::unique_ptr<StoreWriter>> StoreWriter::start(StoreFiles files, const KvLayout& layout) {
  std::unique_ptr<StoreWriter> writer(new StoreWriter(std::move(files), layout));
  LLMD_ASSIGN_OR_RETURN(writer->thread_, Thread::start("kv-write", kIoStackBytes, [w = writer.get()] { w->run(); }));
  return writer;
}

StoreWriter::~StoreWriter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    work_.notify_one();
  }
  thread_.join();
}

void StoreWriter::submit(StoreJob job) {
  std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  work_.notify_one();
}

std::vector<StoreJob> StoreWriter::collect() {
  std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

std::vector<StoreJob> StoreWriter::take_back(size_t count, const std::function<bool(const StoreJob&)>& wanted) {
  std::vector<StoreJob> taken;
  std::lock_guard lock(mutex_);
  for (size_t i = jobs_.size(); i > 0 && taken.size() < count; i--) {
    if (jobs_[i - 1].kind != StoreJob::Kind::kWrite || !wanted(jobs_[i - 1])) continue;
    taken.push_back(std::move(jobs_[i - 1]));
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  return taken;
}

void StoreWriter::wait(uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  done_signal_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), [&] { return !done_.empty(); });
}

void StoreWriter::run() {
  syscall(SYS_ioprio_set, kIoprioWhoProcess, 0, kIoprioClassIdle << kIoprioClassShift);
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    StoreJob job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    perform(job);
    lock.lock();
    if (job.kind != StoreJob::Kind::kWrite) continue;
    done_.push_back(std::move(job));
    done_signal_.notify_one();
  }
}

void StoreWriter::perform(StoreJob& job) {
  switch (job.kind) {
    case StoreJob::Kind::kWrite:
      job.error = files_.write(*job.header, layout_, job.rows);
      return;
    case StoreJob::Kind::kRemove:
      return files_.remove(job.id);
    case StoreJob::Kind::kTouch:
      return files_.touch(job.id);
  }
}

}  // namespace llmd
