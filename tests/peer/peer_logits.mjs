// The peer's logits for every token of a prompt: peer_logits.mjs MODEL.gguf TOKEN,TOKEN,... OUT.f32
// OUT gets float32 [tokens, vocab], row by row. Runs where package.json is installed (check_peer.py copies it there).
//
// Temperature 0 leaves the logits as the model made them. The cache is F32 and flash attention off, so that what
// remains of the peer's error is its arithmetic on the weights. Every vocabulary entry must come back: a filtered map
// would leave holes that look like logits of zero.
import fs from 'node:fs';
import {getLlama} from 'node-llama-cpp';

const [modelPath, tokenList, outPath] = process.argv.slice(2);
if (!outPath) throw new Error('usage: peer_logits.mjs MODEL.gguf TOKEN,TOKEN,... OUT.f32');
const tokens = tokenList.split(',').map(Number);

const llama = await getLlama({gpu: false, build: 'never', logLevel: 'error'});
const model = await llama.loadModel({modelPath, gpuLayers: 0});
const context = await model.createContext({
  contextSize: 512, batchSize: 512, threads: 2, flashAttention: false,
  experimentalKvCacheKeyType: 'F32', experimentalKvCacheValueType: 'F32'
});
const wanted = {generateNext: {logits: true, options: {temperature: 0}}};
const results = await context.getSequence().controlledEvaluate(tokens.map((token) => [token, wanted]));

const vocab = results[0].next.logits.size;
const out = new Float32Array(tokens.length * vocab).fill(NaN);
results.forEach((result, row) => {
  for (const [token, logit] of result.next.logits) out[row * vocab + token] = logit;
});
if (results.length !== tokens.length || out.some(Number.isNaN)) throw new Error('the peer did not return every logit');
fs.writeFileSync(outPath, Buffer.from(out.buffer));
await context.dispose();
await model.dispose();
await llama.dispose();
