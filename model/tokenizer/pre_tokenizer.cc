#include "model/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <new>

#include "model/tokenizer/unicode_additions.h"
#include "model/tokenizer/utf8.h"

namespace llmd {
namespace {

constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// A copy with stand-ins for code points newer than PCRE2's tables, or the text itself when there are none.
std::string_view with_stand_ins(std::string_view text, std::string& copy) {
  copy.clear();
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0xE0) {  // all newer ones take three or four bytes
      at++;
      continue;
    }
    Utf8Step step = decode_utf8(text, at);
    char32_t c = newer_code_point_stand_in(step.code_point);
    if (c != 0) {
      if (copy.empty()) copy = text;
      for (uint32_t i = step.length; --i > 0; c >>= 6) copy[at + i] = static_cast<char>(0x80 | (c & 0x3F));
      copy[at] = static_cast<char>((step.length == 3 ? 0xE0u : 0xF0u) | c);
    }
    at += step.length;
  }
  return copy.empty() ? text : std::string_view(copy);
}

/// Finds the next match at or after `from`. False: none, or the matcher gave up (then the rest stays one piece).
bool next_match(const pcre2_code* pattern, std::string_view piece, size_t from, PreTokenizer::Scratch& scratch,
                size_t* begin, size_t* end) {
  auto subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  int found =
      pcre2_match(pattern, subject, piece.size(), from, PCRE2_NO_UTF_CHECK, scratch.match.get(), scratch.limits.get());
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) {  // machine code has a small stack: the interpreter has the heap
    found = pcre2_match(pattern, subject, piece.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch.match.get(),
                        scratch.limits.get());
  }
  if (found < 0) return false;
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(scratch.match.get());
  *begin = span[0];
  *end = span[1];
  return true;
}

}  // namespace

std::string expand_whitespace(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); i++) {
    char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      char escaped = pattern[++i];
      if (escaped == 's') {
        out.append(in_class ? "" : "[").append(kWhiteSpace).append(in_class ? "" : "]");
      } else if (escaped == 'S') {
        LLMD_CHECK(!in_class);
        out.append("[^").append(kWhiteSpace).append("]");
      } else {
        out.append({c, escaped});
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

Result<PreTokenizer> PreTokenizer::create(std::string_view name, Code code) {
  PreTokenizer result;
  result.name_ = find_pre_tokenizer(name);
  if (!result.name_) {
    return operating_error("tokenizer_unsupported", "the pre-tokenizer \"" + std::string(name) + "\" is not supported");
  }
  for (const char* pass : result.name_->passes) {
    std::string text = expand_whitespace(pass);
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    Pattern pattern(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF | PCRE2_UCP, &error,
                                  &error_offset, nullptr),
                    pcre2_code_free);
    if (!pattern) {  // a PCRE2 built without Unicode, or out of memory
      return operating_error("tokenizer_unsupported", "PCRE2 cannot compile the rule of pre-tokenizer \"" +
                                                          std::string(name) + "\" (error " + std::to_string(error) +
                                                          " at " + std::to_string(error_offset) + ")");
    }
    if (code == Code::kMachineCodeIfAllowed) pcre2_jit_compile(pattern.get(), PCRE2_JIT_COMPLETE);
    result.patterns_.push_back(std::move(pattern));
  }
  return result;
}

void PreTokenizer::split(std::string_view text, Scratch& scratch) const {
  scratch.ends.clear();
  if (text.empty()) return;
  if (!scratch.match) {
    scratch.match.reset(pcre2_match_data_create(1, nullptr));
    scratch.limits.reset(pcre2_match_context_create(nullptr));
    if (!scratch.match || !scratch.limits) throw std::bad_alloc();
  }
  // The rules backtrack at most a few steps per byte, each byte once: a limit that grows with the text is never met.
  size_t limit = std::min<size_t>(10'000'000 + 16 * text.size(), UINT32_MAX);
  pcre2_set_match_limit(scratch.limits.get(), static_cast<uint32_t>(limit));
  std::string_view subject = with_stand_ins(text, scratch.stand_in_text);
  scratch.ends.push_back(text.size());
  for (const Pattern& pattern : patterns_) cut(pattern.get(), subject, scratch);
}

void PreTokenizer::cut(const pcre2_code* pattern, std::string_view text, Scratch& scratch) {
  std::vector<size_t>& out = scratch.next_ends;
  out.clear();
  size_t piece_begin = 0;
  for (size_t piece_end : scratch.ends) {
    std::string_view piece = text.substr(piece_begin, piece_end - piece_begin);
    size_t done = 0, begin = 0, end = 0;  // piece[0, done) is cut
    while (done < piece.size() && next_match(pattern, piece, done, scratch, &begin, &end)) {
      if (end <= begin) break;  // no rule matches nothing
      if (begin > done) out.push_back(piece_begin + begin);
      out.push_back(piece_begin + end);
      done = end;
    }
    if (done < piece.size()) out.push_back(piece_end);
    piece_begin = piece_end;
  }
  std::swap(scratch.ends, scratch.next_ends);
}

uint64_t PreTokenizer::memory_bytes() const {
  uint64_t total = 0;
  for (const Pattern& pattern : patterns_) {
    size_t code = 0, machine_code = 0;
    pcre2_pattern_info(pattern.get(), PCRE2_INFO_SIZE, &code);
    pcre2_pattern_info(pattern.get(), PCRE2_INFO_JITSIZE, &machine_code);
    total += code + machine_code;
  }
  return total;
}

}  // namespace llmd
