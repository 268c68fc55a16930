// The code points assigned after Unicode 14, for regular expression libraries whose tables end there.
//
// PCRE2 10.42 has Unicode 14; the models' reference tokenizer has 16. A newer code point is unassigned to the older
// library and so belongs to no class. newer_code_point_stand_in() names an older one of the same classes (category,
// Han or not), of the same length in UTF-8, and alike with respect to every explicit range in pre_tokenizer_rules.cc;
// matching on a text where the stand-ins replace the newer ones gives Unicode 16's cuts. Pure function; any thread.
#pragma once

namespace llmd {

/// The stand-in, or 0 when the code point needs none.
char32_t newer_code_point_stand_in(char32_t code_point);

}  // namespace llmd
