/** Replicas and open snapshots of a thin pool: pulls from and to other pools, a plugin that dies, and what other programs do. */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { Backend, PoolReplicas } from '../../src/driver/backends/backend.js';
import { BackendRegistry } from '../../src/driver/backends/registry.js';
import type { ReplicaRecord } from '../../src/driver/catalogue/records.js';
import { ReplicaKeeper } from '../../src/driver/replicas/replica-keeper.js';
import { OperationLocks } from '../../src/driver/volumes/operation-locks.js';
import { newSnapshot, newVolume } from '../backend/harness.js';
import { ReflinkPool } from '../backend/reflink-fixture.js';
import { isNightly } from '../support/nightly.js';
import { pullHistory } from '../support/pulled-history.js';
import { seededRandom } from '../support/random.js';
import { replicaRecord, volumeRecord } from '../support/records.js';
import { refused } from '../support/refusal.js';
import { PAGE_BYTES } from '../support/tagged-image.js';
import { BLOCK_BYTES, nightlyPoolTest, poolTest, type ThinPoolOnDisks } from './thin-pool-on-disks.js';

const ROUNDS = isNightly ? 6 : 3;
const SIZE = 16 * BLOCK_BYTES;

async function withReflinkPool(work: (pool: ReflinkPool, backend: Backend) => Promise<void>): Promise<void> {
  const pool = new ReflinkPool();
  try {
    pool.make('reflink', 'xfs');
    await work(pool, await pool.open({ changeLists: true }));
  } finally {
    await pool.dispose();
  }
}

async function assertEmpty(pool: ThinPoolOnDisks): Promise<void> {
  for (const { id } of (await pool.backend.list()).snapshots) await pool.backend.snapshots.delete(id);
  for (const { id } of (await pool.backend.list()).volumes) await pool.backend.volumes.delete(id);
  assert.equal(await pool.deviceCount(), 0);
  assert.equal((await pool.status()).usedDataBlocks, 0n);
}

poolTest('snapshots of a thin pool become the same replicas in a reflink pool', async (thin) => {
  await withReflinkPool(async (pool, target) => {
    const { pieces } = await pullHistory('replicas of thin on xfs', {
      source: thin.backend,
      target,
      native: thin.native,
      directory: pool.workspace.directory,
      rounds: ROUNDS,
      discardGranularity: BLOCK_BYTES,
    });
    console.log(`# ${pieces} pieces`);
  });
  await assertEmpty(thin);
});

poolTest('snapshots of a reflink pool become the same replicas in a thin pool', async (thin) => {
  await withReflinkPool(async (pool, source) => {
    const { pieces } = await pullHistory('replicas of xfs on thin', {
      source,
      target: thin.backend,
      native: pool.native,
      directory: pool.workspace.directory,
      rounds: ROUNDS,
      discardGranularity: 4096,
    });
    console.log(`# ${pieces} pieces`);
  });
  await assertEmpty(thin);
});

nightlyPoolTest('a thin pool holds a snapshot and its replica side by side', async (thin) => {
  await pullHistory('replicas of thin on thin', {
    source: thin.backend,
    target: thin.backend,
    native: thin.native,
    directory: thin.workspace.directory,
    rounds: ROUNDS,
    discardGranularity: BLOCK_BYTES,
  });
  await assertEmpty(thin);
});

