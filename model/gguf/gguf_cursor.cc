#include "model/gguf/gguf_cursor.h"

namespace llmd {
namespace {

constexpr uint64_t kWindowBytes = 256 << 10;

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 when there is none.
size_t utf8_sequence_length(std::string_view text) {
  auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  auto continues = [&](size_t i) { return (at(i) & 0xc0u) == 0x80u; };
  unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if ((lead & 0xf0u) == 0xe0) {
    bool overlong = lead == 0xe0 && at(1) < 0xa0;
    bool surrogate = lead == 0xed && at(1) >= 0xa0;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    bool overlong = lead == 0xf0 && at(1) < 0x90;
    bool too_large = lead == 0xf4 && at(1) >= 0x90;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

}  // namespace

Error GgufCursor::invalid(std::string reason, uint64_t offset) const {
  return operating_error("gguf_invalid", std::move(reason), source_.path(), offset);
}

Status GgufCursor::refill() {
  window_.resize(std::min(kWindowBytes, remaining()));
  window_begin_ = position_;
  return source_.read(position_, window_);
}

Status GgufCursor::read(std::span<std::byte> out, std::string_view what) {
  if (out.size() > remaining()) {
    return invalid("the file ends inside the " + std::string(what) + " (" + std::to_string(out.size()) +
                       " bytes wanted, " + std::to_string(remaining()) + " left)",
                   position_);
  }
  while (!out.empty()) {
    if (position_ >= window_begin_ + window_.size()) LLMD_RETURN_IF_ERROR(refill());
    std::span<const std::byte> ready = std::span(window_).subspan(position_ - window_begin_);
    size_t n = std::min(ready.size(), out.size());
    std::copy_n(ready.begin(), n, out.begin());
    position_ += n;
    out = out.subspan(n);
  }
  return {};
}

Result<std::string> GgufCursor::string(std::string_view what, uint64_t max_bytes) {
  uint64_t start = position_;
  LLMD_ASSIGN_OR_RETURN(uint64_t length, scalar<uint64_t>(what));
  if (length > remaining()) {
    return invalid("the length of the " + std::string(what) + ", " + std::to_string(length) +
                       " bytes, is more than the rest of the file (" + std::to_string(remaining()) + ")",
                   start);
  }
  if (length > max_bytes) {
    return invalid("the length of the " + std::string(what) + ", " + std::to_string(length) +
                       " bytes, is above the limit of " + std::to_string(max_bytes),
                   start);
  }
  std::string text(length, '\0');
  LLMD_RETURN_IF_ERROR(read(std::as_writable_bytes(std::span(text)), what));
  return text;
}

Result<uint64_t> GgufCursor::count(std::string_view what, uint64_t min_bytes) {
  uint64_t start = position_;
  LLMD_ASSIGN_OR_RETURN(uint64_t items, scalar<uint64_t>(what));
  if (items > remaining() / min_bytes) {
    return invalid("the " + std::string(what) + ", " + std::to_string(items) + ", is more than the rest of the file (" +
                       std::to_string(remaining()) + " bytes) can hold",
                   start);
  }
  return items;
}

namespace gguf {

bool is_clean_utf8(std::string_view text) {
  while (!text.empty()) {
    size_t length = utf8_sequence_length(text);
    if (length == 0 || text.front() == '\0') return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string quoted(std::string_view text) {
  constexpr size_t kShown = 80;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (char c : text.substr(0, kShown)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out + (text.size() > kShown ? "...'" : "'");
}

}  // namespace gguf

}  // namespace llmd
