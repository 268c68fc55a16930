// PreTokenizer: cuts a text into the pieces that byte-level BPE merges on their own.
//
// A rule is a list of regular expressions, applied one after the other: each cuts every piece so far into its matches
// and the gaps between them. They run in PCRE2, compiled to machine code where that is allowed and interpreted where it
// is not (a hardened unit forbids writable code); both give the same pieces. The rules are data, see
// pre_tokenizer_rules.cc: a new one is a list of expressions and a name. Immutable; any thread may split.
// Errors: "tokenizer_unsupported" naming the pre-tokenizer that is not known.
#pragma once

#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/result.h"

namespace llmd {

/// A value of tokenizer.ggml.pre and what it stands for.
struct PreTokenizerName {
  std::string_view name;
  std::span<const char* const> passes;  // PCRE2 syntax; \s and \S are White_Space exactly (see expand_whitespace())
  bool add_bos = false;                 // when the file does not say
  bool never_bos = false;               // whatever the file says
  bool whole_piece_first = false;       // a piece that is a token is that token, whether or not merges build it
  bool nfc = false;                     // text is brought into Unicode's NFC before it is cut
};

/// The entry with this name, or null.
const PreTokenizerName* find_pre_tokenizer(std::string_view name);

/// The expression with \s and \S spelled out as the 25 White_Space code points (PCRE2's own \s takes U+180E too).
std::string expand_whitespace(std::string_view pattern);

class PreTokenizer {
 public:
  enum class Code { kMachineCodeIfAllowed, kInterpreted };
  static Result<PreTokenizer> create(std::string_view name, Code code = Code::kMachineCodeIfAllowed);

  const PreTokenizerName& name() const { return *name_; }
  /// Memory of one split; reuse it for many.
  struct Scratch {
    std::vector<size_t> ends, next_ends;
    std::string stand_in_text;
    std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match{nullptr, pcre2_match_data_free};
    std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> limits{nullptr, pcre2_match_context_free};
  };
  /// Leaves in scratch.ends where the pieces of the text (valid UTF-8) end, in order; none for an empty text.
  void split(std::string_view text, Scratch& scratch) const;
  uint64_t memory_bytes() const;

 private:
  using Pattern = std::unique_ptr<pcre2_code, void (*)(pcre2_code*)>;
  PreTokenizer() = default;
  static void cut(const pcre2_code* pattern, std::string_view text, Scratch& scratch);

  const PreTokenizerName* name_ = nullptr;
  std::vector<Pattern> patterns_;
};

}  // namespace llmd
