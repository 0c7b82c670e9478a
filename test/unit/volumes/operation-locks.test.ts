import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  OperationLocks,
  pathKey,
  shared,
  snapshotKey,
  snapshotNameKey,
  volumeKey,
  volumeNameKey,
} from '../../../src/volumes/operation-locks.js';
import { rejectsWith, throwsWith } from '../../support/expect-status.js';

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
