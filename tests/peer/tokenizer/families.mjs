// The families that are compared: the value of tokenizer.ggml.pre, where a vocabulary comes from, and the rule.
//
// `own`: the tokenizer.json of the package is the model's own. Otherwise the rule stands here as the models' own
// tokenizers write it (in the syntax of the reference engine), and is run in that engine with the vocabulary of
// `vocabulary`; `standIn` says that it is another family's, because no package has this one's: the rule is checked, the
// merges of the real vocabulary are not. `explains`: why llama.cpp may give other ids for a text; null: never.
const letters = {
  upper: String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, lower: String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`,
  upperNoHan: String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`, lowerNoHan: String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]`,
};
const contraction = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`;
const blanks = String.raw`\s*[\r\n]+|\s+(?!\S)|\s+`;
const cased = (upper, lower, tail) =>
  String.raw`[^\r\n\p{L}\p{N}]?${upper}*${lower}+${tail}|[^\r\n\p{L}\p{N}]?${upper}+${lower}*${tail}`;

const latin = String.raw`A-Za-z` +
  String.raw`\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-` +
  String.raw`\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}` +
  String.raw`\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}` +
  String.raw`-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-` +
  String.raw`\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}` +
  String.raw`\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-` +
  String.raw`\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}` +
  String.raw`\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}` +
  String.raw`\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}` +
  String.raw`\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-` +
  String.raw`\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}` +
  String.raw`-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-` +
  String.raw`\x{1E943}`;
const rules = {
  llama3: [String.raw`${contraction}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|${blanks}`],
  qwen35: [String.raw`${contraction}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|${blanks}`],
  deepseekLlm: ['[\r\n]', String.raw`\s?[${latin}]+`, String.raw`\s?[!-/:-~！-／：-～‘-‟　-。]+`, String.raw`\s+$`,
    '[一-龥ࠀ-一가-퟿]+', String.raw`\p{N}`],
  deepseekCoder: ['[\r\n]', String.raw`\s?\p{L}+`, String.raw`\s?\p{P}+`, '[一-龥ࠀ-一가-퟿]+', String.raw`\p{N}`],
  kimi: [String.raw`[\p{Han}]+|${cased(letters.upperNoHan, letters.lowerNoHan, `${contraction}?`)}` +
    String.raw`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|${blanks}`],
  gpt4o: [String.raw`${cased(letters.upper, letters.lower, `${contraction}?`)}|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|${blanks}`],
  tekken: [String.raw`${cased(letters.upper, letters.lower, '')}|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|${blanks}`],
  youtu: ['[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+',
    String.raw`${cased(letters.upper, letters.lower, `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?`)}` +
    String.raw`|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|${blanks}`],
  bailing: [String.raw`'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` +
    String.raw`|\s*[\r\n]|\s+(?!\S)|\s+`],
};

const words = {
  why: 'llama.cpp cuts words at some marks, and at case only where the letters are ASCII',
  test: (text) => /\p{M}|(?![A-Za-z])[\p{Lu}\p{Ll}\p{Lt}]/u.test(text),
};
const form = {
  why: 'llama.cpp does not bring text into NFC, and takes "</s>" for a special token',
  test: (text) => text !== text.normalize('NFC') || text.includes('</s>'),
};
const separators = {
  why: 'llama.cpp cuts otherwise beside white space from U+2000 on', test: (text) => /[\u2000-\u200a\u2028-\u205f\u3000]/.test(text),
};
const kimi = { why: `${words.why}; it takes U+3007 for a number only`, test: (text) => words.test(text) || text.includes('\u3007') };

export const families = [
  { pre: 'deepseek-v3', vocabulary: 'deepseek_v3', own: true, explains: null },
  { pre: 'deepseek-llm', vocabulary: 'shared', rule: rules.deepseekLlm, explains: separators },
  { pre: 'deepseek-coder', vocabulary: 'shared', rule: rules.deepseekCoder, explains: separators },
  { pre: 'qwen2', vocabulary: 'qwen3', own: true, explains: form },
  { pre: 'qwen35', vocabulary: 'qwen3', standIn: true, rule: rules.qwen35, nfc: true, explains: form },
  { pre: 'gpt-4o', vocabulary: 'gptoss', own: true, explains: words },
  { pre: 'llama-bpe', vocabulary: 'llama3_1', own: true, explains: null },
  { pre: 'gpt-2', vocabulary: 'shared', rule: 'gpt2', explains: null },
  { pre: 'kimi-k2', vocabulary: 'gpt4o', standIn: true, rule: rules.kimi, explains: kimi },
  { pre: 'glm4', vocabulary: 'gpt4o', standIn: true, rule: rules.llama3, explains: null },
  { pre: 'chatglm-bpe', vocabulary: 'gpt4o', standIn: true, rule: rules.llama3, explains: null },
  { pre: 'gigachat', vocabulary: 'gpt4o', standIn: true, rule: 'gpt2', explains: null },
  { pre: 'kanana2', vocabulary: 'gpt4o', standIn: true, rule: rules.gpt4o, explains: words },
  { pre: 'tekken', vocabulary: 'gpt4o', standIn: true, rule: rules.tekken, wholePieceFirst: true, explains: words },
  { pre: 'youtu', vocabulary: 'gpt4o', standIn: true, rule: rules.youtu, wholePieceFirst: true, explains: words },
  { pre: 'bailingmoe2', vocabulary: 'gpt4o', standIn: true, rule: rules.bailing, explains: null },
];

/// The pre_tokenizer of a tokenizer.json for a rule.
export function preTokenizerOf(rule) {
  const bytes = (withRegex) => ({ type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: withRegex });
  if (rule === 'gpt2') return bytes(true);
  const splits = rule.map((pattern) => ({ type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false }));
  return { type: 'Sequence', pretokenizers: [...splits, bytes(false)] };
}
