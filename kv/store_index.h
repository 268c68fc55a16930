// StoreIndex: what lies in the KV store, in memory: which record follows which, what they hold and when they were used.
//
// Records form a tree under ids (kv/store_record.h); a lookup walks it by token ids, as the prefix tree does. At most
// `records_max` records with about 1.5 KiB each. Records of other models in the same directory count by their size
// alone. The thread that leads the step owns it; nothing here touches a file or fails.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/store_record.h"

namespace llmd {

class StoreIndex {
 public:
  static constexpr int32_t kNone = -1;
  struct Record {
    RecordId id{}, parent{};
    uint64_t bytes = 0;
    int64_t used_ns = 0;     // since 1970
    int64_t touched_ns = 0;  // the last use that the file knows of
    uint32_t depth = 0;
    bool foreign = false;  // of another store key
    bool pending = false;  // not in the store yet
    std::vector<int32_t> tokens;
    std::vector<uint8_t> forms;
  };

  /// The record must not be there yet. Returns its number, which is valid until it is removed.
  int32_t add(const RecordHeader& header, int64_t used_ns, bool foreign, bool pending);
  void remove(int32_t number);
  /// kNone when there is none.
  int32_t find(const RecordId& id) const;
  Record& operator[](int32_t number) { return records_[static_cast<size_t>(number)]; }
  const Record& operator[](int32_t number) const { return records_[static_cast<size_t>(number)]; }

  struct Found {
    int32_t number = kNone;
    int32_t tokens = 0;
  };
  /// The durable child of `parent` that shares the most leading tokens; of several, the one used last. Those that share
  /// a whole page are added to `whole`.
  Found best_child(const RecordId& parent, std::span<const int32_t> tokens, std::vector<RecordId>& whole) const;
  /// Whether `a` shares more tokens than `b`, or as many and was used later.
  bool better(const Found& a, const Found& b) const;
  /// A child that holds all these rows and possibly more (pending or not), or kNone.
  int32_t child_with(const RecordId& parent, std::span<const int32_t> tokens, std::span<const uint8_t> forms) const;
  /// A durable child whose rows are fewer than these and the same, so that a record of these replaces it; or kNone.
  int32_t child_within(const RecordId& parent, std::span<const int32_t> tokens, std::span<const uint8_t> forms) const;
  bool has_children(const RecordId& id) const { return children_.contains(id); }
  /// The record and all that follow it, those at the end first.
  std::vector<int32_t> subtree(int32_t number) const;
  /// The durable record without children that was used longest ago, or kNone.
  int32_t oldest_leaf() const;
  /// Records that follow a page that is not there.
  std::vector<RecordId> orphans() const;

  size_t size() const { return by_id_.size(); }
  /// Bytes of all records, the pending ones too.
  uint64_t bytes() const { return bytes_; }

 private:
  struct Hash {
    size_t operator()(const RecordId& id) const;
  };
  using Numbers = std::vector<int32_t>;
  const Numbers& children(const RecordId& id) const;

  std::vector<Record> records_;
  std::vector<int32_t> free_;
  std::unordered_map<RecordId, int32_t, Hash> by_id_;
  std::unordered_map<RecordId, Numbers, Hash> children_;  // by the parent's id
  uint64_t bytes_ = 0;
};

}  // namespace llmd
