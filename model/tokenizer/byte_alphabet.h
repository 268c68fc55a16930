// The byte alphabet of byte-level BPE: every byte has one printable code point, so that tokens can be written as text.
//
// Bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for themselves; the other 68, in increasing order, are U+0100, U+0101,
// ... (so a space is U+0120). Pure functions over two constant tables; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmd {

/// The text of the bytes in the alphabet.
std::string to_byte_alphabet(std::string_view bytes);
/// The bytes that the text stands for. Code points outside the alphabet, and bytes that are no UTF-8, stay as they are.
std::string from_byte_alphabet(std::string_view text);

}  // namespace llmd
