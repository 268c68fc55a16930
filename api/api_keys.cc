#include "api/api_keys.h"

#include <algorithm>
#include <span>
#include <string>

namespace llmd {
namespace {

constexpr size_t kKeyBytesMin = 8, kKeyBytesMax = 512, kKeysMax = 1024;

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  while (!line.empty() && kBlank.find(line.front()) != kBlank.npos) line.remove_prefix(1);
  while (!line.empty() && kBlank.find(line.back()) != kBlank.npos) line.remove_suffix(1);
  return line;
}

}  // namespace

Result<ApiKeys> ApiKeys::parse(std::string_view text) {
  ApiKeys keys;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const bool plain = std::all_of(line.begin(), line.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    if (!plain || line.size() < kKeyBytesMin || line.size() > kKeyBytesMax) {
      return operating_error("api_keys_invalid", "line " + std::to_string(number) +
                                                     " is not a key: it takes 8 to 512 printable characters without "
                                                     "spaces");
    }
    if (keys.digests_.size() == kKeysMax) return operating_error("api_keys_invalid", "there are more than 1024 keys");
    keys.digests_.push_back(sha256(std::as_bytes(std::span(line))));
  }
  if (keys.empty()) return operating_error("api_keys_invalid", "there is no key in it");
  return keys;
}

bool ApiKeys::accept(std::string_view token) const {
  const Sha256 digest = sha256(std::as_bytes(std::span(token)));
  unsigned equal = 0;
  for (const Sha256& known : digests_) {
    unsigned difference = 0;
    for (size_t i = 0; i < digest.size(); ++i) difference |= static_cast<unsigned>(digest[i] ^ known[i]);
    equal |= difference == 0 ? 1u : 0u;
  }
  return equal != 0;
}

void ApiKeys::add(const ApiKeys& others) {
  digests_.insert(digests_.end(), others.digests_.begin(), others.digests_.end());
}

}  // namespace llmd
