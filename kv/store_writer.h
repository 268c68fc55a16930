// StoreWriter: the thread that writes, touches and removes the records of the KV store, one at a time.
//
// At idle I/O priority where the kernel takes it, so that writes stay below the reads of experts. The leading thread
// submits jobs in order and collects what became of the writes; until then the page of a write is held by its caller
// and does not change. Writes are bounded by the caller, the other jobs by the records there are. What has not begun
// can be taken back. The destructor waits for the jobs that are left.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "io/thread.h"
#include "kv/kv_layout.h"
#include "kv/store_files.h"

namespace llmd {

struct StoreJob {
  enum class Kind { kWrite, kRemove, kTouch } kind = Kind::kWrite;
  RecordId id{};
  std::unique_ptr<RecordHeader> header;  // of a write; checksum and time are filled in
  uint32_t page = 0;                     // its number, for the caller
  const std::byte* rows = nullptr;       // its memory
  int error = 0;                         // of a write that is done: 0 or an errno
};

class StoreWriter {
 public:
  /// Errors: "thread_start".
  static Result<std::unique_ptr<StoreWriter>> start(StoreFiles files, const KvLayout& layout);
  ~StoreWriter();

  void submit(StoreJob job);
  /// The writes that are done since the last call, in order.
  std::vector<StoreJob> collect();
  /// Takes the writes back that `wanted` says, asking from the last to the first, until it has `count`.
  std::vector<StoreJob> take_back(size_t count, const std::function<bool(const StoreJob&)>& wanted);
  /// Sleeps until a write is done, but not for longer than `timeout_ns`.
  void wait(uint64_t timeout_ns);

 private:
  StoreWriter(StoreFiles files, const KvLayout& layout) : files_(std::move(files)), layout_(layout) {}
  void run();
  void perform(StoreJob& job);

  StoreFiles files_;  // the thread's
  const KvLayout layout_;
  std::mutex mutex_;  // guards what follows, up to the thread
  std::condition_variable work_, done_signal_;
  std::deque<StoreJob> jobs_;
  std::vector<StoreJob> done_;
  bool stopping_ = false;
  Thread thread_;
};

}  // namespace llmd
