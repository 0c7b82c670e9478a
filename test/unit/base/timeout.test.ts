/** withTimeout and bestEffort: whose result, and whose failure, a caller sees. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bestEffort } from '../../../src/base/best-effort.js';
import { withTimeout } from '../../../src/base/timeout.js';

const never = new Promise<string>(() => undefined);

test('an operation that ends in time gives its own result or failure', async () => {
  const late = (): never => assert.fail('called although the operation was in time');
  assert.equal(await withTimeout(Promise.resolve('done'), 60_000, late), 'done');
  const failing = Promise.reject(new Error('broken'));
  await assert.rejects(withTimeout(failing, 60_000, late), /^Error: broken$/);
});

test('an operation that takes too long gives what onTimeout returns or throws', async () => {
  assert.equal(await withTimeout(never, 1, () => 'late'), 'late');
  const throwing = withTimeout(never, 1, () => {
    throw new Error('no answer');
  });
  await assert.rejects(throwing, /^Error: no answer$/);
});

test('a failure after the timeout is ignored', async () => {
  const controller = new AbortController();
  const operation = new Promise<string>((_, reject) => {
    controller.signal.addEventListener('abort', () => reject(new Error('broken')));
  });
  assert.equal(await withTimeout(operation, 1, () => 'late'), 'late');
  controller.abort();
  await new Promise((resolve) => setImmediate(resolve));
});

test('an aborted signal ends the wait as the timeout does', async () => {
  const controller = new AbortController();
  const waiting = withTimeout(never, 60_000, () => 'late', controller.signal);
  controller.abort();
  assert.equal(await waiting, 'late');
  assert.equal(await withTimeout(never, 60_000, () => 'late', controller.signal), 'late');
});

test('a cleanup that fails is not seen', async () => {
  let ran = false;
  await bestEffort(async () => {
    ran = true;
    throw new Error('broken');
  });
  assert.equal(ran, true);
});
