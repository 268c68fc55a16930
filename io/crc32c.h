// CRC32C (Castagnoli polynomial, RFC 3720): the checksum of model files.
//
// crc32c() uses the processor's crc32 instruction where there is one, three streams at a time because one has to wait
// for itself, and a table elsewhere; both give the same value. It catches every error burst of up to 32 bits, which is
// what disks and memory do; it is no defence against someone who means harm. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace llmd {

/// The checksum of what `crc` is the checksum of (nothing: 0), followed by `bytes`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

/// The same by table, one byte at a time: the specification of the other.
uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t crc = 0);
/// Whether crc32c() uses the processor's instruction.
bool crc32c_is_hardware();

}  // namespace llmd
