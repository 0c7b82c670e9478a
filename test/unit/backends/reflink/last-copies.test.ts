import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LastCopies } from '../../../../src/driver/backends/reflink/last-copies.js';
import type { NativeRunner } from '../../../../src/driver/native/pool.js';
import { refused } from '../../../support/refusal.js';

const HOUR_MS = 3_600_000;
const MINUTE = { freezeLimitMs: 60_000n };

function clones() {
  const state = { extents: 1000n, counted: 0, nowMs: 0 };
  const run = async () => {
    state.counted += 1;
    return { extents: state.extents };
  };
  const native = { run } as unknown as NativeRunner;
  return { state, clones: new LastCopies(native, () => state.nowMs) };
}

const source = (volumeId: string) => ({ volumeId, sourcePath: `/pool/${volumeId}` });
const one = source('one');

test('only a volume whose clone outlasted its freeze is refused, and others are not looked at', async () => {
  const { state, clones: found } = clones();
  await found.assertShort(one, MINUTE);
  assert.equal(state.counted, 0);
  await found.outlasted(one, MINUTE);
  await refused(found.assertShort(one, MINUTE), 'FAILED_PRECONDITION', /one.*1000 extents.*60 s/);
  await found.assertShort(source('two'), MINUTE);
});

test('a volume of fewer extents is tried again; one of as many, or more, is not', async () => {
  const { state, clones: found } = clones();
  await found.outlasted(one, MINUTE);
  for (const extents of [900n, 1000n, 5000n]) {
    state.extents = extents;
    await refused(found.assertShort(one, MINUTE), 'FAILED_PRECONDITION');
  }
  state.extents = 899n;
  await found.assertShort(one, MINUTE);
  state.extents = 1000n;
  await found.assertShort(one, MINUTE);
});

test('a call that allows a longer freeze is served', async () => {
  const { clones: found } = clones();
  await found.outlasted(one, { freezeLimitMs: 10_000n });
  const same = { freezeLimitMs: 10_500n };
  await refused(found.assertShort(one, same), 'FAILED_PRECONDITION', /10 s/);
  await found.assertShort(one, { freezeLimitMs: 20_000n });
});

test('a refused volume is tried again after an hour', async () => {
  const { state, clones: found } = clones();
  await found.outlasted(one, MINUTE);
  state.nowMs = HOUR_MS - 1;
  assert.equal((await found.condition('one')).longCopy?.extents, 1000n);
  await refused(found.assertShort(one, MINUTE), 'FAILED_PRECONDITION');
  state.nowMs = HOUR_MS;
  assert.deepEqual(await found.condition('one'), {});
  await found.assertShort(one, MINUTE);
});

test('the oldest volume is forgotten where there are more than are remembered', async () => {
  const { clones: found } = clones();
  for (let index = 0; index <= 1024; index += 1) await found.outlasted(source(`${index}`), MINUTE);
  await found.assertShort(source('0'), MINUTE);
  await refused(found.assertShort(source('1'), MINUTE), 'FAILED_PRECONDITION');
});

test('a copy that took more than half of what it may take is reported until a shorter one, and refuses nothing', async () => {
  const { state, clones: found } = clones();
  const sources = [{ ...one, loopPath: '/dev/none', freezePath: '/staged' }];
  const half = 30_000_000_000n;
  await found.succeeded(sources, half, MINUTE);
  assert.deepEqual(await found.condition('one'), {});
  await found.succeeded(sources, half + 1_000_000n, MINUTE);
  const longCopy = { extents: null, allowedMs: 60_000n };
  assert.deepEqual(await found.condition('one'), { longCopy });
  await found.assertShort(one, MINUTE);
  state.nowMs = HOUR_MS;
  assert.deepEqual(await found.condition('one'), { longCopy });
  await found.succeeded(sources, half, MINUTE);
  assert.deepEqual(await found.condition('one'), {});
});

test('the freeze of several volumes says nothing of each', async () => {
  const { clones: found } = clones();
  const of = (volumeId: string) => ({ ...source(volumeId), loopPath: '/dev/none', freezePath: '/x' });
  await found.succeeded([of('one'), of('two')], 50_000_000_000n, MINUTE);
  assert.deepEqual(await found.condition('one'), {});
});
