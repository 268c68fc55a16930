// StoreFiles: the directory of the KV store, one file for each record, named by its id.
//
//   DIR/<64 hex digits>.kv        a record
//   DIR/<64 hex digits>.kv.tmp    one that is being written; after a crash it is removed
//
// A record is written aside (payload, then header), synced, renamed and the directory synced, so that it is there whole
// or not at all. Writes bypass the page cache where the file system allows it. Nothing else in the directory is looked
// at. One thread writes and removes; path() is anybody's. Errors carry the file and the system's reason.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/result.h"
#include "kv/store_record.h"

namespace llmd {

/// What a scan found under the name of a record.
struct StoredFile {
  std::string path;
  RecordId id{};                         // by its name
  uint64_t bytes = 0;                    // of the file
  int64_t used_ns = 0;                   // last use, since 1970
  const Error* error = nullptr;          // why it is no record; null: it is one, as far as its header tells
  const RecordHeader* header = nullptr;  // null with an error
};

class StoreFiles {
 public:
  /// Makes the directory (0700) where it is missing. Errors: "kv_store_open"; "kv_store_busy" with `exclusive` when
  /// another process has it so.
  static Result<StoreFiles> open(const std::string& directory, bool exclusive);
  /// An existing directory, for looking at.
  static Result<StoreFiles> open_existing(const std::string& directory);
  StoreFiles(StoreFiles&& other) noexcept;
  StoreFiles& operator=(StoreFiles&&) = delete;
  ~StoreFiles();

  std::string path(const RecordId& id) const { return directory_ + "/" + to_hex(id) + ".kv"; }

  /// Visits every record file, reading headers only. With `remove_leftovers`, removes what a crash left behind.
  Status scan(bool remove_leftovers, const std::function<void(const StoredFile&)>& visit);

  /// Writes the first header.count rows of `page` as a record; fills in the header's checksum. Returns 0 or the errno.
  int write(RecordHeader& header, const KvLayout& layout, const std::byte* page);
  /// Removes a record; that it is gone already is as good.
  void remove(const RecordId& id);
  /// Notes that a record is used now.
  void touch(const RecordId& id);

  /// For tests: called with 0, 1, 2... after each step of a write.
  void set_write_hook(std::function<void(int step)> hook) { hook_ = std::move(hook); }

 private:
  StoreFiles() = default;
  int open_aside(const std::string& path);
  int write_payload(int fd, RecordHeader& header, const KvLayout& layout, const std::byte* page);
  void step(int number) {
    if (hook_) hook_(number);
  }

  std::string directory_;
  int directory_fd_ = -1;
  bool direct_ = true;  // until the file system refuses
  std::unique_ptr<std::byte, void (*)(void*)> staging_{nullptr, nullptr};
  std::function<void(int)> hook_;
};

}  // namespace llmd
