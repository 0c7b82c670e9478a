/** Serial queue: order, failures, and work that would wait for itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { SerialQueue } from '../../../src/base/serial-queue.js';

test('work runs one piece at a time, in the order it was queued', async () => {
  const queue = new SerialQueue('a test');
  const seen: string[] = [];
  const piece = (name: string) => async (): Promise<string> => {
    seen.push(`${name} starts`);
    await turn();
    seen.push(`${name} ends`);
    return name;
  };
  assert.deepEqual(await Promise.all([queue.run(piece('first')), queue.run(piece('second'))]), [
    'first',
    'second',
  ]);
  assert.deepEqual(seen, ['first starts', 'first ends', 'second starts', 'second ends']);
});

test('a failure reaches its caller and does not stop the work behind it', async () => {
  const queue = new SerialQueue('a test');
  const failed = queue.run(async () => {
    throw new Error('broken');
  });
  const next = queue.run(async () => 'next');
  await assert.rejects(failed, /^Error: broken$/);
  assert.equal(await next, 'next');
});

test('work in the queue that waits for the queue is rejected, and the queue continues', async () => {
  const queue = new SerialQueue('a test');
  const nested = queue.run(async () => {
    await turn();
    return queue.run(async () => 'never');
  });
  await assert.rejects(nested, /work in the queue of a test waits for that queue/);
  assert.equal(await queue.run(async () => 'next'), 'next');
});

test('work that was started in the queue may queue more once that piece has ended', async () => {
  const queue = new SerialQueue('a test');
  let later: Promise<string> | null = null;
  const piece = new AbortController();
  const ended = new Promise((resolve) => piece.signal.addEventListener('abort', resolve));
  await queue.run(async () => {
    later = ended.then(() => queue.run(async () => 'later'));
  });
  const behind = queue.run(() => turn());
  piece.abort();
  assert.equal(await later, 'later');
  await behind;
});

test('idle waits for everything queued so far, also for what fails', async () => {
  const queue = new SerialQueue('a test');
  await queue.idle();
  let ended = 0;
  const work = queue.run(async () => {
    await turn();
    ended += 1;
    throw new Error('broken');
  });
  work.catch(() => undefined);
  await queue.idle();
  assert.equal(ended, 1);
});
