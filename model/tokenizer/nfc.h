// to_nfc: Unicode's Normalization Form C (UAX #15), which the Qwen tokenizers apply to text before they cut it.
//
// Text between two characters that can neither change nor join their neighbours is one segment. A segment is
// decomposed, its marks are put in order, and it is composed again; other text is copied. Time is n log n in the
// longest run of marks, memory a few bytes for each character of one segment. Pure function of valid UTF-8; any thread.
// Never longer than three times its input, nor shorter than a third of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llmd {

/// At most this many bytes of text become one byte of its NFC (three conjoining jamo, 9 bytes, become a syllable of 3).
constexpr size_t kNfcShrinkMax = 3;

/// The text itself where it is in NFC already, else its NFC in `storage`.
std::string_view to_nfc(std::string_view text, std::string& storage);

}  // namespace llmd
