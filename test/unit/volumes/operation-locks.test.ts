import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError } from '../../../src/base/errors.js';
import {
  type LockRequest,
  OperationLocks,
  pathKey,
  shared,
  snapshotKey,
  snapshotNameKey,
  volumeKey,
  volumeNameKey,
} from '../../../src/volumes/operation-locks.js';
import { rejectsWith, throwsWith } from '../../support/expect-status.js';
import { seededRandom } from '../../support/random.js';

test('a held lock is ABORTED, with the name of the object', () => {
  const locks = new OperationLocks();
  locks.acquire([volumeKey('vol-1')]);
  throwsWith(() => locks.acquire([volumeKey('vol-1')]), 'ABORTED', /volume vol-1/);
});

test('locks are taken all or none', () => {
  const locks = new OperationLocks();
  locks.acquire([volumeKey('b')]);
  throwsWith(() => locks.acquire([volumeKey('a'), volumeKey('b'), volumeKey('c')]), 'ABORTED');
  locks.acquire([volumeKey('a')]);
  locks.acquire([volumeKey('c')]);
});

test('a release is idempotent', () => {
  const locks = new OperationLocks();
  const release = locks.acquire([volumeKey('a')]);
  release();
  const again = locks.acquire([volumeKey('a')]);
  release();
  throwsWith(() => locks.acquire([volumeKey('a')]), 'ABORTED');
  again();
  locks.acquire([volumeKey('a')]);
});

test('shared holders exclude an exclusive one until the last has released', () => {
  const locks = new OperationLocks();
  const key = snapshotKey('snap-1');
  const first = locks.acquire([shared(key)]);
  const second = locks.acquire([shared(key)]);
  throwsWith(() => locks.acquire([key]), 'ABORTED');
  first();
  assert.ok(locks.isShared(key));
  throwsWith(() => locks.acquire([key]), 'ABORTED');
  second();
  assert.ok(!locks.isShared(key));
  locks.acquire([key]);
});

test('an exclusive holder excludes shared ones and does not count as shared', () => {
  const locks = new OperationLocks();
  const key = snapshotKey('snap-1');
  const release = locks.acquire([key]);
  assert.ok(!locks.isShared(key));
  throwsWith(() => locks.acquire([shared(key)]), 'ABORTED');
  release();
  locks.acquire([shared(key)])();
});

test('a key that occurs twice in one request is taken once, exclusively if either occurrence is', () => {
  const locks = new OperationLocks();
  const key = snapshotKey('snap-1');
  for (const twice of [
    [shared(key), key],
    [key, shared(key)],
  ]) {
    const release = locks.acquire(twice);
    throwsWith(() => locks.acquire([shared(key)]), 'ABORTED');
    release();
    locks.acquire([key])();
  }
  const release = locks.acquire([shared(key), shared(key)]);
  release();
  locks.acquire([key])();
});

test('volumes and snapshots share the id space, and names have spaces of their own', () => {
  const locks = new OperationLocks();
  locks.acquire([volumeKey('x')]);
  throwsWith(() => locks.acquire([snapshotKey('x')]), 'ABORTED');
  locks.acquire([volumeNameKey('x')]);
  locks.acquire([snapshotNameKey('x')]);
});

test('all spellings of a path are one object', () => {
  const locks = new OperationLocks();
  locks.acquire([pathKey('/x/p')]);
  for (const path of ['/x/p', '/x/p/', '/x/p//', '/x//p', '/x/./p', '/x/p/.']) {
    throwsWith(() => locks.acquire([pathKey(path)]), 'ABORTED', /an operation on path \/x/);
  }
  locks.acquire([pathKey('/x/p/p')]);
});

test('run takes its locks before it returns, so nothing can come in between', async () => {
  const locks = new OperationLocks();
  let finish = (): void => undefined;
  const running = locks.run([volumeKey('a')], () => new Promise<void>((done) => (finish = done)));
  throwsWith(() => locks.acquire([volumeKey('a')]), 'ABORTED');
  finish();
  await running;
  locks.acquire([volumeKey('a')]);
});

test('run releases its locks when the work fails, and passes the failure on', async () => {
  const locks = new OperationLocks();
  const failed = locks.run([volumeKey('a')], async () => {
    throw new Error('as expected');
  });
  await assert.rejects(failed, /as expected/);
  locks.acquire([volumeKey('a')]);
});

test('run does not start its work if a lock is held', async () => {
  const locks = new OperationLocks();
  locks.acquire([volumeKey('a')]);
  let started = false;
  const refused = locks.run([volumeKey('a')], async () => {
    started = true;
  });
  await rejectsWith(refused, 'ABORTED');
  assert.ok(!started);
});

const never = (): AbortSignal => new AbortController().signal;

/** Whether a promise has settled by now, however busy the machine is. */
async function settled(promise: Promise<unknown>): Promise<boolean> {
  let isSettled = false;
  const settle = (): void => {
    isSettled = true;
  };
  promise.then(settle, settle);
  await new Promise((resolve) => setImmediate(resolve));
  return isSettled;
}

