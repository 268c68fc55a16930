#include "daemon/kv_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "daemon/commands.h"
#include "daemon/log.h"
#include "kv/store_files.h"
#include "model/plan.h"

namespace llmd {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

struct Entry {
  RecordId id{}, parent{};
  uint64_t bytes = 0, model = 0;
  int64_t used_s = 0;
  uint32_t depth = 0, count = 0;
  std::string label;
  bool followed = false;
};

/// The usable records, those at the end of conversations first; `invalid` gets the ids of the others.
Result<std::vector<Entry>> read_entries(StoreFiles& files, std::vector<Entry>& invalid) {
  std::vector<Entry> entries;
  LLMD_RETURN_IF_ERROR(files.scan(false, [&](const StoredFile& file) {
    Entry entry;
    entry.id = file.id;
    entry.bytes = file.bytes;
    entry.used_s = file.used_ns / kNsPerSecond;
    if (file.header != nullptr) {
      entry.parent = file.header->parent;
      entry.model = file.header->model;
      entry.depth = file.header->depth;
      entry.count = file.header->count;
      entry.label = file.header->label;
    }
    (file.header == nullptr ? invalid : entries).push_back(std::move(entry));
  }));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.depth > b.depth; });
  return entries;
}

int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// "12 s", "5 min", "7 h", "3 d".
std::string age(int64_t seconds) {
  seconds = std::max<int64_t>(seconds, 0);
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return std::to_string(seconds / 60) + " min";
  if (seconds < 86400) return std::to_string(seconds / 3600) + " h";
  return std::to_string(seconds / 86400) + " d";
}

void print_json(const std::string& directory, const StoreListing& listing) {
  nlohmann::ordered_json all = {{"directory", directory},
                                {"records", listing.records},
                                {"bytes", listing.bytes},
                                {"invalid", listing.invalid},
                                {"conversations", nlohmann::ordered_json::array()}};
  for (const StoredConversation& c : listing.conversations)
    all["conversations"].push_back({{"id", c.id},
                                    {"tokens", c.tokens},
                                    {"bytes", c.bytes},
                                    {"age_seconds", now_s() - c.used_s},
                                    {"model", hex(c.model)},
                                    {"label", c.label}});
  using Json = nlohmann::ordered_json;
  std::printf("%s\n", all.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

void print_table(const StoreListing& listing) {
  if (!listing.conversations.empty()) std::printf("%10s %12s %10s  %s\n", "tokens", "size", "last use", "model");
  for (const StoredConversation& c : listing.conversations)
    std::printf("%10llu %12s %10s  %s %s\n", static_cast<unsigned long long>(c.tokens), human_bytes(c.bytes).c_str(),
                age(now_s() - c.used_s).c_str(), hex(c.model).c_str(), escape_controls(c.label).c_str());
  std::printf("%llu records, %s", static_cast<unsigned long long>(listing.records), human_bytes(listing.bytes).c_str());
  if (listing.invalid > 0) std::printf("; %llu files cannot be used", static_cast<unsigned long long>(listing.invalid));
  std::printf("\n");
}

Status run(const Options& options) {
  if (options.kv_action == KvAction::kList) {
    LLMD_ASSIGN_OR_RETURN(const StoreListing listing, list_store(options.kv_store));
    options.json ? print_json(options.kv_store, listing) : print_table(listing);
    return {};
  }
  int64_t before = options.older_than_s ? now_s() - *options.older_than_s : std::numeric_limits<int64_t>::max();
  LLMD_ASSIGN_OR_RETURN(const PurgeResult removed, purge_store(options.kv_store, before));
  if (options.json)
    std::printf("%s\n",
                nlohmann::ordered_json({{"removed", removed.records}, {"bytes", removed.bytes}}).dump().c_str());
  else
    std::printf("%llu records removed, %s\n", static_cast<unsigned long long>(removed.records),
                human_bytes(removed.bytes).c_str());
  return {};
}

}  // namespace

Result<StoreListing> list_store(const std::string& directory) {
  LLMD_ASSIGN_OR_RETURN(StoreFiles files, StoreFiles::open_existing(directory));
  std::vector<Entry> invalid;
  LLMD_ASSIGN_OR_RETURN(std::vector<Entry> entries, read_entries(files, invalid));
  StoreListing listing;
  listing.invalid = invalid.size();
  std::map<RecordId, Entry*> by_id;
  for (Entry& entry : entries) by_id.emplace(entry.id, &entry);
  for (Entry& entry : entries) {  // what follows comes before what is followed
    listing.records++;
    listing.bytes += entry.bytes;
    auto parent = by_id.find(entry.parent);
    if (parent != by_id.end()) parent->second->followed = true;
    if (entry.followed) continue;
    StoredConversation c{
        to_hex(entry.id), uint64_t{entry.depth} * kKvPageTokens + entry.count, 0, entry.used_s, entry.model,
        entry.label};
    for (auto at = by_id.find(entry.id); at != by_id.end(); at = by_id.find(at->second->parent))
      c.bytes += at->second->bytes;
    listing.conversations.push_back(std::move(c));
  }
  std::sort(listing.conversations.begin(), listing.conversations.end(),
            [](const StoredConversation& a, const StoredConversation& b) {
              return std::pair(b.used_s, a.id) < std::pair(a.used_s, b.id);
            });
  return listing;
}

Result<PurgeResult> purge_store(const std::string& directory, int64_t before_s) {
  LLMD_ASSIGN_OR_RETURN(StoreFiles files, StoreFiles::open_existing(directory));
  std::vector<Entry> invalid;
  LLMD_ASSIGN_OR_RETURN(std::vector<Entry> entries, read_entries(files, invalid));
  std::map<RecordId, int64_t> used;  // of the record and all that follow it
  PurgeResult removed;
  auto remove = [&](const Entry& entry) {
    files.remove(entry.id);
    removed.records++;
    removed.bytes += entry.bytes;
  };
  for (const Entry& entry : entries) {
    int64_t last = std::max(entry.used_s, used[entry.id]);
    used[entry.parent] = std::max(used[entry.parent], last);
    if (last < before_s) remove(entry);
  }
  for (const Entry& entry : invalid) remove(entry);
  return removed;
}

int run_kv(const Options& options) {
  Status done = run(options);
  if (done.ok()) return std::fflush(stdout) == 0 ? 0 : 1;
  std::fprintf(stderr, "llmd: %s\n", escape_controls(done.error().to_string()).c_str());
  return 1;
}

}  // namespace llmd
