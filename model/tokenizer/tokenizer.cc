// BpeTokenizer: the pieces put together. A text goes through three stages:
//
//   runs --concatenate--> text + trusted intervals
//        --SpecialMatcher--> special tokens, and fragments of plain text between them
//        --NFC (Qwen only), PreTokenizer--> pieces of each fragment --Merges--> tokens
//
// Bytes that are not UTF-8 become their byte tokens one by one; the regular expressions see only the valid stretches.
#include "model/tokenizer/tokenizer.h"

#include <algorithm>

#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/merges.h"
#include "model/tokenizer/nfc.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/special_matcher.h"
#include "model/tokenizer/special_tokens.h"
#include "model/tokenizer/utf8.h"
#include "model/tokenizer/vocabulary.h"

namespace llmd {
namespace {

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(Vocabulary vocabulary, Merges merges, SpecialMatcher matcher, SpecialTokens special,
               PreTokenizer pre_tokenizer)
      : vocabulary_(std::move(vocabulary)),
        merges_(std::move(merges)),
        matcher_(std::move(matcher)),
        special_(std::move(special)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        pre_(pre_tokenizer_.name().name) {
    for (int32_t id = 0; id < vocabulary_.size(); id++) {
      size_t bytes = vocabulary_.is_plain(id) ? vocabulary_.bytes(id).size() : vocabulary_.text(id).size();
      longest_token_bytes_ = std::max(longest_token_bytes_, static_cast<int32_t>(bytes));
    }
    if (pre_tokenizer_.name().nfc) longest_token_bytes_ *= static_cast<int32_t>(kNfcShrinkMax);
  }

  using Tokenizer::encode;
  std::vector<int32_t> encode(std::span<const TextRun> runs, bool add_special) const override;

  std::string_view token_bytes(int32_t id, bool special) const override;
  bool is_control(int32_t id) const override {
    return vocabulary_.contains(id) && vocabulary_.type(id) == TokenType::kControl;
  }
  bool is_end_of_generation(int32_t id) const override {
    return std::binary_search(special_.end_of_generation.begin(), special_.end_of_generation.end(), id);
  }
  int32_t vocab_size() const override { return vocabulary_.size(); }
  int32_t bos() const override { return special_.bos; }
  int32_t eos() const override { return special_.eos; }
  bool add_bos() const override { return special_.add_bos; }
  std::string bos_text() const override { return text_of(special_.bos); }
  std::string eos_text() const override { return text_of(special_.eos); }
  const std::string& pre() const override { return pre_; }
  int32_t find(std::string_view text) const override { return vocabulary_.find(text); }
  uint64_t memory_bytes() const override {
    return vocabulary_.memory_bytes() + merges_.memory_bytes() + matcher_.memory_bytes() +
           pre_tokenizer_.memory_bytes();
  }
  int32_t longest_token_bytes() const override { return longest_token_bytes_; }

 private:
  std::string text_of(int32_t id) const { return id < 0 ? std::string() : std::string(vocabulary_.text(id)); }
  void encode_fragment(std::string_view text, PreTokenizer::Scratch& scratch, std::vector<int32_t>& out) const;
  void encode_pieces(std::string_view text, PreTokenizer::Scratch& scratch, std::vector<int32_t>& out) const;

  Vocabulary vocabulary_;
  Merges merges_;
  SpecialMatcher matcher_;
  SpecialTokens special_;
  PreTokenizer pre_tokenizer_;
  std::string pre_;
  int32_t longest_token_bytes_ = 1;
};

struct Interval {
  size_t begin, end;
};

/// The trusted parts of the concatenated text, neighbours joined.
std::vector<Interval> concatenate(std::span<const TextRun> runs, std::string& text) {
  size_t total = 0;
  for (const TextRun& run : runs) total += run.text.size();
  text.reserve(total);
  std::vector<Interval> trusted;
  for (const TextRun& run : runs) {
    size_t begin = text.size();
    text += run.text;
    if (!run.trusted || run.text.empty()) continue;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = text.size();
    } else {
      trusted.push_back({begin, text.size()});
    }
  }
  return trusted;
}

std::vector<int32_t> BpeTokenizer::encode(std::span<const TextRun> runs, bool add_special) const {
  std::string text;
  std::vector<Interval> trusted = concatenate(runs, text);
  std::vector<int32_t> ids;
  if (add_special && special_.add_bos) ids.push_back(special_.bos);
  PreTokenizer::Scratch scratch;
  size_t done = 0, interval = 0;  // text[0, done) is in ids
  bool ends_with_eos = false;
  for (size_t at = 0; at < text.size();) {
    if (!matcher_.may_begin_with(text[at])) {
      at++;
      continue;
    }
    while (interval < trusted.size() && trusted[interval].end <= at) interval++;
    bool is_trusted = interval < trusted.size() && trusted[interval].begin <= at;
    size_t trusted_end = is_trusted ? trusted[interval].end : 0;
    SpecialMatcher::Match match = matcher_.longest(vocabulary_, text, at, trusted_end);
    if (match.length == 0) {
      at++;
      continue;
    }
    encode_fragment(std::string_view(text).substr(done, at - done), scratch, ids);
    bool inside_trusted = at + match.length <= trusted_end;
    bool doubled_bos = at == 0 && inside_trusted && match.id == special_.bos && !ids.empty();
    if (!doubled_bos) ids.push_back(match.id);
    at += match.length;
    done = at;
    ends_with_eos = at == text.size() && inside_trusted && match.id == special_.eos;
  }
  encode_fragment(std::string_view(text).substr(done), scratch, ids);
  if (add_special && special_.add_eos && !ends_with_eos) ids.push_back(special_.eos);
  return ids;
}

void BpeTokenizer::encode_fragment(std::string_view text, PreTokenizer::Scratch& scratch,
                                   std::vector<int32_t>& out) const {
  size_t valid_begin = 0;
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = decode_utf8(text, at);
    if (step.kind == Utf8Kind::kValid) {
      at += step.length;
      continue;
    }
    encode_pieces(text.substr(valid_begin, at - valid_begin), scratch, out);
    for (char c : text.substr(at, step.length)) {
      int32_t id = vocabulary_.byte_token(static_cast<uint8_t>(c));
      if (id >= 0) out.push_back(id);
    }
    at += step.length;
    valid_begin = at;
  }
  encode_pieces(text.substr(valid_begin), scratch, out);
}

