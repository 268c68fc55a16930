// What `llmd kv` shows and removes: the KV store's directory, seen from outside (docs/formats/kv-store.md).
//
// Reads headers only and needs no model; a daemon may be using the directory meanwhile, which notices records that are
// gone when it comes upon them. Called from the main thread. Errors: "kv_store_open".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/result.h"

namespace llmd {

/// A record that nothing follows, with all before it.
struct StoredConversation {
  std::string id;       // of the last record
  uint64_t tokens = 0;  // from the first
  uint64_t bytes = 0;   // of all its files, some of which others may share
  int64_t used_s = 0;   // last use, seconds since 1970
  uint64_t model = 0;   // identity of the model
  std::string label;    // its name
};

struct StoreListing {
  std::vector<StoredConversation> conversations;  // used last first
  uint64_t records = 0, bytes = 0;                // each file once
  uint64_t invalid = 0;                           // files that are no usable records
};
Result<StoreListing> list_store(const std::string& directory);

struct PurgeResult {
  uint64_t records = 0, bytes = 0;  // removed
};
/// Removes records that were not used since `before_s`, unless one that was follows them, and invalid ones. INT64_MAX
/// removes all.
Result<PurgeResult> purge_store(const std::string& directory, int64_t before_s);

}  // namespace llmd
