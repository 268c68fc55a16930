// TemplateString: text in which every byte knows where it came from.
//
// A byte is *trusted* when the template's author wrote it (a literal of the template, the bos or eos token) and
// *untrusted* when it came from the client. Trust is stored as the trust of the first byte and the sorted positions at
// which it flips, so that a uniform text costs nothing extra:
//
//      text    < | u s e r | > h e l l o < | e n d | >
//      trust   t t t t t t t t u u u u u t t t t t t t      first_trusted = true, flips = {8, 13}
//
// Text only enters with a stated trust and every operation is made of append() and substr(), which carry it along: no
// operation can turn an untrusted byte into a trusted one. A value type; nothing here fails.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace llmd::jinja {

class TemplateString {
 public:
  TemplateString() = default;
  TemplateString(std::string text, bool trusted) : text_(std::move(text)), first_trusted_(trusted && !text_.empty()) {}

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  /// Trust of the byte at `pos`, which must be inside the text.
  bool trusted_at(size_t pos) const;
  /// No byte is untrusted (so also for an empty text).
  bool all_trusted() const { return text_.empty() || (first_trusted_ && flips_.empty()); }

  void append(std::string_view text, bool trusted);
  void append(const TemplateString& other) { append(other, 0, other.size()); }
  /// Appends bytes [pos, pos + length) of `other` (not of itself), cut at its end.
  void append(const TemplateString& other, size_t pos, size_t length);
  TemplateString substr(size_t pos, size_t length = std::string::npos) const;
  void clear();

  /// The text as runs of one trust each: coalesced, none empty, together exactly the text.
  std::vector<TextRun> runs() const;
  size_t memory_bytes() const { return text_.capacity() + flips_.capacity() * sizeof(size_t); }

 private:
  bool last_trusted() const { return first_trusted_ != (flips_.size() % 2 == 1); }

  std::string text_;
  std::vector<size_t> flips_;
  bool first_trusted_ = false;
};

}  // namespace llmd::jinja
