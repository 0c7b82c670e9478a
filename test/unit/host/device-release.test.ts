import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError, SystemError } from '../../../src/base/errors.js';
import { releaseDevice } from '../../../src/driver/host/device-release.js';
import type { NativeRunner } from '../../../src/driver/native/pool.js';
import { refused } from '../../support/refusal.js';

const busy = (): Promise<never> => Promise.reject(new SystemError('EBUSY', 'ioctl', '/dev/loop-of-a-test', 'busy'));
const findPath = async (): Promise<null> => null;
const native: NativeRunner = { run: () => Promise.reject(new Error('nothing is asked of a device that is gone')) };

/** Fails with EBUSY so many times, then succeeds. */
function busyFor(times: number): { release: () => Promise<void>; calls: () => number } {
  let calls = 0;
  const release = async (): Promise<void> => {
    calls += 1;
    if (calls <= times) await busy();
  };
  return { release, calls: () => calls };
}

test('a device that is busy is released when it is free, and reported at the end of the wait', async () => {
  const { release, calls } = busyFor(3);
  await releaseDevice(native, { release, findPath }, { timeoutMs: 600_000 });
  assert.equal(calls(), 4);
  const begun = performance.now();
  await assert.rejects(releaseDevice(native, { release: busy, findPath }, { timeoutMs: 120 }), { code: 'EBUSY' });
  assert.ok(performance.now() - begun >= 120);
});

test('the wait ends when the call is cancelled, with the reason, and with any other failure', async () => {
  const cancelled = new AbortController();
  setTimeout(() => cancelled.abort(CsiError.cancelled('the caller went away')), 20);
  const wait = { timeoutMs: 600_000, signal: cancelled.signal };
  await refused(releaseDevice(native, { release: busy, findPath }, wait), 'CANCELLED', /went away/);
  const failure = new SystemError('EIO', 'ioctl', '/dev/loop-of-a-test', 'broken');
  const release = (): Promise<never> => Promise.reject(failure);
  await assert.rejects(releaseDevice(native, { release, findPath }, { timeoutMs: 600_000 }), failure);
});
