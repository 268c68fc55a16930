#include "kv/kv_store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "io/check.h"

namespace llmd {
namespace {

constexpr uint64_t kRestNs = 30'000'000'000;       // after a write that failed
constexpr int64_t kTouchEveryNs = 60'000'000'000;  // the file learns of a use at most so often
constexpr int64_t kNsPerSecond = 1'000'000'000;

int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <typename T>
std::span<const T> page_of(std::span<const T> values, size_t first) {
  return values.subspan(first, std::min<size_t>(values.size() - first, kKvPageTokens));
}

}  // namespace

/// A record on the way of a match, and how many of its tokens agree.
struct KvStore::Step {
  int32_t number;
  int32_t tokens;
};

Result<std::unique_ptr<KvStore>> KvStore::open(KvStoreOptions options, KvPagePool& pool, Reader& reader) {
  LLMD_CHECK(pool.pages_total() == 0 || reinterpret_cast<uintptr_t>(pool.page(0)) % kKvPageAlignment == 0);
  std::unique_ptr<KvStore> store(new KvStore(std::move(options), pool));
  store->key_ = store_key(store->options_.identity);
  LLMD_ASSIGN_OR_RETURN(StoreFiles files, StoreFiles::open(store->options_.directory, true));
  files.set_write_hook(store->options_.write_hook);
  LLMD_RETURN_IF_ERROR(store->read_directory(files));
  LLMD_ASSIGN_OR_RETURN(store->loader_, StoreLoader::start(reader, pool.layout(), store->options_.on_load_finished));
  LLMD_ASSIGN_OR_RETURN(store->writer_, StoreWriter::start(std::move(files), pool.layout()));
  pool.add_reclaimer(*store);
  return store;
}

KvStore::~KvStore() {
  if (writer_ == nullptr) return;
  pool_.remove_reclaimer(*this);
  for (StoreJob& job : writer_->take_back(SIZE_MAX, [](const StoreJob&) { return true; })) drop_job(job);
  while (poll()) writer_->wait(kRestNs);  // the one at hand
  loader_.reset();
  poll();
}

Status KvStore::read_directory(StoreFiles& files) {
  auto drop = [&](int32_t number) {
    files.remove(index_[number].id);
    index_.remove(number);
  };
  LLMD_RETURN_IF_ERROR(files.scan(true, [&](const StoredFile& file) {
    bool foreign = file.header != nullptr && file.header->store != key_;
    if (file.header == nullptr || (!foreign && file.header->bytes_per_token != pool_.layout().bytes_per_token())) {
      files.remove(file.id);
      counters_.invalid++;
      return;
    }
    index_.add(*file.header, file.used_ns, foreign, false);
  }));
  for (const RecordId& orphan : index_.orphans()) {
    if (index_.find(orphan) == StoreIndex::kNone) continue;  // went with another
    for (int32_t number : index_.subtree(index_.find(orphan))) {
      drop(number);
      counters_.invalid++;
    }
  }
  while (index_.bytes() > options_.bytes_max || index_.size() > options_.records_max) {
    drop(index_.oldest_leaf());
    counters_.evicted++;
  }
  if (counters_.invalid > 0)
    log("KV store: " + std::to_string(counters_.invalid) + " records could not be used and were removed");
  return {};
}

// ---------------------------------------------------------------- writing

void KvStore::put(uint64_t space, const KvSequence& sequence, std::span<const int32_t> tokens,
                  std::span<const uint8_t> forms) {
  LLMD_CHECK(tokens.size() == forms.size() && static_cast<int32_t>(tokens.size()) <= sequence.length());
  RecordId parent = root_id(key_, space);
  for (size_t first = 0; first < tokens.size(); first += kKvPageTokens) {
    std::span<const int32_t> page_tokens = page_of(tokens, first);
    std::span<const uint8_t> page_forms = page_of(forms, first);
    int32_t known = index_.child_with(parent, page_tokens, page_forms);
    if (known != StoreIndex::kNone) {
      use(known);
      if (page_tokens.size() < static_cast<size_t>(kKvPageTokens)) return;
      parent = index_[known].id;
      continue;
    }
    RecordId id = record_id(parent, page_tokens, page_forms);
    uint64_t bytes = kRecordBlock + pool_.layout().page_bytes();
    if (options_.clock->now_ns() < rests_until_ns_ || counters_.pending >= options_.pending_max ||
        !make_room(bytes, parent)) {
      counters_.not_written += kv_pages(static_cast<int32_t>(tokens.size() - first));
      return;
    }
    enqueue(parent, static_cast<uint32_t>(first / kKvPageTokens), sequence.pages()[first / kKvPageTokens], page_tokens,
            page_forms, id);
    parent = id;
  }
}

// Removes what was used longest ago until `bytes` more fit; false when only what is needed itself is left.
bool KvStore::make_room(uint64_t bytes, const RecordId& parent) {
  while (index_.bytes() + bytes > options_.bytes_max || index_.size() >= options_.records_max) {
    int32_t oldest = index_.oldest_leaf();
    if (oldest == StoreIndex::kNone || index_[oldest].id == parent) return false;
    remove(oldest);
    counters_.evicted++;
  }
  return true;
}

void KvStore::enqueue(const RecordId& parent, uint32_t depth, uint32_t page, std::span<const int32_t> tokens,
                      std::span<const uint8_t> forms, const RecordId& id) {
  StoreJob job;
  job.id = id;
  job.header = std::make_unique<RecordHeader>();
  RecordHeader& header = *job.header;
  header.id = id;
  header.parent = parent;
  header.store = key_;
  header.model = options_.model;
  header.label = options_.label;
  header.depth = depth;
  header.count = static_cast<uint32_t>(tokens.size());
  header.bytes_per_token = static_cast<uint32_t>(pool_.layout().bytes_per_token());
  std::copy(tokens.begin(), tokens.end(), header.token.begin());
  std::copy(forms.begin(), forms.end(), header.form.begin());
  int64_t now = unix_ns();
  header.created_s = now / kNsPerSecond;
  index_.add(header, now, false, true);
  job.page = page;
  job.rows = pool_.page(page);
  pool_.hold(page);
  counters_.pending++;
  writer_->submit(std::move(job));
}

bool KvStore::poll() {
  std::erase_if(abandoned_, [&](const std::unique_ptr<KvLoad>& load) {
    if (!load->finished.load(std::memory_order_acquire)) return false;
    for (const KvLoad::Part& part : load->parts) pool_.release(part.page);
    return true;
  });
  if (counters_.pending == 0) return false;
  for (StoreJob& job : writer_->collect()) {
    if (job.error == 0)
      on_written(job);
    else
      on_write_failed(job);
  }
  return counters_.pending > 0;
}

void KvStore::on_written(StoreJob& job) {
  pool_.release(job.page);
  counters_.pending--;
  counters_.pages_written++;
  if (std::exchange(counters_.failing, false)) log("KV store: writing works again");
  int32_t number = index_.find(job.id);
  if (number == StoreIndex::kNone) {  // what it follows has been dropped
    writer_->submit({StoreJob::Kind::kRemove, job.id, nullptr, 0, nullptr, 0});
    return;
  }
  index_[number].pending = false;
  // A shorter page that this one begins with is of no more use.
  const RecordHeader& header = *job.header;
  for (int32_t shorter = index_.child_within(header.parent, header.tokens(), header.forms());
       shorter != StoreIndex::kNone; shorter = index_.child_within(header.parent, header.tokens(), header.forms()))
    remove(shorter);
}

void KvStore::on_write_failed(StoreJob& job) {
  rests_until_ns_ = options_.clock->now_ns() + kRestNs;
  if (!std::exchange(counters_.failing, true))
    log(std::string("KV store: cannot write, will try again later: ") + std::strerror(job.error) + " (" +
        options_.directory + ")");
  drop_job(job);
  for (StoreJob& waiting : writer_->take_back(SIZE_MAX, [](const StoreJob&) { return true; })) drop_job(waiting);
}

// A page that will not be written.
void KvStore::drop_job(StoreJob& job) {
  pool_.release(job.page);
  counters_.pending--;
  counters_.not_written++;
  int32_t number = index_.find(job.id);
  if (number != StoreIndex::kNone) index_.remove(number);
}

bool KvStore::drain(uint64_t timeout_ns) {
  uint64_t deadline = options_.clock->now_ns() + timeout_ns, dropped = counters_.not_written;
  while (poll()) {
    uint64_t now = options_.clock->now_ns();
    if (now >= deadline) return false;
    writer_->wait(deadline - now);
  }
  return counters_.not_written == dropped;
}

// The last pages of the latest conversations first: what they follow may be written already.
uint32_t KvStore::reclaim(uint32_t pages) {
  std::vector<StoreJob> taken = writer_->take_back(pages, [&](const StoreJob& job) {
    if (pool_.holders(job.page) > 2 || index_.has_children(job.id)) return false;
    index_.remove(index_.find(job.id));  // so that the page before it may go too
    return true;
  });
  for (StoreJob& job : taken) drop_job(job);
  return static_cast<uint32_t>(taken.size());
}

// ---------------------------------------------------------------- what is there

void KvStore::use(int32_t number) {
  StoreIndex::Record& record = index_[number];
  record.used_ns = unix_ns();
  if (record.pending || record.used_ns - record.touched_ns < kTouchEveryNs) return;
  record.touched_ns = record.used_ns;
  writer_->submit({StoreJob::Kind::kTouch, record.id, nullptr, 0, nullptr, 0});
}

void KvStore::remove(int32_t number) {
  writer_->submit({StoreJob::Kind::kRemove, index_[number].id, nullptr, 0, nullptr, 0});
  index_.remove(number);
}

void KvStore::drop_invalid(const RecordId& id, const Error& error) {
  log("KV store: a record is dropped: " + error.to_string());
  int32_t number = index_.find(id);
  if (number == StoreIndex::kNone) return;
  for (int32_t follower : index_.subtree(number)) {
    counters_.invalid++;
    remove(follower);
  }
}

KvStoreStatistics KvStore::statistics() const {
  KvStoreStatistics all = counters_;
  all.records = index_.size();
  all.bytes = index_.bytes();
  return all;
}

// ---------------------------------------------------------------- reading

// The id of the last full page of what is in memory: what comes next is its child.
RecordId KvStore::after(uint64_t space, std::span<const int32_t> tokens, std::span<const uint8_t> forms) const {
  RecordId id = root_id(key_, space);
  for (size_t first = 0; first + kKvPageTokens <= forms.size(); first += kKvPageTokens)
    id = record_id(id, page_of(tokens, first), page_of(forms, first));
  return id;
}

// The records that hold the longest prefix of `tokens` after `parent`. Pages with the same tokens in other forms are
// all followed, level by level.
std::vector<KvStore::Step> KvStore::find(const RecordId& parent, std::span<const int32_t> tokens) const {
  std::vector<RecordId> ways = {parent};
  Step last{StoreIndex::kNone, 0};
  size_t levels = 0;
  for (size_t first = 0; first < tokens.size() && !ways.empty(); first += kKvPageTokens) {
    std::vector<RecordId> further;
    StoreIndex::Found best;
    for (const RecordId& way : ways) {
      StoreIndex::Found found = index_.best_child(way, page_of(tokens, first), further);
      if (index_.better(found, best)) best = found;
    }
    if (best.tokens == 0) break;
    last = {best.number, best.tokens};
    levels++;
    ways = std::move(further);
  }
  std::vector<Step> steps(levels);
  for (size_t i = levels; i > 0; i--) {
    steps[i - 1] = last;
    last = {index_.find(index_[last.number].parent), kKvPageTokens};
  }
  return steps;
}

int32_t KvStore::match_length(uint64_t space, std::span<const int32_t> tokens, std::span<const uint8_t> forms) const {
  size_t whole = forms.size() / kKvPageTokens * kKvPageTokens;
  auto length = static_cast<int32_t>(whole);
  for (const Step& step : find(after(space, tokens, forms), tokens.subspan(whole))) length += step.tokens;
  return std::max(length, static_cast<int32_t>(forms.size()));
}

Result<std::unique_ptr<KvLoad>> KvStore::load(uint64_t space, std::span<const int32_t> tokens, KvSequence& sequence,
                                              const std::vector<uint8_t>& forms) {
  LLMD_CHECK(static_cast<size_t>(sequence.length()) == forms.size() && forms.size() <= tokens.size());
  int32_t first = sequence.length() / kKvPageTokens * kKvPageTokens, end = first;
  std::vector<Step> steps = find(after(space, tokens, forms), tokens.subspan(static_cast<size_t>(first)));
  for (const Step& step : steps) end += step.tokens;
  if (end <= sequence.length()) return std::unique_ptr<KvLoad>();
  // The rows of a partial page in memory come again with the record, unless there is no room for it.
  if (!pool_.make_free(steps.size())) {
    return operating_error("kv_exhausted", "no KV memory is left for " + std::to_string(end) +
                                               " stored tokens; raise --kv-memory or send fewer requests at once");
  }
  sequence.truncate(first);
  LLMD_RETURN_IF_ERROR(sequence.extend(end));
  auto load = std::make_unique<KvLoad>();
  load->first = first;
  load->end = end;
  for (size_t i = 0; i < steps.size(); i++) {
    const StoreIndex::Record& record = index_[steps[i].number];
    KvLoad::Part part;
    part.id = record.id;
    part.path = options_.directory + "/" + to_hex(record.id) + ".kv";
    part.count = static_cast<uint32_t>(record.tokens.size());
    part.page = sequence.pages()[static_cast<size_t>(first / kKvPageTokens) + i];
    part.rows = pool_.page(part.page);
    pool_.hold(part.page);
    load->parts.push_back(std::move(part));
    load->forms.insert(load->forms.end(), record.forms.begin(), record.forms.begin() + steps[i].tokens);
    use(steps[i].number);
  }
  loader_->submit(*load);
  return load;
}

int32_t KvStore::finish(std::unique_ptr<KvLoad> load, KvSequence& sequence, std::vector<uint8_t>& forms) {
  LLMD_CHECK(load->finished.load(std::memory_order_acquire));
  for (const KvLoad::Part& part : load->parts) pool_.release(part.page);
  bool whole = load->good == load->parts.size();
  int32_t end = whole ? load->end : load->first + static_cast<int32_t>(load->good) * kKvPageTokens;
  sequence.truncate(end);
  forms.resize(static_cast<size_t>(load->first));
  forms.insert(forms.end(), load->forms.begin(), load->forms.begin() + (end - load->first));
  counters_.pages_loaded += load->good;
  if (load->error) drop_invalid(load->parts[load->good].id, *load->error);
  return end;
}

void KvStore::abandon(std::unique_ptr<KvLoad> load) {
  load->cancelled.store(true, std::memory_order_relaxed);
  abandoned_.push_back(std::move(load));
  poll();
}

}  // namespace llmd
