#include "model/tokenizer/special_tokens.h"

#include <algorithm>
#include <string_view>

namespace llmd {
namespace {

struct Role {
  const char* key;      // under "tokenizer.ggml."
  const char* old_key;  // may be null
  bool ends_generation;
  std::vector<std::string_view> texts;
};

const std::vector<Role>& roles() {
  static const std::vector<Role> list = {
      {"eot_token_id",
       nullptr,
       true,
       {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>",
        "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"}},
      {"eom_token_id", nullptr, true, {"<|eom_id|>"}},
      {"fim_pre_token_id",
       "prefix_token_id",
       false,
       {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
        "<|prefix|>"}},
      {"fim_suf_token_id",
       "suffix_token_id",
       false,
       {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
        "<|suffix|>"}},
      {"fim_mid_token_id",
       "middle_token_id",
       false,
       {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
        "<|middle|>"}},
      {"fim_pad_token_id", nullptr, true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {"fim_rep_token_id", nullptr, true, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {"fim_sep_token_id", nullptr, true, {"<|file_sep|>"}},
  };
  return list;
}

constexpr std::string_view kEndTexts[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|flush|>",
                                          "<|calls|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "</s>",
                                          "<|eom_id|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "<|end_of_text|>",
                                          "<end_of_utterance>",
                                          "<eos>",
                                          "<turn|>",
                                          "<|tool_response>",
                                          "<｜end▁of▁sentence｜>",
                                          "[e~["};

/// The id of a key: -1 when the key is absent or says "none" (negative, or all ones).
Result<int32_t> read_id(const GgufModel& model, const std::string& key, const Vocabulary& vocabulary) {
  const GgufValue* value = model.find(key);
  if (!value) return -1;
  const int64_t* id = std::get_if<int64_t>(&value->value);
  if (!id) return vocabulary_error(key + " is not an integer");
  if (*id < 0 || *id == UINT32_MAX) return -1;
  if (!vocabulary.contains(*id)) return vocabulary_error(key + " is outside the vocabulary");
  return static_cast<int32_t>(*id);
}

/// The id of a special token with this text, or -1.
int32_t find_special(const Vocabulary& vocabulary, std::string_view text) {
  int32_t id = vocabulary.find(text);
  return id >= 0 && vocabulary.is_special(id) ? id : -1;
}

Status add_roles(const GgufModel& model, Vocabulary& vocabulary, std::vector<int32_t>& ends) {
  for (const Role& role : roles()) {
    LLMD_ASSIGN_OR_RETURN(int32_t id, read_id(model, std::string("tokenizer.ggml.") + role.key, vocabulary));
    if (id < 0 && role.old_key) {
      LLMD_ASSIGN_OR_RETURN(id, read_id(model, std::string("tokenizer.ggml.") + role.old_key, vocabulary));
    }
    for (size_t i = 0; id < 0 && i < role.texts.size(); i++) {
      id = find_special(vocabulary, role.texts[i]);
      if (id >= 0) vocabulary.set_type(id, TokenType::kControl);
    }
    if (id >= 0 && role.ends_generation) ends.push_back(id);
  }
  return {};
}

Status add_listed_ends(const GgufModel& model, const Vocabulary& vocabulary, std::vector<int32_t>& ends) {
  const GgufArray* array = model.get_array("tokenizer.ggml.eos_token_ids");
  const auto* ids = array ? std::get_if<std::vector<int64_t>>(&array->items) : nullptr;
  if (!ids) return {};
  for (int64_t id : *ids) {
    if (!vocabulary.contains(id)) return vocabulary_error("tokenizer.ggml.eos_token_ids has an id outside it");
    ends.push_back(static_cast<int32_t>(id));
  }
  return {};
}

void add_known_ends(Vocabulary& vocabulary, std::vector<int32_t>& ends) {
  for (std::string_view text : kEndTexts) {
    int32_t id = find_special(vocabulary, text);
    if (id < 0) continue;
    vocabulary.set_type(id, TokenType::kControl);
    ends.push_back(id);
  }
  auto has = [&](std::string_view text) { return find_special(vocabulary, text) >= 0; };
  // Where a message can end without ending the turn (gpt-oss between its channels), its mark is not an end; and where
  // tool responses have a mark, "</s>" is not.
  if ((has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>"))) {
    std::erase(ends, find_special(vocabulary, "<|end|>"));
  }
  if (has("<|tool_response>")) std::erase(ends, find_special(vocabulary, "</s>"));
}

}  // namespace

Result<SpecialTokens> SpecialTokens::find(const GgufModel& model, const PreTokenizerName& name,
                                          Vocabulary& vocabulary) {
  SpecialTokens result;
  LLMD_ASSIGN_OR_RETURN(result.bos, read_id(model, "tokenizer.ggml.bos_token_id", vocabulary));
  LLMD_ASSIGN_OR_RETURN(result.eos, read_id(model, "tokenizer.ggml.eos_token_id", vocabulary));
  if (name.never_bos) result.bos = -1;
  result.add_bos = result.bos >= 0 && model.get_bool("tokenizer.ggml.add_bos_token").value_or(name.add_bos);
  result.add_eos = result.eos >= 0 && model.get_bool("tokenizer.ggml.add_eos_token").value_or(false);
  std::vector<int32_t>& ends = result.end_of_generation;
  LLMD_RETURN_IF_ERROR(add_roles(model, vocabulary, ends));
  LLMD_RETURN_IF_ERROR(add_listed_ends(model, vocabulary, ends));
  add_known_ends(vocabulary, ends);
  if (result.eos >= 0) ends.push_back(result.eos);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return result;
}

}  // namespace llmd
