import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { Recent } from '../../../src/base/recent.js';

const AN_HOUR_MS = 3_600_000;

function counter(maxAgeMs: number): { asked: () => number; recent: Recent<number> } {
  let asked = 0;
  const recent = new Recent(maxAgeMs, async () => {
    asked += 1;
    return asked;
  });
  return { asked: () => asked, recent };
}

test('callers share an answer that is recent enough', async () => {
  const { asked, recent } = counter(AN_HOUR_MS);
  assert.equal(await recent.get(), 1);
  assert.equal(await recent.get(), 1);
  assert.equal(asked(), 1);
});

test('an older answer is asked for again, once for all that wait', async () => {
  const { asked, recent } = counter(1);
  await recent.get();
  await setTimeout(5);
  assert.deepEqual(await Promise.all([recent.get(), recent.get()]), [2, 2]);
  assert.equal(asked(), 2);
});

test('a failure is not kept', async () => {
  let isBroken = true;
  const recent = new Recent(AN_HOUR_MS, async () => {
    if (isBroken) throw new Error('broken');
    return 'works';
  });
  await assert.rejects(recent.get(), /broken/);
  isBroken = false;
  assert.equal(await recent.get(), 'works');
});
