// The pre-tokenizer rules as data: for each the regular expressions of its passes, and the names that use it.
//
// The expressions are those of the models' own tokenizers, in PCRE2 syntax: \s and \S are expanded to White_Space, Han
// is the script alone (sc:), and code points beyond ASCII are written as numbers.
#include "model/tokenizer/pre_tokenizer.h"

namespace llmd {
namespace {

// Llama 3, GLM.
constexpr const char* kLlama3[] = {
    R"~((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)~"
    R"~(|\s*[\r\n]+|\s+(?!\S)|\s+)~",
};

// Qwen 2 to 3: Llama 3's with every digit alone.
constexpr const char* kQwen2[] = {
    R"~((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)~"
    R"~(|\s*[\r\n]+|\s+(?!\S)|\s+)~",
};

// Qwen 3.5: marks belong to words.
constexpr const char* kQwen35[] = {
    R"~((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)~"
    R"~(|\s*[\r\n]+|\s+(?!\S)|\s+)~",
};

// Ling.
constexpr const char* kBailing[] = {
    R"~('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)~"
    R"~(|\s*[\r\n]|\s+(?!\S)|\s+)~",
};

// DeepSeek-LLM and DeepSeek-V2. The fourth pass is "white space at the end", written so that a long run is tried once.
constexpr const char* kDeepseekLlm[] = {
    R"~([\r\n])~",
    R"~(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})~"
    R"~(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})~"
    R"~(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-)~"
    R"~(\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})~"
    R"~(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})~"
    R"~(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})~"
    R"~(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})~"
    R"~(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})~"
    R"~(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-)~"
    R"~(\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-)~"
    R"~(\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})~"
    R"~(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})~"
    R"~(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})~"
    R"~(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)~",
    R"~(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)~",
    R"~((?<!\s)\s++\z)~",
    R"~([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)~",
    R"~(\p{N}+)~",
};

// DeepSeek-Coder.
constexpr const char* kDeepseekCoder[] = {
    R"~([\r\n])~", R"~(\s?\p{L}+)~", R"~(\s?\p{P}+)~", R"~([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)~",
    R"~(\p{N})~",
};

// DeepSeek-V3.
constexpr const char* kDeepseekV3[] = {
    R"~(\p{N}{1,3})~",
    R"~([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)~",
    (R"~([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)~"
     R"~(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)~"),
};

// Kimi-K2. The classes are "upper-case-like" and "lower-case-like" letters and marks outside Han, written as
// complements because PCRE2 has no set difference.
constexpr const char* kKimiK2[] = {
    R"~([\p{sc:Han}]+|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*[^\p{Lu}\p{Lt}\p{N})~"
    R"~(\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)~"
    R"~(|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{)~"
    R"~(Z}\p{C}\p{sc:Han}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)~"
    R"~(|\s*[\r\n]+|\s+(?!\S)|\s+)~",
};

// GPT-4o.
constexpr const char* kGpt4o[] = {
    R"~([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve)~"
    R"~(|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s)~"
    R"~(|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)~",
};

// Tekken (Mistral): GPT-4o's without contractions, every digit alone.
constexpr const char* kTekken[] = {
    R"~([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)~"
    R"~(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)~"
    R"~(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)~",
};

// Youtu: runs of Korean, Chinese punctuation, Bopomofo, Chinese and Japanese first.
constexpr const char* kYoutu[] = {
    R"~([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+)~"
    R"~(|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C})~"
    R"~(\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+)~"
    R"~(|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)~",
    R"~([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)~"
    R"~((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?)~"
    R"~(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)~"
    R"~((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?)~"
    R"~(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)~",
};

// GPT-2.
constexpr const char* kGpt2[] = {
    R"~('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))~",
};

// StarCoder.
constexpr const char* kStarcoder[] = {
    R"~(\p{N})~",
    R"~('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))~",
};

// What files without a better name use.
constexpr const char* kDefault[] = {
    R"~([\p{P}\$\+<=>\^~\|]+)~",
    R"~('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))~",
    R"~(\p{N}+)~",
    R"~([0-9][0-9][0-9])~",
};

// Falcon.
constexpr const char* kFalcon[] = {
    R"~([\p{P}\$\+<=>\^~\|`]+)~",
    R"~('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))~",
    R"~([0-9][0-9][0-9])~",
};

constexpr PreTokenizerName kNames[] = {
    {.name = "llama-bpe", .passes = kLlama3, .add_bos = true, .whole_piece_first = true},
    {.name = "llama3", .passes = kLlama3, .add_bos = true, .whole_piece_first = true},
    {.name = "llama-v3", .passes = kLlama3, .add_bos = true, .whole_piece_first = true},
    {.name = "falcon3", .passes = kLlama3, .add_bos = true, .whole_piece_first = true},
    {.name = "falcon-h1", .passes = kLlama3, .add_bos = true, .whole_piece_first = true},
    {.name = "pixtral", .passes = kLlama3, .add_bos = true, .whole_piece_first = true},
    {.name = "midm-2.0", .passes = kLlama3, .add_bos = true, .whole_piece_first = true},
    {.name = "lfm2", .passes = kLlama3, .add_bos = true, .whole_piece_first = true},
    {.name = "jina-v5-nano", .passes = kLlama3, .add_bos = true, .whole_piece_first = true},
    {.name = "glm4", .passes = kLlama3, .never_bos = true},
    {.name = "chatglm-bpe", .passes = kLlama3, .never_bos = true},
    {.name = "dbrx", .passes = kLlama3},
    {.name = "smaug-bpe", .passes = kLlama3},
    {.name = "qwen2", .passes = kQwen2, .nfc = true},
    {.name = "qwen35", .passes = kQwen35, .nfc = true},
    {.name = "deepseek-r1-qwen", .passes = kQwen2},
    {.name = "megrez", .passes = kQwen2},
    {.name = "kormo", .passes = kQwen2},
    {.name = "f2llmv2", .passes = kQwen2},
    {.name = "stablelm2", .passes = kQwen2},
    {.name = "hunyuan", .passes = kQwen2},
    {.name = "solar-open", .passes = kQwen2},
    {.name = "grok-2", .passes = kQwen2},
    {.name = "bailingmoe", .passes = kBailing},
    {.name = "bailingmoe2", .passes = kBailing},
    {.name = "llada-moe", .passes = kBailing},
    {.name = "deepseek-llm", .passes = kDeepseekLlm},
    {.name = "deepseek-coder", .passes = kDeepseekCoder},
    {.name = "deepseek-v3", .passes = kDeepseekV3},
    {.name = "hunyuan-dense", .passes = kDeepseekV3},
    {.name = "joyai-llm", .passes = kDeepseekV3},
    {.name = "kimi-k2", .passes = kKimiK2},
    {.name = "gpt-4o", .passes = kGpt4o},
    {.name = "llama4", .passes = kGpt4o},
    {.name = "kanana2", .passes = kGpt4o},
    {.name = "talkie", .passes = kGpt4o},
    {.name = "minimax-m2", .passes = kGpt4o},
    {.name = "tekken", .passes = kTekken, .add_bos = true, .whole_piece_first = true},
    {.name = "youtu", .passes = kYoutu, .whole_piece_first = true},
    {.name = "gpt-2", .passes = kGpt2},
    {.name = "phi-2", .passes = kGpt2},
    {.name = "olmo", .passes = kGpt2},
    {.name = "mpt", .passes = kGpt2},
    {.name = "jais", .passes = kGpt2},
    {.name = "exaone4", .passes = kGpt2},
    {.name = "gigachat", .passes = kGpt2},
    {.name = "a.x-4.0", .passes = kGpt2},
    {.name = "mellum", .passes = kGpt2},
    {.name = "modern-bert", .passes = kGpt2},
    {.name = "jina-es", .passes = kGpt2},
    {.name = "jina-de", .passes = kGpt2},
    {.name = "jina-v2-es", .passes = kGpt2},
    {.name = "jina-v2-de", .passes = kGpt2},
    {.name = "starcoder", .passes = kStarcoder},
    {.name = "refact", .passes = kStarcoder},
    {.name = "command-r", .passes = kStarcoder},
    {.name = "smollm", .passes = kStarcoder},
    {.name = "codeshell", .passes = kStarcoder},
    {.name = "exaone", .passes = kStarcoder},
    {.name = "minerva-7b", .passes = kStarcoder},
    {.name = "mellum2", .passes = kStarcoder},
    {.name = "falcon", .passes = kFalcon},
    {.name = "default", .passes = kDefault},
};

}  // namespace

const PreTokenizerName* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizerName& entry : kNames) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace llmd
