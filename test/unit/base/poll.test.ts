/** pollUntil: what ends it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pollUntil } from '../../../src/base/poll.js';

const SOON = { intervalMs: 1, timeoutMs: 60_000 };

test('polling ends with the first answer that is neither null nor false', async () => {
  const answers = [null, null, 0, 7];
  assert.equal(await pollUntil(async () => answers.shift() ?? null, SOON), 0);
  const states = [false, false, true];
  assert.equal(await pollUntil(() => states.shift() ?? false, SOON), true);
  assert.deepEqual(states, []);
});

test('polling gives null when the time is up, after one probe at least', async () => {
  let probes = 0;
  const probe = (): boolean => {
    probes += 1;
    return false;
  };
  assert.equal(await pollUntil(probe, { intervalMs: 1, timeoutMs: 0 }), null);
  assert.equal(probes, 1);
  assert.equal(await pollUntil(probe, { intervalMs: 1, timeoutMs: 20 }), null);
  assert.ok(probes > 1);
});

test('what a probe throws ends the polling', async () => {
  const probe = (): never => {
    throw new Error('broken');
  };
  await assert.rejects(pollUntil(probe, SOON), /^Error: broken$/);
});

test('an aborted signal ends the polling with its reason, also during a pause', async () => {
  const controller = new AbortController();
  const reason = new Error('cancelled');
  let probes = 0;
  const polling = pollUntil(
    () => {
      probes += 1;
      setImmediate(() => controller.abort(reason));
      return null;
    },
    { intervalMs: 60_000, timeoutMs: 60_000, signal: controller.signal },
  );
  await assert.rejects(polling, reason);
  assert.equal(probes, 1);
});
