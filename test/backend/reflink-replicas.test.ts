/** What happens to the replicas of a reflink pool that only a file system with files can show. */
import assert from 'node:assert/strict';
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import type { ReflinkBackend } from '../../src/driver/backends/reflink/reflink-backend.js';
import { setImmutable } from '../support/ioctls.js';
import { seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { skipUnlessRoot } from '../support/workspace.js';
import { newSnapshot, newVolume, SIZE } from './harness.js';
import { ReflinkFixture } from './reflink-fixture.js';

const pool = new ReflinkFixture('replicas', 'xfs', 300, before);

const MIB = 1 << 20;

const growing = new ReflinkFixture('growing', 'ext4', 2000, before);

const file = (name: string): string => join(pool.directory, 'snapshots', name);

async function completeReplica(backend: ReflinkBackend): Promise<string> {
  const snapshotId = newSnapshot();
  await backend.replicas.begin(snapshotId, SIZE, null);
  await backend.replicas.complete(snapshotId);
  return snapshotId;
}

test('a replica that another program has changed is no source and no base', { skip: skipUnlessRoot }, async () => {
  const backend = await pool.open();
  const snapshotId = await completeReplica(backend);
  const path = file(`${snapshotId}.replica`);
  setImmutable(path, false);
  chmodSync(path, 0o600);
  writeFileSync(path, 'x', { flag: 'r+' });
  setImmutable(path, true);
  await refused(backend.replicas.check(snapshotId, SIZE), 'FAILED_PRECONDITION', /was changed by another program/);
  const clone = backend.volumes.create(newVolume(), SIZE, { replicaId: snapshotId });
  await refused(clone, 'FAILED_PRECONDITION', /was changed by another program/);
  const next = backend.replicas.begin(newSnapshot(), SIZE, snapshotId);
  await refused(next, 'FAILED_PRECONDITION', /was changed by another program/);
  await backend.replicas.delete(snapshotId);
  assert.deepEqual(await backend.replicas.list(), []);
});

test('what a killed begin has left is removed at the start, and an unfinished replica stays', {
  skip: skipUnlessRoot,
}, async () => {
  const backend = await pool.open();
  const [left, unfinished, complete] = [newSnapshot(), newSnapshot(), await completeReplica(backend)];
  writeFileSync(file(`${left}.pull.tmp`), 'half a clone');
  await backend.replicas.begin(unfinished, SIZE, complete);
  await refused(backend.replicas.begin(unfinished, 2n * SIZE, null), 'INTERNAL', /where 8388608 were expected/);
  const again = pool.backend({});
  assert.deepEqual(await again.start(), [`${left}.pull.tmp`]);
  await again.stop();
  assert.equal(existsSync(file(`${left}.pull.tmp`)), false);
  const found = (await backend.replicas.list()).map(({ snapshotId, isComplete }) => [snapshotId, isComplete]);
  assert.deepEqual(Object.fromEntries(found), { [unfinished]: false, [complete]: true });
});

test('a write that the pool had no room for fails the flush, although its writer was told so and there is room again', {
  skip: skipUnlessRoot,
}, async () => {
  const backend = await pool.open();
  const { replicas } = backend;
  const snapshotId = newSnapshot();
  await replicas.begin(snapshotId, SIZE, null);
  const content = seededRandom('a full pool').bytes(Number(SIZE));
  const filler = join(pool.directory, 'filler');
  fill(filler);
  const device = await replicas.open(snapshotId);
  await assert.rejects(async () => writeThrough(device.path, content), { code: 'EIO' });
  rmSync(filler);
  const message = /not all that was written to the replica .* \(EIO\): look at the free space/;
  await refused(device.flush(), 'UNAVAILABLE', message);
  await device.close();

  const again = await replicas.open(snapshotId);
  writeThrough(again.path, content);
  await again.flush();
  await again.close();
  await replicas.complete(snapshotId);
  assert.ok(readFileSync(file(`${snapshotId}.replica`)).equals(content));
  await replicas.delete(snapshotId);
});

/** Takes all free space. */
function fill(path: string): void {
  const fd = openSync(path, 'w');
  for (let size = 16 << 20; size >= 4096; ) {
    try {
      writeSync(fd, Buffer.alloc(size, 1));
      fsyncSync(fd);
    } catch {
      size /= 2;
    }
  }
  closeSync(fd);
}

/** As nbdcopy writes: it is told of errors, here at its end. */
function writeThrough(path: string, content: Buffer): void {
  const fd = openSync(path, 'r+');
  try {
    writeSync(fd, content);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

test('an image grows before a replica is written, beside what volumes may claim, as far as its host has room', {
  skip: skipUnlessRoot,
}, async () => {
  // A replica cannot be overcommitted.
  const backend = await growing.open({ overcommitPercent: 200n });
  const free = (): number => {
    const { bavail, bsize } = statfsSync(join(growing.directory, 'mount'));
    return bavail * bsize;
  };
  assert.ok(free() < 500 * MIB);
  await backend.volumes.create(newVolume(), 400n * BigInt(MIB));
  await backend.replicas.makeRoom(600n * BigInt(MIB));
  const grown = free();
  assert.ok(grown >= 800 * MIB, `${grown} bytes are free`);
  await backend.replicas.makeRoom(600n * BigInt(MIB));
  assert.ok(Math.abs(free() - grown) < MIB, 'it has grown for nothing');
  await refused(backend.replicas.makeRoom(1n << 40n), 'RESOURCE_EXHAUSTED', /the host has no room/);
});
