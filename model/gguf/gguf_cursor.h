// GgufCursor: reads a GGUF header front to back through a small window, and can never leave the file.
//
// Every read is checked against the bytes that remain first, so a length or count that the file lies about ends in an
// Error "gguf_invalid" with the offset of the lie, before anything of that size is allocated. Used by one thread.
// Also here: the arithmetic that must not wrap, and the form in which text from a file may appear in a message.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/result.h"
#include "model/gguf/gguf_source.h"

namespace llmd {

static_assert(std::endian::native == std::endian::little, "GGUF fields are copied as they are");

class GgufCursor {
 public:
  explicit GgufCursor(GgufSource& source) : source_(source) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return source_.bytes() - position_; }

  /// The error "gguf_invalid" at a byte offset of this file.
  Error invalid(std::string reason, uint64_t offset) const;

  /// A fixed-size little-endian field; `what` names it when the file ends before it.
  template <typename T>
  Result<T> scalar(std::string_view what) {
    T value;
    LLMD_RETURN_IF_ERROR(read(std::as_writable_bytes(std::span(&value, 1)), what));
    return value;
  }

  /// A u64 length and that many bytes. A length above `max_bytes` or the rest of the file is an error.
  Result<std::string> string(std::string_view what, uint64_t max_bytes);

  /// A u64 count of things of at least `min_bytes` each; a count that the rest of the file cannot hold is an error.
  Result<uint64_t> count(std::string_view what, uint64_t min_bytes);

  Status read(std::span<std::byte> out, std::string_view what);

 private:
  Status refill();

  GgufSource& source_;
  uint64_t position_ = 0;
  std::vector<std::byte> window_;
  uint64_t window_begin_ = 0;
};

namespace gguf {

/// a * b, a + b, or nothing where that wraps.
inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}
inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional(sum);
}
/// `value` rounded up to a multiple of the power of two `alignment`, or nothing where that wraps.
inline std::optional<uint64_t> checked_align(uint64_t value, uint64_t alignment) {
  std::optional<uint64_t> raised = checked_add(value, alignment - 1);
  if (raised) *raised &= ~(alignment - 1);
  return raised;
}

/// Well-formed UTF-8 (no overlong forms, no surrogates) without NUL.
bool is_clean_utf8(std::string_view text);

/// Text from a file in a form that is safe in a message or on a terminal: in quotes, control characters and bytes that
/// are not ASCII escaped, cut after 80 bytes.
std::string quoted(std::string_view text);

}  // namespace gguf

}  // namespace llmd
