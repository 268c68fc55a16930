// Vercel's AI SDK through its OpenAI-compatible provider. LLMD_URL names the server, LLMD_KEY the key it wants.
import assert from 'node:assert/strict';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, streamText } from 'ai';
import { run, test } from './harness.mjs';

const provider = createOpenAICompatible({
  name: 'llmd', baseURL: `${process.env.LLMD_URL}/v1`, apiKey: process.env.LLMD_KEY, includeUsage: true,
});
const model = provider.chatModel('demo');
const prompt = 'What is the capital of France?';

test('generates text', async () => {
  const { text, finishReason, usage } = await generateText({ model, prompt, temperature: 0, maxOutputTokens: 12 });
  assert.match(text, /Paris/);
  assert.ok(['stop', 'length'].includes(finishReason));
  assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
});

test('streams the same text, with usage', async () => {
  const whole = await generateText({ model, prompt, temperature: 0, maxOutputTokens: 12 });
  const stream = streamText({ model, prompt, temperature: 0, maxOutputTokens: 12 });
  let text = '';
  for await (const part of stream.textStream) text += part;
  assert.equal(text, whole.text);
  assert.equal(await stream.finishReason, whole.finishReason);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
});

test('takes system and earlier turns', async () => {
  const { text } = await generateText({
    model, temperature: 0, maxOutputTokens: 12,
    messages: [{ role: 'user', content: 'Hello' }, { role: 'assistant', content: 'Hello!' }, { role: 'user', content: prompt }],
  });
  assert.ok(text.length > 0);
});

test('completes a text with the completion model', async () => {
  const { text } = await generateText({ model: provider.completionModel('demo'), prompt, temperature: 0, maxOutputTokens: 4 });
  assert.equal(typeof text, 'string');
});

test('aborts a stream, and the server goes on', async () => {
  const controller = new AbortController();
  const stream = streamText({ model, prompt: 'Tell me a story about a fox.', maxOutputTokens: 1500, abortSignal: controller.signal,
    onError: () => {} });
  try {
    for await (const part of stream.textStream) {
      assert.equal(typeof part, 'string');
      controller.abort();
    }
  } catch (error) {
    assert.equal(error.name, 'AbortError');
  }
  await generateText({ model, prompt, maxOutputTokens: 1 });
});

test('shows the error of a wrong model, and does not retry it', async () => {
  await assert.rejects(generateText({ model: provider.chatModel('no-such-model'), prompt, maxRetries: 3 }), (error) => {
    assert.ok(APICallError.isInstance(error));
    assert.equal(error.statusCode, 404);
    assert.equal(error.isRetryable, false);
    return true;
  });
});

await run();
