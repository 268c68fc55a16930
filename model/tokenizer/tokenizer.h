// Tokenizer: text to token ids and back, from the vocabulary in a GGUF.
//
// Byte-level BPE (tokenizer.ggml.model = gpt2) with the pre-tokenizers of pre_tokenizer_rules.cc. Text comes as runs
// with provenance: control tokens (<｜User｜>, <|im_end|>, ...) are recognised only where the whole match lies inside
// trusted text; user_defined tokens are recognised anywhere; everything between is one text, tokenized across run
// borders. Merging is near-linear in the length. Immutable after load(); any thread may encode and decode.
// Errors: operating "tokenizer_unsupported" naming the model or pre-tokenizer, "gguf_invalid" for a broken vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/result.h"
#include "model/gguf/gguf.h"

namespace llmd {

/// A piece of prompt text and whether it may contain control tokens (template literals, bos/eos: yes; client text: no).
struct TextRun {
  std::string text;
  bool trusted = false;
};

class Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const GgufModel& model);
  virtual ~Tokenizer() = default;

  /// Ids of the concatenated runs. With add_special, BOS and EOS are added as the model asks (a BOS that the text
  /// already begins with, or an EOS it ends with, inside trusted text, is not doubled). Invalid UTF-8 is kept byte for
  /// byte. The tokens' bytes are the text (Qwen's: its NFC).
  virtual std::vector<int32_t> encode(std::span<const TextRun> runs, bool add_special) const = 0;
  /// One run: parse_special is its trust.
  std::vector<int32_t> encode(std::string_view text, bool parse_special, bool add_special) const;

  /// The bytes a token stands for: normal and byte tokens their bytes, user_defined its text, control and unknown
  /// tokens nothing unless `special` asks for their text. An id outside the vocabulary gives nothing.
  virtual std::string_view token_bytes(int32_t id, bool special = false) const = 0;
  virtual bool is_control(int32_t id) const = 0;
  /// Ends a generation: eos, eot, eom and the well-known end tokens among tokens that are not of type normal.
  virtual bool is_end_of_generation(int32_t id) const = 0;
  virtual int32_t vocab_size() const = 0;
  virtual int32_t bos() const = 0;  // -1: none
  virtual int32_t eos() const = 0;  // -1: none
  virtual bool add_bos() const = 0;
  virtual std::string bos_text() const = 0;  // "" when there is none
  virtual std::string eos_text() const = 0;
  virtual const std::string& pre() const = 0;
  /// The id of a token by its exact text (control and user_defined: raw text; normal: byte-alphabet text), or -1.
  virtual int32_t find(std::string_view text) const = 0;
  /// Heap bytes held, for the budget.
  virtual uint64_t memory_bytes() const = 0;
  /// The most bytes of text that one token can stand for (at least 1): a text of more than n times this many bytes has
  /// more than n tokens.
  virtual int32_t longest_token_bytes() const = 0;
};

/// Turns a stream of tokens into text that is valid UTF-8 at every step: an incomplete character waits for its rest,
/// bytes that can never become one are replaced by U+FFFD (one per maximal bad sequence). One per generation.
class Detokenizer {
 public:
  /// Adds a token's bytes; returns the text that became complete (may be empty).
  std::string add(std::string_view token_bytes);
  /// At the end of generation: an incomplete tail is dropped (it was never a character).
  void finish() { pending_.clear(); }
  bool has_pending() const { return !pending_.empty(); }

 private:
  std::string pending_;
};

/// Holds back text that may turn out to be a stop string. One per generation.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  /// Adds text; returns what may be sent now. After a match stopped() is true and nothing after it is ever returned.
  std::string add(std::string_view text);
  /// The generation ended without a match: the text held back.
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_, matched_;
  bool stopped_ = false;
};

}  // namespace llmd
