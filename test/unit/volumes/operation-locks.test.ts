import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CsiError } from '../../../src/base/errors.js';
import {
  type LockRequest,
  OperationLocks,
  pathKey,
  type Release,
  shared,
  snapshotKey,
  snapshotNameKey,
  volumeKey,
  volumeNameKey,
} from '../../../src/driver/volumes/operation-locks.js';
import { type Random, seededRandom } from '../../support/random.js';
import { refused, throwsRefusal } from '../../support/refusal.js';

const never = (): AbortSignal => new AbortController().signal;

/** A call that holds its locks, or waits for them. */
interface Call {
  wanted: readonly LockRequest[];
  inTurn: boolean;
  abort: AbortController;
  release: Release | null;
}

const excludes = (a: readonly LockRequest[], b: readonly LockRequest[]): boolean =>
  a.some((one) => b.some(({ key, mode }) => one.key === key && (one.mode === 'exclusive' || mode === 'exclusive')));

function randomRequests(random: Random): LockRequest[] {
  return Array.from({ length: 1 + random.below(3) }, () => {
    const request = snapshotKey(`s${random.below(5)}`);
    return random.below(2) === 0 ? request : shared(request);
  });
}

test('all locks are taken or none, shared ones beside each other, and waiting calls are served in order', async (t) => {
  const random = seededRandom('locks');
  const locks = new OperationLocks({ waitMs: 600_000 });
  /** In the order of arrival. */
  let calls: Call[] = [];
  t.after(() => {
    for (const { abort } of calls) abort.abort();
  });
  const held = () => calls.filter(({ release }) => release !== null);
  const leave = (call: Call) => {
    calls = calls.filter((each) => each !== call);
  };
  for (let step = 0; step < 3000; step += 1) {
    const kind = random.pick(['acquire', 'in turn', 'in turn', 'release', 'release', 'abort']);
    const call: Call = {
      wanted: randomRequests(random),
      inTurn: kind === 'in turn',
      abort: new AbortController(),
      release: null,
    };
    if (kind === 'acquire') {
      // Overtakes who waits.
      if (held().some(({ wanted }) => excludes(wanted, call.wanted))) {
        throwsRefusal(() => locks.acquire(call.wanted), 'ABORTED', /snapshot s\d is pending/);
      } else calls.push({ ...call, release: locks.acquire(call.wanted) });
    } else if (kind === 'in turn' && calls.length < 12) {
      const isFree = !calls.some(({ wanted }) => excludes(wanted, call.wanted));
      calls.push(call);
      locks.acquireInTurn(call.wanted, call.abort.signal).then(
        (release) => Object.assign(call, { release }),
        () => leave(call),
      );
      await turn();
      assert.equal(call.release !== null, isFree, `step ${step}`);
    } else if (kind === 'release' && held().length > 0) {
      const done = random.pick(held());
      leave(done);
      done.release?.();
      // As often as one likes.
      done.release?.();
    } else if (kind === 'abort') calls.find(({ release }) => release === null)?.abort.abort();
    await turn();
    for (const [index, { wanted, release, inTurn }] of calls.entries()) {
      const others = calls.filter((other, at) => at !== index && (other.release !== null || (inTurn && at < index)));
      const isObstructed = others.some((other) => excludes(other.wanted, wanted));
      assert.equal(release === null, isObstructed, `step ${step}`);
    }
    for (const key of [0, 1, 2, 3, 4].map((id) => snapshotKey(`s${id}`))) {
      const holders = held().flatMap(({ wanted }) => wanted.filter((each) => each.key === key.key));
      assert.equal(locks.isBusy(key), holders.length > 0);
      const isExclusive = holders.some(({ mode }) => mode === 'exclusive');
      assert.equal(locks.isShared(key), holders.length > 0 && !isExclusive);
    }
  }
});

test('volumes and snapshots share the id space, and names have spaces of their own', () => {
  const locks = new OperationLocks();
  locks.acquire([volumeKey('x')]);
  throwsRefusal(() => locks.acquire([snapshotKey('x')]), 'ABORTED');
  locks.acquire([volumeNameKey('x')]);
  locks.acquire([snapshotNameKey('x')]);
});

test('all spellings of a path are one object', () => {
  const locks = new OperationLocks();
  locks.acquire([pathKey('/x/p')]);
  for (const path of ['/x/p', '/x/p/', '/x/p//', '/x//p', '/x/./p', '/x/p/.']) {
    throwsRefusal(() => locks.acquire([pathKey(path)]), 'ABORTED', /an operation on path \/x/);
  }
  locks.acquire([pathKey('/x/p/p')]);
});

test('run takes its locks before it returns, starts nothing without them, and releases them after a failure', async () => {
  const locks = new OperationLocks();
  let fail = (_reason: Error): void => undefined;
  const failing = new Promise<void>((_, reject) => (fail = reject));
  const running = locks.run([volumeKey('a')], () => failing);
  const second = locks.run([volumeKey('a')], async () => assert.fail('it was started'));
  await refused(second, 'ABORTED');
  fail(new Error('as expected'));
  await assert.rejects(running, /as expected/);
  locks.acquire([volumeKey('a')]);
});

test('the signal of a call ends its wait with its reason', async () => {
  const locks = new OperationLocks();
  locks.acquire([volumeKey('a')]);
  const call = new AbortController();
  const waiting = locks.acquireInTurn([volumeKey('a')], call.signal);
  call.abort(CsiError.cancelled('the caller went away'));
  await refused(waiting, 'CANCELLED', /went away/);
  await refused(locks.acquireInTurn([volumeKey('b')], call.signal), 'CANCELLED');
});

test('more calls than the limit do not wait', async () => {
  const locks = new OperationLocks({ maxWaiting: 2 });
  const release = locks.acquire([volumeKey('a')]);
  const waiting = [0, 1].map(() => locks.acquireInTurn([volumeKey('a')], never()));
  await refused(locks.acquireInTurn([volumeKey('a')], never()), 'ABORTED', /volume a/);
  release();
  for (const each of waiting) (await each)();
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
