// LangChain's ChatOpenAI. LLMD_URL names the server, LLMD_KEY the key it wants.
import assert from 'node:assert/strict';
import { AIMessage, HumanMessage, SystemMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { run, test } from './harness.mjs';

const make = (more = {}) => new ChatOpenAI({
  model: 'demo', apiKey: process.env.LLMD_KEY, temperature: 0, maxTokens: 12, maxRetries: 0, useResponsesApi: false,
  configuration: { baseURL: `${process.env.LLMD_URL}/v1` }, ...more,
});
const question = 'What is the capital of France?';

test('invokes', async () => {
  const answer = await make().invoke(question);
  assert.match(answer.content, /Paris/);
  assert.ok(answer.usage_metadata.output_tokens > 0);
  assert.equal(answer.usage_metadata.total_tokens, answer.usage_metadata.input_tokens + answer.usage_metadata.output_tokens);
});

test('streams the same', async () => {
  const whole = await make().invoke(question);
  let text = '', usage;
  for await (const chunk of await make({ streamUsage: true }).stream(question)) {
    text += chunk.content;
    usage = chunk.usage_metadata ?? usage;
  }
  assert.equal(text, whole.content);
  assert.equal(usage.output_tokens, whole.usage_metadata.output_tokens);
});

test('takes a conversation', async () => {
  const answer = await make().invoke([new SystemMessage('Be brief.'), new HumanMessage('Hello'), new AIMessage('Hello!'),
    new HumanMessage(question)]);
  assert.equal(typeof answer.content, 'string');
});

test('batches', async () => {
  const answers = await make().batch([question, question, question]);
  assert.equal(new Set(answers.map((answer) => answer.content)).size, 1);
});

test('stops at a stop string', async () => {
  const answer = await make().invoke(question, { stop: ['Paris'] });
  assert.ok(!answer.content.includes('Paris'));
});

test('gives log-probabilities', async () => {
  const answer = await make({ logprobs: true, topLogprobs: 2 }).invoke(question);
  assert.equal(answer.response_metadata.logprobs.content[0].top_logprobs.length, 2);
});

test('throws for a wrong key and a prompt that is too long', async () => {
  await assert.rejects(make({ apiKey: 'wrong-key-wrong-key' }).invoke(question), (error) => error.status === 401);
  await assert.rejects(make().invoke(' a b c'.repeat(100_000)), (error) => error.status === 400);
});

await run();
