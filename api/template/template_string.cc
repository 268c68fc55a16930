#include "api/template/template_string.h"

#include <algorithm>

namespace llmd::jinja {

bool TemplateString::trusted_at(size_t pos) const {
  const auto before = std::upper_bound(flips_.begin(), flips_.end(), pos) - flips_.begin();
  return first_trusted_ != (before % 2 == 1);
}

void TemplateString::append(std::string_view text, bool trusted) {
  if (text.empty()) return;
  if (text_.empty()) {
    first_trusted_ = trusted;
  } else if (last_trusted() != trusted) {
    flips_.push_back(text_.size());
  }
  text_.append(text);
}

void TemplateString::append(const TemplateString& other, size_t pos, size_t length) {
  if (pos >= other.size()) return;
  const size_t end = pos + std::min(length, other.size() - pos);
  auto flip = std::upper_bound(other.flips_.begin(), other.flips_.end(), pos);
  bool trusted = other.first_trusted_ != ((flip - other.flips_.begin()) % 2 == 1);
  const std::string_view text = other.text_;
  while (pos < end) {
    const size_t stop = flip == other.flips_.end() ? end : std::min(*flip++, end);
    append(text.substr(pos, stop - pos), trusted);
    trusted = !trusted;
    pos = stop;
  }
}

TemplateString TemplateString::substr(size_t pos, size_t length) const {
  TemplateString result;
  result.append(*this, pos, length);
  return result;
}

void TemplateString::clear() {
  text_.clear();
  flips_.clear();
  first_trusted_ = false;
}

std::vector<TextRun> TemplateString::runs() const {
  std::vector<TextRun> result;
  result.reserve(flips_.size() + 1);
  size_t pos = 0;
  bool trusted = first_trusted_;
  for (size_t i = 0; i <= flips_.size() && pos < text_.size(); ++i) {
    const size_t end = i < flips_.size() ? flips_[i] : text_.size();
    result.push_back({text_.substr(pos, end - pos), trusted});
    trusted = !trusted;
    pos = end;
  }
  return result;
}

}  // namespace llmd::jinja
