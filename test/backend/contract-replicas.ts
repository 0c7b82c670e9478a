/** The part of the backend contract about replicas, for backends that hold them and whose volumes are block devices. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { test } from 'node:test';
import type { PoolReplicas } from '../../src/driver/backends/backend.js';
import { eventually } from '../support/eventually.js';
import { seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { type ContractContext, newSnapshot, newVolume, SIZE, VOLUME_BYTES } from './harness.js';

const BLOCK = 4096;

interface Piece {
  offset: number;
  bytes: Buffer;
}

function replicasOf({ backend }: ContractContext): PoolReplicas {
  assert.ok(backend.replicas !== undefined);
  return backend.replicas;
}

/** As a pull does. */
async function write(context: ContractContext, snapshotId: string, pieces: readonly Piece[], punched: Piece[] = []) {
  const device = await replicasOf(context).open(snapshotId);
  const fd = openSync(device.path, 'r+');
  for (const { offset, bytes } of pieces) writeSync(fd, bytes, 0, bytes.length, offset);
  closeSync(fd);
  await device.punch(punched.map(({ offset, bytes }) => ({ offset: BigInt(offset), size: BigInt(bytes.length) })));
  await device.close();
}

/** A complete one. */
async function replica(context: ContractContext, content: Buffer, baseId: string | null = null): Promise<string> {
  const snapshotId = newSnapshot();
  await replicasOf(context).begin(snapshotId, BigInt(content.length), baseId);
  await write(context, snapshotId, [{ offset: 0, bytes: content }]);
  await replicasOf(context).complete(snapshotId);
  return snapshotId;
}

/** Of a volume that is made from the replica. */
async function contentOf(context: ContractContext, replicaId: string, sizeBytes = SIZE): Promise<Buffer> {
  const { backend, harness } = context;
  const volumeId = newVolume();
  await backend.volumes.create(volumeId, sizeBytes, { replicaId });
  const content = Buffer.from(await harness.read(volumeId));
  await harness.release(volumeId);
  await backend.volumes.delete(volumeId);
  return content;
}

const isAttached = (path: string): boolean =>
  ['loop/backing_file', 'dm/name'].some((name) => existsSync(`/sys/block/${basename(path)}/${name}`));

async function removeAll(context: ContractContext): Promise<void> {
  const replicas = replicasOf(context);
  for (const { snapshotId } of await replicas.list()) await replicas.delete(snapshotId);
  assert.deepEqual(await replicas.list(), []);
}

