// Makes a GGUF that holds nothing but a vocabulary, from the tokenizer.json of an npm package.
//
// As model converters do: ids are positions; holes become "[PADi]" of type unused; added tokens that are flagged
// special, or look it (<|...|>, <｜...｜>, ...), are control, the others user_defined. Byte-level BPE only.
import fs from 'node:fs';
import path from 'node:path';

const TYPE = { normal: 1, control: 3, userDefined: 4, unused: 5 };
const VALUE = { u32: 4, i32: 5, bool: 7, string: 8, array: 9 };

function looksSpecial(text) {
  return ['<pad>', '<mask>', '<2mass>', '[@BOS@]'].includes(text) || /^<\|.*\|>$/s.test(text) ||
    /^<｜.*｜>$/s.test(text) || /^<unused.*>$/s.test(text);
}

/// Whether an added token of a tokenizer.json becomes a control token.
export const isControl = (token) => token.special || looksSpecial(token.content);

function readTokens(tokenizer) {
  const tokens = [], types = [];
  for (const [text, id] of Object.entries(tokenizer.model.vocab)) {
    tokens[id] = text;
    types[id] = TYPE.normal;
  }
  for (const added of tokenizer.added_tokens ?? []) {
    const control = isControl(added);
    tokens[added.id] = control ? added.content : added.content.replaceAll('▁', ' ');
    types[added.id] = control ? TYPE.control : TYPE.userDefined;
  }
  for (let id = 0; id < tokens.length; id++) {
    if (tokens[id] !== undefined) continue;
    tokens[id] = `[PAD${id}]`;
    types[id] = TYPE.unused;
  }
  return { tokens, types };
}

function integer(bytes, value) {
  const buffer = Buffer.alloc(bytes);
  if (bytes === 8) buffer.writeBigUInt64LE(BigInt(value));
  else buffer.writeUInt32LE(value);
  return buffer;
}

const encode = {
  [VALUE.u32]: (value) => integer(4, value),
  [VALUE.i32]: (value) => integer(4, value),
  [VALUE.bool]: (value) => Buffer.from([value ? 1 : 0]),
  [VALUE.string]: (value) => Buffer.concat([integer(8, Buffer.byteLength(value)), Buffer.from(value)]),
};

/// Writes `output` from the package in `folder`; `pre` is the value of tokenizer.ggml.pre.
export function writeVocabulary(folder, output, pre) {
  const read = (name) => {
    const found = [folder, path.join(folder, 'models')].map((f) => path.join(f, name)).find((f) => fs.existsSync(f));
    if (!found) throw new Error(`no ${name} in ${folder}`);
    return JSON.parse(fs.readFileSync(found, 'utf8'));
  };
  const tokenizer = read('tokenizer.json'), config = read('tokenizer_config.json');
  if (tokenizer.model.type !== 'BPE') throw new Error(`${folder} is not byte-level BPE`);
  const { tokens, types } = readTokens(tokenizer);

  const parts = [];
  let keys = 0;
  const put = (key, type, value) => {
    if (value === undefined || value === null) return;
    parts.push(encode[VALUE.string](key), integer(4, type), encode[type](value));
    keys++;
  };
  const putArray = (key, type, values) => {
    parts.push(encode[VALUE.string](key), integer(4, VALUE.array), integer(4, type), integer(8, values.length));
    for (const value of values) parts.push(encode[type](value));
    keys++;
  };
  const idOf = (token) => {
    const id = tokens.indexOf(typeof token === 'object' && token ? token.content : token);
    return id < 0 ? undefined : id;
  };
  put('general.architecture', VALUE.string, 'llama');
  put('tokenizer.ggml.model', VALUE.string, 'gpt2');
  put('tokenizer.ggml.pre', VALUE.string, pre);
  putArray('tokenizer.ggml.tokens', VALUE.string, tokens);
  putArray('tokenizer.ggml.token_type', VALUE.i32, types);
  const line = (merge) => (typeof merge === 'string' ? merge : merge.join(' '));
  putArray('tokenizer.ggml.merges', VALUE.string, tokenizer.model.merges.map(line));
  put('tokenizer.ggml.bos_token_id', VALUE.u32, idOf(config.bos_token));
  put('tokenizer.ggml.eos_token_id', VALUE.u32, idOf(config.eos_token));
  put('tokenizer.ggml.add_bos_token', VALUE.bool, config.add_bos_token);
  put('tokenizer.ggml.add_eos_token', VALUE.bool, config.add_eos_token);

  const body = Buffer.concat([Buffer.from('GGUF'), integer(4, 3), integer(8, 0), integer(8, keys), ...parts]);
  fs.writeFileSync(output, Buffer.concat([body, Buffer.alloc((32 - (body.length % 32)) % 32)]));
}