function writeTo(path: string, content: Buffer, offset = 0): void {
  const fd = openSync(path, 'r+');
  try {
    writeSync(fd, content, 0, content.length, offset);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

async function complete(replicas: PoolReplicas, snapshotId: string, content: Buffer): Promise<void> {
  await replicas.begin(snapshotId, BigInt(content.length), null);
  const device = await replicas.open(snapshotId);
  writeTo(device.path, content);
  await device.close();
  await replicas.complete(snapshotId);
}

async function contentOf({ volumes, attachments }: Backend, replicaId: string): Promise<Buffer> {
  const volumeId = newVolume();
  await volumes.create(volumeId, BigInt(SIZE), { replicaId });
  const content = readFileSync((await attachments.attach(volumeId, { readOnly: true })).devicePath);
  await volumes.delete(volumeId);
  return content;
}

poolTest('a plugin that dies in a transfer and in a pull leaves what was pulled, and no device', async (pool) => {
  const volume = await pool.written(4);
  const snapshot = await pool.takeOne(volume);
  await volume.detach();
  assert.ok(pool.backend.snapshots.open !== undefined);
  await pool.backend.snapshots.open(snapshot.id);
  const replicaId = newSnapshot();
  await pool.backend.replicas.begin(replicaId, BigInt(SIZE), null);
  const content = seededRandom('pulled before the kill').bytes(SIZE);
  writeTo((await pool.backend.replicas.open(replicaId)).path, content);
  assert.equal((await pool.deviceNames()).length, 3);
  const backend = await pool.next();
  assert.equal(pool.swept.length, 1);
  assert.match(pool.swept[0] ?? '', new RegExp(`^${snapshot.id}\\.opened-[0-9a-f]{8}$`));
  assert.deepEqual(await pool.deviceNames(), [await pool.poolName()]);
  assert.equal(await pool.deviceCount(), 3);
  await backend.replicas.complete(replicaId);
  assert.ok((await contentOf(backend, replicaId)).equals(content));
  await pool.restart();
  assert.deepEqual(pool.swept, []);
  await pool.backend.replicas.delete(replicaId);
  await pool.backend.snapshots.delete(snapshot.id);
  await pool.remove(volume);
  assert.equal(await pool.deviceCount(), 0);
});

poolTest('a replica that is complete when the power goes is whole afterwards', async (pool) => {
  const volume = await pool.written(1);
  const [replicaId, next] = [newSnapshot(), newSnapshot()];
  const content = seededRandom('complete before the power cut').bytes(SIZE);
  await complete(pool.backend.replicas, replicaId, content);
  await pool.powerCut(() => volume.writeBlock(3));
  const { replicas } = pool.backend;
  await replicas.check(replicaId, BigInt(SIZE));
  await replicas.begin(next, BigInt(SIZE), replicaId);
  assert.ok((await contentOf(pool.backend, replicaId)).equals(content));
  assert.equal((await replicas.list()).length, 2);
});

/** Makes a device of a thin device of the pool under a name of its own, as dmsetup does. */
async function activated(pool: ThinPoolOnDisks, objectId: string, work: (path: string) => unknown): Promise<void> {
  const deviceId = pool.withLedger((ledger) => ledger.device(objectId)?.deviceId);
  const { device } = await pool.native.run('dmFind', { name: await pool.poolName() });
  const name = 'foreign';
  const target = {
    type: 'thin',
    table: `${device?.major}:${device?.minor} ${deviceId}`,
    sizeSectors: BigInt(SIZE / 512),
  };
  const made = await pool.native.run('dmCreate', { name, uuid: name, readOnly: false, ...target });
  await work(made.device.path);
  await pool.native.run('dmRemove', { name, deferred: false });
}

poolTest('a replica that another program has written to is no source, and one that it has read is', async (pool) => {
  const { replicas, volumes } = pool.backend;
  const content = seededRandom('a replica that others change').bytes(SIZE);
  for (const suffix of ['replica', 'seal']) {
    const id = newSnapshot();
    await complete(replicas, id, content);
    await activated(pool, `${id}.${suffix}`, (path) => assert.ok(readFileSync(path).equals(content)));
    await replicas.check(id, BigInt(SIZE));
    // The same bytes, and twice: a root that moves may come to where it was, unless that block is held.
    await activated(pool, `${id}.${suffix}`, (path) => {
      for (const block of [0, 1]) writeTo(path, content.subarray(0, 4096), block * BLOCK_BYTES);
    });
    for (const refusal of [
      replicas.check(id, BigInt(SIZE)),
      replicas.begin(newSnapshot(), BigInt(SIZE), id),
      volumes.create(newVolume(), BigInt(SIZE), { replicaId: id }),
    ]) {
      await refused(refusal, 'FAILED_PRECONDITION', /is gone or was changed/);
    }
    await replicas.delete(id);
  }
  assert.equal(await pool.deviceCount(), 0);
});

poolTest('a replica that another program has active is not removed until it is free', async (pool) => {
  const { replicas } = pool.backend;
  const id = newSnapshot();
  await complete(replicas, id, Buffer.alloc(SIZE, 1));
  await activated(pool, `${id}.replica`, () => refused(replicas.delete(id), 'FAILED_PRECONDITION', /is in use/));
  await replicas.delete(id);
  assert.equal(await pool.deviceCount(), 0);
});

poolTest(
  'a replica that fills its pool is not completed by a pull, and gives all of its space back',
  async (pool) => {
    const { replicas } = pool.backend;
    const id = newSnapshot();
    const full = Buffer.alloc(40 << 20, 1);
    await replicas.begin(id, BigInt(full.length), null);
    const device = await replicas.open(id);
    // The page cache of a block device knows no other error.
    assert.throws(() => writeTo(device.path, full), { code: 'EIO' });
    await device.close();
    // A pool that is full still makes what takes no data.
    await replicas.begin(newSnapshot(), BigInt(SIZE), null);
    for (const { snapshotId } of await replicas.list()) await replicas.delete(snapshotId);
    const { mode, usedDataBlocks } = await pool.status();
    assert.deepEqual([mode, usedDataBlocks], ['rw', 0n]);
    await complete(replicas, id, Buffer.alloc(SIZE, 1));
    await replicas.check(id, BigInt(SIZE));
  },
  { dataBytes: 32n << 20n },
);

poolTest(
  'a pool that is low on space frees a replica, but none that is promised, also after a power cut',
  async (pool) => {
    const [promised, free] = [newSnapshot(), newSnapshot()];
    const content = seededRandom('a promised replica').bytes(SIZE);
    const rows = new Map<string, ReplicaRecord>();
    for (const snapshotId of [promised, free]) {
      await complete(pool.backend.replicas, snapshotId, content);
      const usedNs = BigInt(Date.now()) * 1_000_000n;
      rows.set(snapshotId, {
        ...replicaRecord(volumeRecord(), { snapshotId, nextOffset: null, usedNs }),
        pool: 'default',
      });
    }
    const promise = async (id: string, promiseId: string | null) =>
      void rows.set(id, { ...(rows.get(id) as ReplicaRecord), promiseId });
    const keeper = (): ReplicaKeeper =>
      new ReplicaKeeper({
        catalogue: {
          listReplicas: async () => [...rows.values()],
          replicaById: async (id) => rows.get(id) ?? null,
          replicaPromised: promise,
          removeReplica: async (id) => void rows.delete(id),
        },
        registry: new BackendRegistry([pool.backend]),
        locks: new OperationLocks(),
        pulls: { isRunning: () => false },
        transfers: { count: 0, endDeleted: async () => undefined },
        lacksRows: () => false,
        logger: { info: () => undefined, warn: (...line: unknown[]) => console.log('#', ...line) },
      });
    await keeper().promise(promised, 'f'.repeat(32));
    await keeper().round();
    assert.deepEqual([...rows.keys()], [promised, free]);
    // Three quarters of the pool.
    const volume = await pool.volume(24 << 20);
    await volume.attach();
    volume.write(0, (24 << 20) / PAGE_BYTES);
    volume.sync();
    await keeper().round();
    assert.deepEqual([...rows.keys()], [promised]);
    await pool.powerCut(() => volume.writeBlock(1));
    // As a catalogue that does not know the promise.
    await promise(promised, null);
    await keeper().settle(pool.backend);
    await keeper().round();
    assert.equal(rows.get(promised)?.promiseId, 'f'.repeat(32));
    assert.equal(await keeper().remove(promised), false);
    await pool.remove(volume);
    assert.ok((await contentOf(pool.backend, promised)).equals(content));
  },
  { dataBytes: 32n << 20n },
);
