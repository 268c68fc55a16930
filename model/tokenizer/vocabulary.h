// Vocabulary: the tokens of a GGUF, checked: their texts, their bytes, their types, and a map from text to id.
//
// Texts live in two flat arenas (as in the file, and as bytes) with one open-addressing table over them: a vocabulary
// of 129,280 tokens takes about 5 MB. load() checks everything it uses and fails with "gguf_invalid". Built by one
// thread, which may still set types (special_tokens.h); immutable afterwards, any thread may read.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/result.h"
#include "model/gguf/gguf.h"

namespace llmd {

/// tokenizer.ggml.token_type, as in the file.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

class Vocabulary {
 public:
  static Result<Vocabulary> load(const GgufModel& model);

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  bool contains(int64_t id) const { return id >= 0 && id < size(); }
  TokenType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
  void set_type(int32_t id, TokenType type) { types_[static_cast<size_t>(id)] = type; }

  /// Cut out of a text before the rest is tokenized.
  bool is_special(int32_t id) const;
  /// Made by merging bytes: the only tokens that plain text can become.
  bool is_plain(int32_t id) const;

  std::string_view text(int32_t id) const { return texts_.at(id); }
  /// The bytes of a plain token (empty for others).
  std::string_view bytes(int32_t id) const { return bytes_.at(id); }
  /// The id with this text, or -1. Empty texts are never found.
  int32_t find(std::string_view text) const;
  /// The plain token of a single byte, or -1.
  int32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }

  uint64_t memory_bytes() const;

 private:
  struct StringArena {
    std::string bytes;
    std::vector<uint32_t> begins{0};
    void add(std::string_view text);
    std::string_view at(int32_t id) const;
  };
  Vocabulary() { byte_tokens_.fill(-1); }
  Status read_types(const GgufModel& model, size_t count);
  Status read_texts(const std::vector<std::string>& tokens);
  Status build_index();
  void find_byte_tokens();

  std::vector<TokenType> types_;
  StringArena texts_, bytes_;
  std::vector<int32_t> table_;  // open addressing, linear probing, at most half full; -1 = empty
  std::array<int32_t, 256> byte_tokens_{};
};

/// The operating Error of a vocabulary that cannot be used.
Error vocabulary_error(const std::string& message);

}  // namespace llmd
