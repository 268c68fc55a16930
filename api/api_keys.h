// ApiKeys: the keys that clients may use, kept as their SHA-256, never as text.
//
// Filled before the server starts and constant afterwards: any thread may ask. accept() takes as long whatever the
// token is and whichever key it equals. Errors of parse(): operating "api_keys_invalid", never quoting a key.
#pragma once

#include <string_view>
#include <vector>

#include "io/result.h"
#include "kv/sha256.h"

namespace llmd {

class ApiKeys {
 public:
  /// One key a line, of 8 to 512 printable characters without spaces; empty lines and those that begin with # do not
  /// count. A text without any key is an error: it would leave the server open.
  static Result<ApiKeys> parse(std::string_view text);

  bool empty() const { return digests_.empty(); }
  bool accept(std::string_view token) const;
  void add(const ApiKeys& others);

 private:
  std::vector<Sha256> digests_;
};

}  // namespace llmd
