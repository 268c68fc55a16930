// Reads the vocabulary of a GGUF file (version 3, little-endian) into the form of a tokenizer.json.
import fs from 'node:fs';

const SIZES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const STRING = 8, ARRAY = 9;

function readKeys(file) {
  const bytes = fs.readFileSync(file);
  let at = 4 + 4 + 8;
  const u32 = () => (at += 4, bytes.readUInt32LE(at - 4));
  const u64 = () => (at += 8, Number(bytes.readBigUInt64LE(at - 8)));
  const string = () => { const size = u64(); at += size; return bytes.toString('utf8', at - size, at); };
  const value = (type) => {
    if (type === STRING) return string();
    if (type === ARRAY) {
      const of = u32(), count = u64();
      return Array.from({ length: count }, () => value(of));
    }
    at += SIZES[type];
    return type === 5 ? bytes.readInt32LE(at - 4) : type === 4 ? bytes.readUInt32LE(at - 4) : undefined;
  };
  const keys = {};
  for (let left = u64(); left > 0; left--) {
    const key = string();
    keys[key] = value(u32());
  }
  return keys;
}

/// {model, added_tokens} of a tokenizer.json; tokens of the types control, unknown and user_defined are added tokens.
export function readVocabulary(file) {
  const keys = readKeys(file), types = keys['tokenizer.ggml.token_type'], vocab = {}, added = [];
  keys['tokenizer.ggml.tokens'].forEach((content, id) => {
    if (types[id] !== 5) vocab[content] = id;
    if (types[id] !== 1 && types[id] !== 5) {
      added.push({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: types[id] !== 4 });
    }
  });
  return { model: { type: 'BPE', vocab, merges: keys['tokenizer.ggml.merges'] }, added_tokens: added };
}
