// SpecialTokens: which ids begin a text, end a text and end a generation.
//
// Taken from the keys of the GGUF; where a key is absent, from well-known token texts, looking only at tokens that the
// file marks as special (in Qwen's vocabulary "</s>" is an ordinary token). Plain data; any thread may read it.
#pragma once

#include <cstdint>
#include <vector>

#include "io/result.h"
#include "model/gguf/gguf.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/vocabulary.h"

namespace llmd {

struct SpecialTokens {
  int32_t bos = -1, eos = -1;
  bool add_bos = false, add_eos = false;
  std::vector<int32_t> end_of_generation;  // sorted

  /// Reads the keys; marks the end tokens and fill-in-the-middle tokens that it finds by text as control in the
  /// vocabulary. Errors: "gguf_invalid" for an id outside the vocabulary.
  static Result<SpecialTokens> find(const GgufModel& model, const PreTokenizerName& name, Vocabulary& vocabulary);
};

}  // namespace llmd
