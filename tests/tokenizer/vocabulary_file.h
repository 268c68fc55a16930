// VocabularyFile: builds small vocabularies in tests and hands them over as an opened GGUF.
//
// Starts with the 256 byte tokens (ids 0-255, in the order of the bytes). Everything can be spoilt on purpose: the
// public members are written as they are. One test thread.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "model/gguf/gguf.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/tokenizer.h"

namespace llmd::testing {

constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5;

struct VocabularyFile {
  std::string model = "gpt2", pre = "deepseek-v3";
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types;
  bool has_tokens = true, has_types = true, has_merges = true, has_pre = true;
  std::map<std::string, uint32_t> ids;  // "bos_token_id" -> 3
  std::map<std::string, bool> flags;    // "add_bos_token" -> true
  std::vector<int32_t> eos_token_ids;

  VocabularyFile() {
    for (int byte = 0; byte < 256; byte++) {
      char c = static_cast<char>(byte);
      add(to_byte_alphabet({&c, 1}), kNormal);
    }
  }
  int32_t add(const std::string& text, int32_t type) {
    tokens.push_back(text);
    types.push_back(type);
    return static_cast<int32_t>(tokens.size()) - 1;
  }
  /// A merge of two tokens given by their bytes, and its product (added if new).
  int32_t add_merge(const std::string& left_bytes, const std::string& right_bytes) {
    std::string left = to_byte_alphabet(left_bytes), right = to_byte_alphabet(right_bytes);
    merges.push_back(left + " " + right);
    for (size_t i = 0; i < tokens.size(); i++) {
      if (tokens[i] == left + right) return static_cast<int32_t>(i);
    }
    return add(left + right, kNormal);
  }
  /// Merges that build the word from the left: he, hel, hell, hello. The word's id.
  int32_t add_word(const std::string& bytes) {
    int32_t id = -1;
    for (size_t i = 1; i < bytes.size(); i++) id = add_merge(bytes.substr(0, i), bytes.substr(i, 1));
    return id;
  }

  Result<GgufModel> open() const {
    std::string path = ::testing::TempDir() + "llmd_vocabulary_" + std::to_string(::getpid()) + ".gguf";
    std::ofstream(path, std::ios::binary) << bytes();
    Result<GgufModel> opened = GgufModel::open(path);
    ::unlink(path.c_str());
    return opened;
  }
  Result<std::unique_ptr<Tokenizer>> load() const {
    Result<GgufModel> opened = open();
    if (!opened.ok()) return opened.error();
    return Tokenizer::load(*opened);
  }
  /// Loads or fails the test.
  std::unique_ptr<Tokenizer> load_or_die() const {
    Result<std::unique_ptr<Tokenizer>> loaded = load();
    if (!loaded.ok()) ADD_FAILURE() << loaded.error().to_string();
    LLMD_CHECK(loaded.ok());
    return std::move(loaded).value();
  }

 private:
  std::string bytes() const {
    std::string out;
    auto put = [&](auto value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); };
    auto put_text = [&](const std::string& text) {
      put(static_cast<uint64_t>(text.size()));
      out += text;
    };
    uint64_t keys = 0;
    auto put_key = [&](const std::string& key, uint32_t type) {
      put_text(key);
      put(type);
      keys++;
    };
    auto put_strings = [&](const std::string& key, const std::vector<std::string>& list) {
      put_key(key, 9);
      put(uint32_t{8});
      put(static_cast<uint64_t>(list.size()));
      for (const std::string& text : list) put_text(text);
    };
    auto put_integers = [&](const std::string& key, const std::vector<int32_t>& list) {
      put_key(key, 9);
      put(uint32_t{5});
      put(static_cast<uint64_t>(list.size()));
      for (int32_t value : list) put(value);
    };
    put_key("general.architecture", 8);
    put_text("test");
    put_key("tokenizer.ggml.model", 8);
    put_text(model);
    if (has_pre) {
      put_key("tokenizer.ggml.pre", 8);
      put_text(pre);
    }
    if (has_tokens) put_strings("tokenizer.ggml.tokens", tokens);
    if (has_types) put_integers("tokenizer.ggml.token_type", types);
    if (has_merges) put_strings("tokenizer.ggml.merges", merges);
    for (const auto& [key, id] : ids) {
      put_key("tokenizer.ggml." + key, 4);
      put(id);
    }
    for (const auto& [key, flag] : flags) {
      put_key("tokenizer.ggml." + key, 7);
      put(static_cast<uint8_t>(flag));
    }
    if (!eos_token_ids.empty()) put_integers("tokenizer.ggml.eos_token_ids", eos_token_ids);
    std::string body = std::move(out);
    out = "GGUF";
    put(uint32_t{3});
    put(uint64_t{0});
    put(keys);
    out += body;
    out.resize((out.size() + 31) / 32 * 32);
    return out;
  }
};

/// The bytes of all tokens, one after the other.
inline std::string join(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool special = true) {
  std::string out;
  for (int32_t id : ids) out += tokenizer.token_bytes(id, special);
  return out;
}

}  // namespace llmd::testing
