// The official SDK's view of llmd: what it parses, what it throws, what it retries. LLMD_URL names the server.
import assert from 'node:assert/strict';
import http from 'node:http';
import OpenAI from 'openai';
import { run, test } from './harness.mjs';

const base = process.env.LLMD_URL;
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: process.env.LLMD_KEY, maxRetries: 0, timeout: 60_000 });
const messages = [{ role: 'user', content: 'Hello' }];
const model = async () => (await client.models.list()).data[0].id;

test('lists and retrieves the model', async () => {
  const id = await model();
  assert.ok(id.length > 0);
  assert.equal((await client.models.retrieve(id)).id, id);
  await assert.rejects(client.models.retrieve('no-such-model'), OpenAI.NotFoundError);
});

test('answers whole', async () => {
  const answer = await client.chat.completions.create({ model: await model(), messages, max_tokens: 8, temperature: 0 });
  assert.equal(answer.object, 'chat.completion');
  assert.equal(answer.choices[0].message.role, 'assistant');
  assert.equal(typeof answer.choices[0].message.content, 'string');
  assert.ok(['stop', 'length'].includes(answer.choices[0].finish_reason));
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  assert.ok(answer.usage.completion_tokens <= 8);
});

test('streams the same text', async () => {
  const request = { model: await model(), messages, max_completion_tokens: 16, temperature: 0 };
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
  const ids = new Set();
  let text = '', finish = null, usage = null;
  for await (const chunk of stream) {
    ids.add(chunk.id);
    if (chunk.usage) usage = chunk.usage;
    if (chunk.choices.length === 0) continue;
    text += chunk.choices[0].delta.content ?? '';
    finish = chunk.choices[0].finish_reason ?? finish;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, whole.choices[0].finish_reason);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  assert.equal(ids.size, 1);
});

test('feeds the streaming helper', async () => {
  const runner = client.chat.completions.stream({ model: await model(), messages, max_tokens: 8 });
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.role, 'assistant');
});

test('throws typed errors that name the parameter', async () => {
  const id = await model();
  const create = (more) => client.chat.completions.create({ model: id, messages, max_tokens: 4, ...more });
  await assert.rejects(create({ temperature: 9 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'temperature');
    assert.equal(error.code, 'invalid_value');
    assert.ok(error.requestID.startsWith('req_'));
    return true;
  });
  await assert.rejects(create({ n: 100 }), (error) => error.code === 'invalid_value' && error.param === 'n');
  await assert.rejects(create({ messages: [] }), (error) => error.status === 400 && error.param === 'messages');
  await assert.rejects(create({ model: 'no-such-model' }), OpenAI.NotFoundError);
  const long = [{ role: 'user', content: ' a b c'.repeat(100_000) }];
  for (const stream of [false, true]) {
    await assert.rejects(create({ messages: long, stream }), (error) => error.code === 'context_length_exceeded');
  }
});

test('takes null for what is optional', async () => {
  const nothing = { temperature: null, top_p: null, stop: null, seed: null, n: null, logit_bias: null, tools: undefined,
    response_format: undefined, logprobs: null, stream_options: null, presence_penalty: null };
  const answer = await client.chat.completions.create({ model: await model(), messages, max_tokens: 2, ...nothing });
  assert.equal(answer.choices.length, 1);
});

test('stops when told to, and goes on serving', async () => {
  const stream = await client.chat.completions.create({ model: await model(), messages, max_tokens: 100_000, stream: true });
  for await (const chunk of stream) {
    assert.ok(chunk.id);
    stream.controller.abort();
    break;
  }
  await client.chat.completions.create({ model: await model(), messages, max_tokens: 2 });
});

test('answers a client that closed its sending side', async () => {
  const body = JSON.stringify({ messages, max_tokens: 4, stream: true });
  const text = await new Promise((resolve, reject) => {
    const request = http.request(`${base}/v1/chat/completions`,
      { method: 'POST', agent: false, headers: { 'Content-Length': Buffer.byteLength(body), 'x-api-key': process.env.LLMD_KEY }, timeout: 60_000 }, (response) => {
        let all = '';
        response.on('data', (part) => (all += part));
        response.on('end', () => resolve(all));
      });
    request.on('error', reject);
    request.end(body, () => request.socket?.end());
  });
  assert.ok(text.endsWith('data: [DONE]\n\n'));
});

test('throws for a wrong key, and asks once only', async () => {
  let asked = 0;
  const counted = (url, init) => { asked += 1; return fetch(url, init); };
  const stranger = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'not-the-right-key', maxRetries: 3, fetch: counted });
  await assert.rejects(stranger.chat.completions.create({ model: 'demo', messages }), OpenAI.AuthenticationError);
  assert.equal(asked, 1);
});

test('asks once only when the request is wrong, and again when the server cannot answer now', async () => {
  let asked = 0;
  const counted = (url, init) => { asked += 1; return fetch(url, init); };
  const retrying = client.withOptions({ maxRetries: 3, fetch: counted });
  await assert.rejects(retrying.chat.completions.create({ model: 'demo', messages, top_p: 7 }), OpenAI.BadRequestError);
  assert.equal(asked, 1);
  // The first answer is replaced by one that llmd gives while it loads.
  let unavailable = 1;
  const flaky = (url, init) => unavailable-- > 0
    ? Promise.resolve(new Response('{"error":{"message":"The model is loading."}}', { status: 503, headers: { 'retry-after-ms': '5' } }))
    : fetch(url, init);
  const answer = await client.withOptions({ maxRetries: 2, fetch: flaky }).chat.completions.create({ model: 'demo', messages, max_tokens: 1 });
  assert.equal(answer.choices.length, 1);
});

test('times out when told to, and the server goes on', async () => {
  const hasty = client.withOptions({ timeout: 30 });
  const story = [{ role: 'user', content: 'Tell me a story about a fox.' }];
  await assert.rejects(hasty.chat.completions.create({ model: 'demo', messages: story, max_tokens: 1900, ignore_eos: true }),
    OpenAI.APIConnectionTimeoutError);
  await client.chat.completions.create({ model: 'demo', messages, max_tokens: 2 });
});

test('completes plain text, whole and streamed', async () => {
  const request = { model: 'demo', prompt: 'The capital of France is', max_tokens: 6, temperature: 0, logprobs: 2 };
  const whole = await client.completions.create(request);
  assert.equal(whole.object, 'text_completion');
  assert.ok(whole.choices[0].logprobs.tokens.join('') === whole.choices[0].text);
  let text = '';
  for await (const chunk of await client.completions.create({ ...request, stream: true })) text += chunk.choices[0].text;
  assert.equal(text, whole.choices[0].text);
});

await run();
