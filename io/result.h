// Result<T>: a value or an Error. How every fallible function in llmd reports.
//
// Errors come in two kinds. A *client* error is something the sender of a request can mend: it becomes a 4xx with
// `param`. An *operating* error is a file, disk, memory or limit problem: it names the file and the byte offset where
// there is one. The third kind, a bug, is LLMD_CHECK (io/check.h). Exceptions of libraries are caught where they enter
// and turned into an Error. Values are movable; any thread may use its own Result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "io/check.h"

namespace llmd {

enum class ErrorKind { kClient, kOperating };

struct Error {
  ErrorKind kind = ErrorKind::kOperating;
  std::string code;     // stable, snake_case: "context_length_exceeded", "model_read_error", "gguf_invalid", ...
  std::string message;  // one sentence for a person, with the cure where there is one; never a path for client errors
  std::string param;    // client errors: the request field, e.g. "messages[2].content"; else empty
  std::string file;     // operating errors: path of the file, else empty
  std::optional<uint64_t> offset;  // operating errors: byte offset in `file`

  /// The message with file and offset, for a log or a terminal.
  std::string to_string() const;
};

inline Error client_error(std::string code, std::string message, std::string param = {}) {
  return Error{ErrorKind::kClient, std::move(code), std::move(message), std::move(param), {}, {}};
}
inline Error operating_error(std::string code, std::string message, std::string file = {},
                             std::optional<uint64_t> offset = {}) {
  return Error{ErrorKind::kOperating, std::move(code), std::move(message), {}, std::move(file), offset};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    LLMD_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    LLMD_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    LLMD_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  const Error& error() const& {
    LLMD_CHECK(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    LLMD_CHECK(!ok());
    return std::get<1>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    LLMD_CHECK(!ok());
    return *error_;
  }
  Error&& error() && {
    LLMD_CHECK(!ok());
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace llmd

#define LLMD_CONCAT_INNER(a, b) a##b
#define LLMD_CONCAT(a, b) LLMD_CONCAT_INNER(a, b)

/// Return the error of `expression` (a Status or Result), if it has one.
#define LLMD_RETURN_IF_ERROR(expression)                            \
  do {                                                              \
    auto llmd_status_ = (expression);                               \
    if (!llmd_status_.ok()) return std::move(llmd_status_).error(); \
  } while (false)

/// Declare or assign `target` from the value of a Result, or return its error.
#define LLMD_ASSIGN_OR_RETURN(target, expression) \
  LLMD_ASSIGN_OR_RETURN_INNER(LLMD_CONCAT(llmd_result_, __LINE__), target, expression)
#define LLMD_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                   \
  if (!result.ok()) return std::move(result).error();           \
  target = std::move(result).value()
