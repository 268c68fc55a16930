// KvStore: KV pages on disk, so that a conversation survives the memory it was in and the process.
//
//   put()      pages of a conversation --> queue --> kv-write thread --> DIR/<id>.kv     durable when pending is 0
//   again load()     DIR/<id>.kv ... --> kv-load thread, reader --> pages of a sequence        others decode meanwhile
//   reclaim()  gives back pages that wait to be written, when memory is short
//
// What is found is found by token ids, as in the prefix tree, and each record was computed upon exactly the rows that
// the records before it hold (kv/store_record.h). Nothing on disk is trusted: a record that is damaged, cut short, of
// another format or not what its name says is dropped and counted, and what would have followed it too; the rows are
// then computed again. When writing fails (a full disk) what waits is dropped and counted, one line is logged, and
// writing rests for half a minute. The directory holds at most bytes_max; the records used longest ago go first, from
// the end of their conversations. It is disposable.
//
// All calls come from the thread that leads the step, none waits for the disk but open(), drain() and the destructor
// (which waits for the job at hand and the reads in flight). Calls other than poll() allocate.
//
//   n = tree.match(space, prompt, sequence, forms);
//   load = store.load(space, prompt, sequence, forms);     // null: the store has no more than that
//   ... steps for others; store.poll() ... until load->finished; the sequence is left alone
//   n = store.finish(std::move(load), sequence, forms);    // or store.abandon(std::move(load))
//   tree.insert(space, sequence, prompt.first(n), forms);
//   ... at the end: tree.insert(...) and store.put(...) of all rows that were computed
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/clock.h"
#include "io/reader.h"
#include "kv/page_pool.h"
#include "kv/store_index.h"
#include "kv/store_loader.h"
#include "kv/store_writer.h"

namespace llmd {

struct KvStoreOptions {
  std::string directory;
  uint64_t bytes_max = UINT64_MAX;
  /// All that decides about the bytes of a row beside tokens and forms: model, KV type, CPU level, numerics, overrides.
  std::string identity;
  uint64_t model = 0;  // shown by `llmd kv list`, as the next
  std::string label;
  size_t records_max = 16384;              // of all models; each takes about 1.6 KiB of memory
  size_t pending_max = 1024;               // pages that wait to be written
  std::function<void(std::string)> log;    // by the leading thread; may be empty
  std::function<void()> on_load_finished;  // by the store's thread, to wake the leading one; may be empty
  const Clock* clock = &real_clock();
  std::function<void(int)> write_hook;  // for tests (kv/store_files.h)
};

struct KvStoreStatistics {
  uint64_t records = 0, bytes = 0;  // in the directory, what waits to be written included
  uint64_t pending = 0;             // pages that are not durable yet
  uint64_t pages_written = 0, pages_loaded = 0;
  uint64_t evicted = 0;      // records removed to stay below the limits
  uint64_t invalid = 0;      // records that were dropped because they could not be used, and those that followed them
  uint64_t not_written = 0;  // pages that were dropped before they were durable
  bool failing = false;      // the last write failed
};

class KvStore final : public KvReclaimer {
 public:
  /// Opens or makes the directory and reads the headers of what is there. `pool` (aligned to kKvPageAlignment) and
  /// `reader` must outlive the store, and loads end before it. The prefix tree of the pool is made first, so that idle
  /// pages go before pages that wait to be written. Errors: "kv_store_open", "kv_store_busy", "thread_start".
  static Result<std::unique_ptr<KvStore>> open(KvStoreOptions options, KvPagePool& pool, Reader& reader);
  ~KvStore() override;

  /// Stores the first tokens.size() rows of `sequence`, which have all been computed, as far as they are not stored.
  void put(uint64_t space, const KvSequence& sequence, std::span<const int32_t> tokens, std::span<const uint8_t> forms);

  /// How much of `tokens` is reusable when the first forms.size() of them are in memory, in these forms. For logits the
  /// last token of a prompt has to be computed: leave it out.
  int32_t match_length(uint64_t space, std::span<const int32_t> tokens, std::span<const uint8_t> forms) const;
  /// Begins to read what goes beyond the rows in `sequence`, extending it; null when there is nothing. Until finish()
  /// or abandon() the sequence is left alone. Errors: "kv_exhausted", with nothing changed.
  Result<std::unique_ptr<KvLoad>> load(uint64_t space, std::span<const int32_t> tokens, KvSequence& sequence,
                                       const std::vector<uint8_t>& forms);
  /// Takes what a finished load brought: cuts `sequence` and `forms` to what is in place, and returns its length.
  int32_t finish(std::unique_ptr<KvLoad> load, KvSequence& sequence, std::vector<uint8_t>& forms);
  /// Gives a load up, finished or not; its pages stay taken until its reads have ended. The sequence may go.
  void abandon(std::unique_ptr<KvLoad> load);
  /// Counts finished loads, for wait_for_any().
  const ReadGate& gate() const { return loader_->gate(); }

  /// Looks after what the threads have done; to be called between steps. True while pages are pending.
  bool poll();
  /// Waits until nothing is pending; false when that took longer than `timeout_ns` or pages were dropped meanwhile.
  bool drain(uint64_t timeout_ns);

  uint32_t reclaim(uint32_t pages) override;
  KvStoreStatistics statistics() const;

 private:
  struct Step;
  KvStore(KvStoreOptions options, KvPagePool& pool) : options_(std::move(options)), pool_(pool) {}
  Status read_directory(StoreFiles& files);
  std::vector<Step> find(const RecordId& parent, std::span<const int32_t> tokens) const;
  RecordId after(uint64_t space, std::span<const int32_t> tokens, std::span<const uint8_t> forms) const;
  bool make_room(uint64_t bytes, const RecordId& parent);
  void enqueue(const RecordId& parent, uint32_t depth, uint32_t page, std::span<const int32_t> tokens,
               std::span<const uint8_t> forms, const RecordId& id);
  void use(int32_t number);
  void remove(int32_t number);
  void drop_invalid(const RecordId& id, const Error& error);
  void drop_job(StoreJob& job);
  void on_written(StoreJob& job);
  void on_write_failed(StoreJob& job);
  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }

  const KvStoreOptions options_;
  KvPagePool& pool_;
  RecordId key_{};
  StoreIndex index_;
  std::unique_ptr<StoreWriter> writer_;
  std::unique_ptr<StoreLoader> loader_;
  std::vector<std::unique_ptr<KvLoad>> abandoned_;
  uint64_t rests_until_ns_ = 0;  // writing, after a failure
  KvStoreStatistics counters_;   // records and bytes are the index's
};

}  // namespace llmd