export function describeReplicas(context: ContractContext): void {
  test('a complete replica is read as a device that refuses writes, also while it is deleted, and an unfinished one is not', async () => {
    const content = seededRandom('a replica that is read').bytes(VOLUME_BYTES);
    const replicas = replicasOf(context);
    const snapshotId = newSnapshot();
    await replicas.begin(snapshotId, BigInt(content.length), null);
    await write(context, snapshotId, [{ offset: 0, bytes: content }]);
    await refused(replicas.openComplete(snapshotId), 'FAILED_PRECONDITION');
    await replicas.complete(snapshotId);
    const device = await replicas.openComplete(snapshotId);
    await replicas.delete(snapshotId);
    assert.ok(readFileSync(device.path).equals(content));
    const fd = openSync(device.path, 'r+');
    assert.throws(() => writeSync(fd, Buffer.alloc(BLOCK), 0, BLOCK, 0), { code: 'EPERM' });
    closeSync(fd);
    await device.close();
    await eventually('the device is gone', async () => !isAttached(device.path));
    await refused(replicas.openComplete(snapshotId), 'FAILED_PRECONDITION');
  });

  test('volumes are made from a replica as from a snapshot, also larger ones, and leave it as it is', async () => {
    const content = seededRandom('a replica').bytes(VOLUME_BYTES);
    const replicaId = await replica(context, content);
    const { backend, harness } = context;
    const volumeId = newVolume();
    await backend.volumes.create(volumeId, 2n * SIZE, { replicaId });
    assert.ok((await harness.read(volumeId)).equals(Buffer.concat([content, Buffer.alloc(VOLUME_BYTES)])));
    await harness.write(volumeId, 0, Buffer.alloc(BLOCK, 1));
    await harness.release(volumeId);
    assert.ok((await contentOf(context, replicaId)).equals(content));
    await replicasOf(context).check(replicaId, SIZE);
    await refused(replicasOf(context).check(replicaId, SIZE + 4096n), 'FAILED_PRECONDITION');
    await replicasOf(context).delete(replicaId);
    // The volume has its own content.
    assert.equal((await harness.read(volumeId))[BLOCK], content[BLOCK]);
    await refused(replicasOf(context).check(replicaId, SIZE), 'FAILED_PRECONDITION');
    const fromNothing = backend.volumes.create(newVolume(), SIZE, { replicaId });
    await refused(fromNothing, 'FAILED_PRECONDITION', /is gone or was changed/);
    await removeAll(context);
  });

  test('each of thirty replicas has its own content, the changes of one laid over another', async () => {
    const random = seededRandom('replicas from replicas');
    const content = random.bytes(VOLUME_BYTES);
    let last = await replica(context, content);
    const kept = new Map<string, Buffer>([[last, Buffer.from(content)]]);
    for (let round = 0; round < 30; round += 1) {
      const pieces: Piece[] = [];
      const punched: Piece[] = [];
      for (let index = 0; index < 5; index += 1) {
        const offset = random.below(VOLUME_BYTES / BLOCK - 8) * BLOCK;
        const length = (1 + random.below(8)) * BLOCK;
        const bytes = index < 3 ? random.bytes(length) : Buffer.alloc(length);
        bytes.copy(content, offset);
        (index < 3 ? pieces : punched).push({ offset, bytes });
      }
      const next = newSnapshot();
      await replicasOf(context).begin(next, SIZE, last);
      await write(context, next, pieces, punched);
      await replicasOf(context).complete(next);
      kept.set(next, Buffer.from(content));
      last = next;
    }
    for (const [replicaId, expected] of kept) {
      assert.ok((await contentOf(context, replicaId)).equals(expected), replicaId);
    }
    await removeAll(context);
  });

  test('an unfinished replica outlives a restart, is no source, and goes on', async () => {
    const snapshotId = newSnapshot();
    const replicas = replicasOf(context);
    await replicas.begin(snapshotId, SIZE, null);
    await write(context, snapshotId, [{ offset: 0, bytes: Buffer.alloc(BLOCK, 1) }]);
    const { swept, backend } = await context.harness.reopen();
    assert.deepEqual(swept, []);
    assert.deepEqual(await backend.replicas?.list(), [
      { snapshotId, sizeBytes: SIZE, isComplete: false, promiseId: null },
    ]);
    await refused(replicas.check(snapshotId, SIZE), 'FAILED_PRECONDITION');
    await refused(context.backend.volumes.create(newVolume(), SIZE, { replicaId: snapshotId }), 'FAILED_PRECONDITION');
    await refused(replicas.begin(newSnapshot(), SIZE, snapshotId), 'FAILED_PRECONDITION');
    await refused(replicas.begin(snapshotId, 2n * SIZE, null), 'INTERNAL', /where 8388608 were expected/);
    await replicas.begin(snapshotId, SIZE, null);
    await write(context, snapshotId, [{ offset: BLOCK, bytes: Buffer.alloc(BLOCK, 2) }]);
    await replicas.complete(snapshotId);
    await replicas.complete(snapshotId);
    assert.deepEqual(await replicas.list(), [{ snapshotId, sizeBytes: SIZE, isComplete: true, promiseId: null }]);
    await refused(replicas.begin(snapshotId, SIZE, null), 'INTERNAL', /is complete/);
    const expected = Buffer.alloc(VOLUME_BYTES)
      .fill(1, 0, BLOCK)
      .fill(2, BLOCK, 2 * BLOCK);
    assert.ok((await contentOf(context, snapshotId)).equals(expected));
    await removeAll(context);
  });

  test('a promise stays with a complete replica until another one replaces it, and goes with the replica', async () => {
    const replicas = replicasOf(context);
    const [first, second] = ['1'.repeat(32), '2'.repeat(32)];
    const promiseOf = async (id: string) => (await replicas.list()).find((each) => each.snapshotId === id)?.promiseId;
    const unfinished = newSnapshot();
    await refused(replicas.promise(unfinished, first), 'FAILED_PRECONDITION', /no complete replica/);
    await replicas.begin(unfinished, SIZE, null);
    await refused(replicas.promise(unfinished, first), 'FAILED_PRECONDITION', /no complete replica/);
    const snapshotId = await replica(context, seededRandom('promised').bytes(VOLUME_BYTES));
    assert.equal(await promiseOf(snapshotId), null);
    for (const promiseId of [first, first, second]) {
      await replicas.promise(snapshotId, promiseId);
      assert.equal(await promiseOf(snapshotId), promiseId);
    }
    assert.equal(await promiseOf(unfinished), null);
    await replicas.delete(snapshotId);
    await replicas.begin(snapshotId, SIZE, null);
    await replicas.complete(snapshotId);
    assert.equal(await promiseOf(snapshotId), null);
    await removeAll(context);
  });

  test('replicas are no volumes and no snapshots, and one whose device is open is neither completed nor removed', async () => {
    const snapshotId = newSnapshot();
    const replicas = replicasOf(context);
    await replicas.begin(snapshotId, SIZE, null);
    const device = await replicas.open(snapshotId);
    const fd = openSync(device.path, 'r');
    const listed = async () => {
      const { volumes, snapshots, unknown } = await context.backend.list();
      return [...volumes, ...snapshots, ...unknown.filter((path) => path.includes(snapshotId))];
    };
    assert.deepEqual(await listed(), []);
    await assert.rejects(replicas.complete(snapshotId), { code: 'EBUSY' });
    await assert.rejects(replicas.delete(snapshotId), { code: 'EBUSY' });
    assert.equal(readSync(fd, Buffer.alloc(BLOCK), 0, BLOCK, 0), BLOCK);
    closeSync(fd);
    await device.close();
    await replicas.complete(snapshotId);
    assert.deepEqual(await listed(), []);
    await removeAll(context);
    await replicas.delete(snapshotId);
  });

  test('a snapshot is read as a device that refuses writes, also after its deletion, and by several at once', async () => {
    const { backend, harness } = context;
    const { snapshots } = backend;
    assert.ok(snapshots.open !== undefined);
    const [volumeId, snapshotId] = [newVolume(), newSnapshot()];
    await backend.volumes.create(volumeId, SIZE);
    const content = seededRandom('an open snapshot').bytes(BLOCK);
    await harness.write(volumeId, 3 * BLOCK, content);
    await backend.snapshots.create([{ volumeId, snapshotId }]);
    await harness.release(volumeId);
    const devices = [await snapshots.open(snapshotId), await snapshots.open(snapshotId)];
    const read = (path: string): Buffer => {
      const fd = openSync(path, 'r');
      const found = Buffer.alloc(BLOCK);
      readSync(fd, found, 0, BLOCK, 3 * BLOCK);
      closeSync(fd);
      return found;
    };
    const [first, second] = devices.map(({ path }) => path);
    assert.ok(read(first ?? '').equals(content));
    assert.throws(() => writeFileSync(first ?? '', content, { flag: 'r+', flush: true }), { code: /EACCES|EPERM/ });
    await snapshots.delete(snapshotId);
    await devices[0]?.close();
    assert.ok(read(second ?? '').equals(content));
    await devices[1]?.close();
    // The kernel detaches it.
    await eventually('the devices are gone', () => ![first, second].some((path) => isAttached(path ?? '')));
    await refused(snapshots.open(snapshotId), 'FAILED_PRECONDITION');
    await backend.volumes.delete(volumeId);
  });

  test('ranges are freed in whole sectors, and a range beyond the end is refused', async () => {
    const snapshotId = newSnapshot();
    const replicas = replicasOf(context);
    await replicas.begin(snapshotId, SIZE, null);
    // In two extents: btrfs frees an extent as a whole.
    const half = VOLUME_BYTES / 2;
    for (const offset of [0, half]) await write(context, snapshotId, [{ offset, bytes: Buffer.alloc(half, 7) }]);
    execFileSync('sync');
    const before = await context.harness.reallyFree();
    const device = await replicas.open(snapshotId);
    const ranges = Array.from({ length: 4000 }, (_, index) => ({ offset: BigInt((index + 1) * 512), size: 512n }));
    await device.punch([...ranges, { offset: BigInt(half), size: BigInt(half) }]);
    await assert.rejects(device.punch([{ offset: SIZE, size: 512n }]), { code: 'EINVAL' });
    await assert.rejects(device.punch([{ offset: 1n, size: 512n }]), { code: 'EINVAL' });
    await device.close();
    await replicas.complete(snapshotId);
    const expected = Buffer.alloc(VOLUME_BYTES, 7)
      .fill(0, 512, 512 * 4001)
      .fill(0, half);
    assert.ok((await contentOf(context, snapshotId)).equals(expected));
    await eventually('the ranges give space back', async () => {
      // btrfs gives back what a transaction has freed once the transaction is committed.
      execFileSync('sync');
      return (await context.harness.reallyFree()) > before;
    });
    await removeAll(context);
  });
}
