import assert from 'node:assert/strict';
import { mock, type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { copyInTime } from '../../../src/driver/volumes/copy-in-time.js';
import {
  OperationLocks,
  snapshotNameKey,
  volumeCopyKey,
  volumeKey,
} from '../../../src/driver/volumes/operation-locks.js';
import { refused, throwsRefusal } from '../../support/refusal.js';
import { openManagers } from './manager-fixture.js';

const NOW = 1_000_000;
const NAME = snapshotNameKey('s');

/** A copy of volumes a and b, which ends when the test says so. */
async function copying(t: TestContext, deadline: number | undefined) {
  mock.timers.enable({ apis: ['Date'], now: NOW });
  t.after(() => mock.timers.reset());
  const locks = new OperationLocks();
  const times: number[] = [];
  let end = (_what: string | Error): void => undefined;
  const copy = (until: number): Promise<string> => {
    times.push(until);
    return new Promise((resolve, reject) => {
      end = (what) => (typeof what === 'string' ? resolve(what) : reject(what));
    });
  };
  const copied = copyInTime(locks, { keys: [NAME], volumeIds: ['a', 'b'], deadline }, copy);
  copied.catch(() => undefined);
  await turn();
  return { locks, copied, times, end: (what: string | Error) => end(what) };
}

test('a copy that ends in time keeps its volumes locked until then', async (t) => {
  const { locks, copied, times, end } = await copying(t, NOW + 600_000);
  assert.deepEqual(times, [NOW + 599_000], 'a second for its own answer');
  for (const key of [NAME, volumeKey('a'), volumeKey('b'), volumeCopyKey('a')]) {
    throwsRefusal(() => locks.acquire([key]), 'ABORTED');
  }
  end('done');
  assert.equal(await copied, 'done');
  locks.acquire([NAME, volumeKey('a'), volumeKey('b'), volumeCopyKey('a')]);
});

test('a copy that does not end in time unlocks its volumes, and may neither be begun again nor lose them', async (t) => {
  const { locks, copied, end } = await copying(t, NOW + 4);
  await refused(copied, 'ABORTED', /a copy of volume a, b has not ended.*unpublished/);
  locks.acquire([volumeKey('a'), volumeKey('b')])();
  throwsRefusal(() => locks.acquire([NAME]), 'ABORTED');
  throwsRefusal(() => locks.acquire([volumeCopyKey('b')]), 'ABORTED', /a copy of volume b is pending/);
  const another = locks.acquire([volumeKey('a')]);
  end(new Error('it was discarded'));
  await turn();
  throwsRefusal(() => locks.acquire([volumeKey('a')]), 'ABORTED');
  another();
  locks.acquire([NAME, volumeKey('a'), volumeCopyKey('a'), volumeCopyKey('b')]);
});

test('a caller that sets no deadline waits until the copy has ended', async (t) => {
  const { copied, times, end } = await copying(t, undefined);
  assert.deepEqual(times, [Number.POSITIVE_INFINITY]);
  end('done');
  assert.equal(await copied, 'done');
});

test('a volume is neither expanded nor deleted while a copy of it runs whose caller has given up', async (t) => {
  const { deps, volumes, volume, close } = await openManagers();
  t.after(close);
  const { volumeId } = await volume();
  const endCopy = deps.locks.acquire([volumeCopyKey(volumeId)]);
  const range = { requiredBytes: 64n << 20n, limitBytes: 0n };
  const copied = new RegExp(`a copy of volume ${volumeId} is pending`);
  await refused(volumes.expand(volumeId, range), 'ABORTED', copied);
  await refused(volumes.delete(volumeId), 'ABORTED', copied);
  endCopy();
  assert.equal((await volumes.expand(volumeId, range)).sizeBytes, 64n << 20n);
});
