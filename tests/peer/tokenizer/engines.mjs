// The two engines that llmd is compared with: the reference tokenizer library that the models are published for (npm
// "tokenizers"), and llama.cpp (npm "node-llama-cpp").
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

import { preTokenizerOf } from './families.mjs';

/// The definition of the family's tokenizer for the reference engine. `definition` is the package's tokenizer.json, or
/// the vocabulary of a GGUF.
export function definitionOf(family, definition) {
  const made = { version: '1.0', truncation: null, padding: null, normalizer: null, decoder: null, ...definition, post_processor: null };
  if (family.own) return made;
  made.model = { ...made.model, ignore_merges: Boolean(family.wholePieceFirst) };
  made.pre_tokenizer = preTokenizerOf(family.rule);
  made.normalizer = family.nfc ? { type: 'NFC' } : null;
  return made;
}

/// From a text to its ids. `isControl`: added tokens that only trusted text may become; without them the engine takes
/// the text as untrusted.
export async function referenceEngine(work, definition, isControl) {
  const { Tokenizer } = createRequire(path.join(work, 'package.json'))('tokenizers');
  const trusted = Tokenizer.fromString(JSON.stringify(definition));
  const vocab = { ...definition.model.vocab };  // with every added token, so that those that stay keep their ids
  for (const token of definition.added_tokens) vocab[token.content] = token.id;
  const plain = {
    ...definition, model: { ...definition.model, vocab }, added_tokens: definition.added_tokens.filter((token) => !isControl(token)),
  };
  const untrusted = Tokenizer.fromString(JSON.stringify(plain));
  const ids = async (engine, text) => (await engine.encode(text, null, { addSpecialTokens: false })).getIds();
  return async (text) => ({ trusted: await ids(trusted, text), untrusted: await ids(untrusted, text) });
}

/// encode: from a text and its trust to ids.
export async function llamaCpp(work, vocabularyFile) {
  const entry = path.join(work, 'node_modules', 'node-llama-cpp', 'dist', 'index.js');
  const { getLlama, LlamaLogLevel } = await import(pathToFileURL(entry).href);
  const llama = await getLlama({ gpu: false, build: 'never', progressLogs: false, logLevel: LlamaLogLevel.disabled });
  const model = await llama.loadModel({ modelPath: vocabularyFile, vocabOnly: true, gpuLayers: 0 });
  return { encode: (text, trusted) => Array.from(model.tokenize(text, trusted)), close: () => llama.dispose() };
}
