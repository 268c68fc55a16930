// parse_json: a request body to a JSON value, strictly and with every cost bounded.
//
// RFC 8259, and further: the text must be UTF-8, escaped surrogates must come in pairs, nesting and the number of
// values are limited, and of keys given twice the last one wins. Key order is kept (templates print objects). The work
// is linear in the size of the text. Any thread. Errors: client "invalid_json" with the byte where it went wrong.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "io/result.h"

namespace llmd {

struct JsonLimits {
  uint32_t depth_max = 64;
  uint32_t values_max = 65'536;  // with depth_max, bounds the memory of the value: about 100 bytes each
};

Result<nlohmann::ordered_json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace llmd