test('a call in turn gets free locks at once', async () => {
  const locks = new OperationLocks();
  const release = await locks.acquireInTurn([volumeKey('a'), volumeKey('b')], never());
  throwsWith(() => locks.acquire([volumeKey('b')]), 'ABORTED');
  release();
  locks.acquire([volumeKey('a'), volumeKey('b')]);
});

test('a call waits for a held lock, holds nothing meanwhile, and gets all of its locks at once', async () => {
  const locks = new OperationLocks();
  const release = locks.acquire([volumeKey('a')]);
  const waiting = locks.acquireInTurn([volumeKey('a'), volumeKey('b')], never());
  assert.ok(!(await settled(waiting)));
  locks.acquire([volumeKey('b')])();
  release();
  const releaseBoth = await waiting;
  for (const name of ['a', 'b']) throwsWith(() => locks.acquire([volumeKey(name)]), 'ABORTED');
  releaseBoth();
});

test('at the end of the wait a call is ABORTED with the name of the object, and lets others pass', async () => {
  const locks = new OperationLocks({ waitMs: 20 });
  const release = locks.acquire([volumeKey('a')]);
  const first = locks.acquireInTurn([volumeKey('a'), volumeKey('b')], never());
  await rejectsWith(first, 'ABORTED', /volume a is pending; try again/);
  (await locks.acquireInTurn([volumeKey('b')], never()))();
  release();
  locks.acquire([volumeKey('a')]);
});

test('the signal of a call ends its wait with its reason', async () => {
  const locks = new OperationLocks();
  locks.acquire([volumeKey('a')]);
  const call = new AbortController();
  const waiting = locks.acquireInTurn([volumeKey('a')], call.signal);
  call.abort(CsiError.cancelled('the caller went away'));
  await rejectsWith(waiting, 'CANCELLED', /went away/);
  await rejectsWith(locks.acquireInTurn([volumeKey('b')], call.signal), 'CANCELLED');
  locks.acquire([volumeKey('b')]);
});

test('calls that want the same are served in the order of arrival, and others are not held up', async () => {
  const locks = new OperationLocks();
  const order: string[] = [];
  const release = locks.acquire([volumeKey('a')]);
  const take = (label: string, keys: LockRequest[]): Promise<void> =>
    locks.run(keys, async () => void order.push(label), never());
  const all = [
    take('first', [volumeKey('a'), volumeKey('b')]),
    take('second', [volumeKey('b')]),
    take('third', [volumeKey('a')]),
    take('unrelated', [volumeKey('c')]),
  ];
  await all[3];
  assert.deepEqual(order, ['unrelated'], 'second waits behind first, though b is free');
  release();
  await Promise.all(all);
  assert.deepEqual(order, ['unrelated', 'first', 'second', 'third']);
});

test('a shared request waits behind an exclusive one that came before, and shared ones go together', async () => {
  const locks = new OperationLocks();
  const key = snapshotKey('snap-1');
  const stream = locks.acquire([shared(key)]);
  const deletion = locks.acquireInTurn([key], never());
  const later = [
    locks.acquireInTurn([shared(key)], never()),
    locks.acquireInTurn([shared(key)], never()),
  ];
  assert.ok(!(await settled(Promise.race(later))));
  stream();
  (await deletion)();
  await Promise.all(later);
});

test('more calls than the limit do not wait', async () => {
  const locks = new OperationLocks({ maxWaiting: 2 });
  const release = locks.acquire([volumeKey('a')]);
  const waiting = [0, 1].map(() => locks.acquireInTurn([volumeKey('a')], never()));
  await rejectsWith(locks.acquireInTurn([volumeKey('a')], never()), 'ABORTED', /volume a/);
  release();
  for (const each of waiting) (await each)();
});

test('random calls with several locks each all end, and never hold the same object at once', async () => {
  const random = seededRandom('locks in turn');
  const locks = new OperationLocks({ waitMs: 60_000 });
  const held = new Map<string, number>();
  const call = async (): Promise<void> => {
    const names = [0, 1, 2].map(() => `v${random.below(6)}`);
    await locks.run(
      names.map(volumeKey),
      async () => {
        const own = new Set(names);
        for (const name of own) {
          assert.equal(held.get(name) ?? 0, 0, `${name} is held twice`);
          held.set(name, 1);
        }
        await new Promise((resolve) => setImmediate(resolve));
        for (const name of own) held.set(name, 0);
      },
      never(),
    );
  };
  await Promise.all(Array.from({ length: 200 }, call));
});

test('a release looks at each key of each waiting call a few times, however many there are', () => {
  const [calls, members] = [40, 100];
  const locks = new OperationLocks();
  locks.acquire([volumeKey('busy')]);
  const release = locks.acquire([volumeKey('other')]);
  let reads = 0;
  const counted = (id: string): LockRequest => {
    const request = volumeKey(id);
    return {
      ...request,
      get key() {
        reads += 1;
        return request.key;
      },
    };
  };
  const call = new AbortController();
  for (let index = 0; index < calls; index += 1) {
    const own = Array.from({ length: members }, (_, member) => counted(`${index}-${member}`));
    locks.acquireInTurn([...own, volumeKey('busy')], call.signal).catch(() => undefined);
  }
  reads = 0;
  release();
  const found = reads;
  call.abort();
  assert.ok(found > 0 && found <= 10 * calls * members, `${found} reads`);
});
