// Times the peer on one model: peer_bench.mjs MODEL.gguf TOKENS.txt CONTEXT THREADS [WARM]. Runs where
// tests/peer/package.json is installed (compare.py and streamed.py copy it there).
//
// Reads measurements from stdin, one JSON object a line {"mode": "decode" | "prefill", "tokens": N, "depth": N}, and
// answers each with a line of stdout. The first line out says that the model is loaded and warm. A depth stays
// in the cache from one measurement to the next; what was measured is erased from it before the following one.
//
// `seconds` is the time inside the peer's own evaluation (llama_decode and its synchronisation), so that neither
// JavaScript nor sampling counts against it; `wall_seconds` is all of it. The last token of a prefill and every token
// of a decode ask for logits, as the product computes them: without an output the peer would skip its last layers.
// `read_bytes` is what the drive gave meanwhile. WARM tokens are decoded untimed in place of the whole untimed pass, for a
// model that does not stay in memory anyway.
import fs from 'node:fs';
import readline from 'node:readline';
import {getLlama} from 'node-llama-cpp';

const UBATCH = 512;      // llama.cpp's default; the binding makes its batch and its ubatch one number
const [modelPath, tokensPath, contextSize, threads, warm] = process.argv.slice(2);
if (!threads) throw new Error('usage: peer_bench.mjs MODEL.gguf TOKENS.txt CONTEXT THREADS [WARM]');
const list = fs.readFileSync(tokensPath, 'utf8').trim().split(/\s+/).map(Number);

const bytesRead = () => Number(fs.readFileSync('/proc/self/io', 'utf8').match(/^read_bytes: (\d+)/m)[1]);
const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const begin = seconds();
const llama = await getLlama({gpu: false, build: 'never', logLevel: 'error'});
const model = await llama.loadModel({modelPath, gpuLayers: 0});
const context = await model.createContext(
  {contextSize: Number(contextSize), batchSize: UBATCH, threads: Number(threads), flashAttention: false});
const sequence = context.getSequence();

// Every evaluation of the binding passes here. The native object's own methods cannot be replaced, so it gets a front.
let evaluating = 0, batches = 0;
const native = context._ctx;
async function timedDecodeBatch() {
  const start = seconds();
  await native.decodeBatch();
  evaluating += seconds() - start;
  batches += 1;
}
context._ctx = new Proxy(native, {
  get(target, name) {
    if (name === 'decodeBatch') return timedDecodeBatch;
    const value = target[name];
    return typeof value === 'function' ? value.bind(target) : value;
  }
});

const wanted = {generateNext: {token: true, options: {temperature: 0}}};

async function evaluate(mode, tokens) {
  if (mode === 'decode') {
    for (const token of tokens) await sequence.controlledEvaluate([[token, wanted]]);
  } else {
    await sequence.controlledEvaluate([...tokens.slice(0, -1), [tokens.at(-1), wanted]]);
  }
}

async function truncate(length) {
  if (length === 0) await sequence.clearHistory();
  else if (sequence.nextTokenIndex > length)
    await sequence.eraseContextTokenRanges([{start: length, end: sequence.nextTokenIndex}]);
}

async function measure({mode, tokens, depth}) {
  if (sequence.nextTokenIndex < depth) await truncate(0);
  await truncate(depth);
  if (depth > 0 && sequence.nextTokenIndex === 0) await evaluate('prefill', list.slice(0, depth));
  evaluating = batches = 0;
  const readBefore = bytesRead();
  const start = seconds();
  await evaluate(mode, list.slice(depth, depth + tokens));
  const wall = seconds() - start;
  if (sequence.nextTokenIndex !== depth + tokens) throw new Error('the peer did not keep every token');
  const expected = mode === 'decode' ? tokens : Math.ceil(tokens / UBATCH);
  if (batches !== expected) throw new Error(`${batches} evaluations where ${expected} were expected`);
  return {mode, tokens, depth, seconds: evaluating, wall_seconds: wall, tokens_per_second: tokens / evaluating,
          read_bytes: bytesRead() - readBefore, threads: context.currentThreads,
          peak_rss_bytes: process.resourceUsage().maxRSS * 1024};
}

// Untimed: weights are read, repacked weights are touched, buffers exist.
if (!warm) await evaluate('prefill', list.slice(0, UBATCH));
await evaluate('decode', list.slice(0, Number(warm ?? 4)));
await truncate(0);
const kernels = fs.readFileSync('/proc/self/maps', 'utf8').match(/libggml-cpu[^ /\n]*\.so/)?.[0];
console.log(JSON.stringify({ready_seconds: seconds() - begin, mmap: model.useMmap, kernels}));
for await (const line of readline.createInterface({input: process.stdin}))
  console.log(JSON.stringify(await measure(JSON.parse(line))));
await context.dispose();
await model.dispose();
await llama.dispose();