void BpeTokenizer::encode_pieces(std::string_view text, PreTokenizer::Scratch& scratch,
                                 std::vector<int32_t>& out) const {
  std::string normalized;
  if (pre_tokenizer_.name().nfc) text = to_nfc(text, normalized);
  pre_tokenizer_.split(text, scratch);
  size_t begin = 0;
  for (size_t end : scratch.ends) {
    std::string_view piece = text.substr(begin, end - begin);
    begin = end;
    if (pre_tokenizer_.name().whole_piece_first) {
      int32_t id = vocabulary_.find(to_byte_alphabet(piece));
      if (id >= 0 && vocabulary_.is_plain(id)) {
        out.push_back(id);
        continue;
      }
    }
    merges_.merge(piece, vocabulary_, out);
  }
}

std::string_view BpeTokenizer::token_bytes(int32_t id, bool special) const {
  if (!vocabulary_.contains(id)) return {};
  if (vocabulary_.is_plain(id)) return vocabulary_.bytes(id);
  if (vocabulary_.type(id) == TokenType::kUserDefined) return vocabulary_.text(id);
  bool printable = vocabulary_.type(id) == TokenType::kControl || vocabulary_.type(id) == TokenType::kUnknown;
  return special && printable ? vocabulary_.text(id) : std::string_view();
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special, bool add_special) const {
  TextRun run{std::string(text), parse_special};
  return encode(std::span<const TextRun>(&run, 1), add_special);
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const GgufModel& model) {
  const std::string* kind = model.get_string("tokenizer.ggml.model");
  if (!kind) return operating_error("tokenizer_unsupported", "the file has no vocabulary (tokenizer.ggml.model)");
  if (*kind != "gpt2") {
    return operating_error("tokenizer_unsupported",
                           "the tokenizer model \"" + *kind + "\" is not supported, only \"gpt2\" (byte-level BPE) is");
  }
  const std::string* pre = model.get_string("tokenizer.ggml.pre");
  if (!pre) {
    return operating_error("tokenizer_unsupported",
                           "the file does not name its pre-tokenizer; name it with --override-kv "
                           "tokenizer.ggml.pre=str:NAME (DeepSeek-V3: deepseek-v3, DeepSeek-V2: deepseek-llm)");
  }
  LLMD_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::create(*pre));
  LLMD_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::load(model));
  LLMD_ASSIGN_OR_RETURN(SpecialTokens special, SpecialTokens::find(model, pre_tokenizer.name(), vocabulary));
  LLMD_ASSIGN_OR_RETURN(Merges merges, Merges::load(model, vocabulary));
  LLMD_ASSIGN_OR_RETURN(SpecialMatcher matcher, SpecialMatcher::build(vocabulary));
  return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(
      std::move(vocabulary), std::move(merges), std::move(matcher), std::move(special), std::move(pre_tokenizer)));
}

}  // namespace llmd
