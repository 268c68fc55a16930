// StoreLoader: the thread that brings stored pages back into the pool, checked, while others decode.
//
// A load is a chain of records and the pages they go into. Files are opened a few ahead; header and rows are read by
// the reader at demand priority, the rows straight into their page. Each record has to be what was asked for (its id
// covers its tokens, forms and history), of the right size and undamaged; the first that is not ends the load, and what
// came before it counts. Loads run one after the other.
//
// submit() and cancel() come from the leading thread, which leaves a load and its pages alone until finished. What has
// been cancelled finishes soon after the reads in flight. The destructor cancels and waits for all.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "io/reader.h"
#include "io/thread.h"
#include "kv/store_record.h"

namespace llmd {

/// One chain of records on its way into memory.
struct KvLoad {
  struct Part {
    RecordId id{};
    std::string path;
    uint32_t count = 0;         // tokens in the record
    uint32_t page = 0;          // for the caller
    std::byte* rows = nullptr;  // a page's memory
  };
  std::vector<Part> parts;
  std::vector<uint8_t> forms;  // of the rows that come, for the caller
  int32_t first = 0, end = 0;  // tokens, likewise
  std::atomic<bool> cancelled{false}, finished{false};
  // Once finished:
  size_t good = 0;             // the first so many parts are in place
  std::optional<Error> error;  // of the part after them, unless all are good or the load was cancelled
};

class StoreLoader {
 public:
  /// `on_finished` is called by the loader's thread after each load; it may be empty. Errors: "thread_start".
  static Result<std::unique_ptr<StoreLoader>> start(Reader& reader, const KvLayout& layout,
                                                    std::function<void()> on_finished);
  ~StoreLoader();

  void submit(KvLoad& load);
  /// Counts finished loads.
  const ReadGate& gate() const { return gate_; }

 private:
  static constexpr size_t kRecordsInFlight = 8;
  struct Slot {
    std::optional<DirectFile> file;
    std::optional<Error> error;  // it could not be opened
    Read header, rows;
    alignas(kRecordBlock) std::array<std::byte, kRecordBlock> block;
  };

  StoreLoader(Reader& reader, const KvLayout& layout, std::function<void()> on_finished);
  void run();
  void perform(KvLoad& load);
  Status open(Slot& slot, const KvLoad::Part& part);
  Status check(Slot& slot, const KvLoad::Part& part);

  Reader& reader_;
  const KvLayout layout_;
  const std::function<void()> on_finished_;
  std::unique_ptr<std::array<Slot, kRecordsInFlight>> slots_;  // the thread's
  ReadGate gate_;
  std::mutex mutex_;  // guards what follows, up to the thread
  std::condition_variable work_;
  std::deque<KvLoad*> loads_;
  KvLoad* current_ = nullptr;
  bool stopping_ = false;
  Thread thread_;
};

}  // namespace llmd
