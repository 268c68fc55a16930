// SHA-256 (FIPS 180-4), one-shot: names of stored records, which must never stand for two different contents.
//
// In plain loops: what is hashed is about a kilobyte for 256 tokens. A pure function; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace llmd {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::span<const std::byte> bytes);

}  // namespace llmd
