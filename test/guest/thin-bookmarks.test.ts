/**
 * Deltas from retained bases on the real dm-thin: each condition that docs/engineering/retained-bases.md names, and
 * the invalidation of a base where a condition is not met.
 */
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { refused } from '../support/refusal.js';
import { patchSuperblock } from '../support/thin-superblock-patch.js';
import {
  PAGES_A_BLOCK,
  type ThinPoolOnDisks,
  type ThinSnapshot,
  type ThinVolume,
  poolTest as test,
} from './thin-pool-on-disks.js';

/** Discards stay in the pool. */
const KEEP = { backend: { passDiscards: false } };

/** An attached volume with its first blocks written, and its snapshot, kept and deleted. */
async function retainedBase(pool: ThinPoolOnDisks, blocks = 10): Promise<{ volume: ThinVolume; base: ThinSnapshot }> {
  const volume = await pool.written(blocks);
  const base = await pool.takeOne(volume);
  await pool.retainAndDelete(base);
  return { volume, base };
}

test('the kernel decides sharing by time alone: no first write after the base is missed', async (pool) => {
  const { volume, base } = await retainedBase(pool);
  // In part and whole, and again in place; over the number of a freed block; behind other snapshots.
  volume.write(1 * PAGES_A_BLOCK, 1);
  volume.writeBlock(2);
  volume.write(1 * PAGES_A_BLOCK + 3, 1);
  volume.discardBlock(4);
  volume.discardBlock(5);
  volume.write(5 * PAGES_A_BLOCK, 1);
  volume.write(6 * PAGES_A_BLOCK + 1, PAGES_A_BLOCK - 2);
  const between = await pool.takeOne(volume);
  await pool.backend.snapshots.delete(between.id);
  volume.write(7 * PAGES_A_BLOCK, 1);
  await pool.stop();
  await pool.start();
  volume.write(8 * PAGES_A_BLOCK, 1);
  volume.writeBlock(20);
  const target = await pool.takeOne(volume);
  volume.writeBlock(9);
  assert.deepEqual(await pool.reported(base, target), [1, 2, 4, 5, 6, 7, 8, 20]);
  assert.ok((await pool.contentOf(target)).equals(target.image));
});

test('a delta from a retained base equals the one from the snapshot before its deletion', async (pool) => {
  const volume = await pool.written(4);
  const base = await pool.takeOne(volume);
  volume.write(2, 1);
  volume.discardBlock(2);
  volume.writeBlock(30);
  const target = await pool.takeOne(volume);
  const before = await pool.soundDelta(base, target);
  await pool.retainAndDelete(base);
  assert.deepEqual((await pool.soundDelta(base, target)).ranges, before.ranges);
  await pool.restart();
  assert.deepEqual((await pool.soundDelta(base, target)).ranges, before.ranges);
});

test('a bookmark has the creation time that is on the disk before the deletion', async (pool) => {
  const volume = await pool.volume();
  const base = await pool.takeOne(volume);
  const devices = await pool.thinDevices();
  const onDisk = Math.max(...devices.map(({ creationTime }) => creationTime));
  await pool.retainAndDelete(base);
  const kept = pool.withLedger((ledger) => ledger.bookmark(base.id));
  assert.equal(kept?.creationTime, onDisk);
});

test(
  'a power failure between bookmark and deletion leaves bookmark and snapshot, and both give the same delta',
  async (pool) => {
    const volume = await pool.written(1);
    const base = await pool.takeOne(volume);
    assert.notEqual(await pool.backend.bases.retain(base.id, null), null);
    await pool.powerCut();
    volume.writeBlock(1);
    const target = await pool.takeOne(volume);
    assert.deepEqual(await pool.reported(base, target), [1]);
    await pool.retainAndDelete(base);
    assert.deepEqual(await pool.reported(base, target), [1]);
  },
  KEEP,
);

test('no base is retained if the snapshot was written to or its bookmark cannot be stored', async (pool) => {
  const volume = await pool.written(1);
  const base = await pool.takeOne(volume);
  const bases = join(pool.directory, 'bases');
  rmSync(bases, { recursive: true, force: true });
  mkdirSync(join(bases, `${base.id}.tmp`), { recursive: true });
  await assert.rejects(pool.backend.bases.retain(base.id, null));
  rmSync(bases, { recursive: true });
  await writeInto(pool, base);
  await assert.rejects(pool.backend.bases.retain(base.id, null), { code: 'EINVAL' });
  assert.deepEqual(pool.backend.bases.all(), { usable: [], invalidated: [] });
});

/** What nobody should do: activates a snapshot by hand and writes to it. */
async function writeInto(pool: ThinPoolOnDisks, { id }: ThinSnapshot): Promise<void> {
  const { deviceId } = pool.withLedger((ledger) => ledger.device(id)) ?? {};
  const { device } = await pool.native.run('dmFind', { name: await pool.poolName() });
  const name = 'blockdelta-by-hand';
  const made = await pool.native.run('dmCreate', {
    name,
    uuid: '',
    readOnly: false,
    sizeSectors: 8192n,
    type: 'thin',
    table: `${device?.major}:${device?.minor} ${deviceId}`,
  });
  writeFileSync(made.device.path, Buffer.alloc(4096, 1), { flag: 'r+', flush: true });
  await pool.native.run('dmRemove', { name, deferred: false });
}

test('a base is compared only with later snapshots of its own volume', async (pool) => {
  const volume = await pool.written(1);
  const earlier = await pool.takeOne(volume);
  const base = await pool.takeOne(volume);
  const later = await pool.takeOne(volume);
  const restored = await pool.restore(base);
  const cloned = await pool.clone(volume);
  const ofRestored = await pool.takeOne(restored);
  const ofCloned = await pool.takeOne(cloned);
  await pool.retainAndDelete(base);
  await pool.soundDelta(base, later);
  for (const target of [earlier, ofRestored, ofCloned]) {
    const refusal = pool.backend.changes.scan(target.id, base.id);
    await refused(refusal, 'FAILED_PRECONDITION', /make a full backup/);
  }
  await refused(pool.backend.changes.scan(base.id, null), 'FAILED_PRECONDITION');
});

test('the list of a volume expanded since the base includes the new blocks', async (pool) => {
  const { volume, base } = await retainedBase(pool, 64);
  await pool.grow(volume, 8 << 20);
  volume.writeBlock(100);
  volume.writeBlock(3);
  const target = await pool.takeOne(volume);
  assert.deepEqual(await pool.reported(base, target), [3, 100]);
});

test('metadata that was restored or rewritten while the plugin was stopped invalidates all bases', async (pool) => {
  const { volume, base } = await retainedBase(pool);
  await pool.stop();
  const saved = pool.workspace.path('metadata.saved');
  copyDevice(pool.metadata.path, saved);
  await pool.start();
  assert.equal(await pool.lossOf(base), '', 'an orderly stop loses nothing');
  volume.writeBlock(0);
  await pool.stop();
  copyDevice(saved, pool.metadata.path);
  await pool.next();
  assert.match(await pool.lossOf(base), /changed/);
  const target = await pool.takeOne(volume);
  const refusal = pool.backend.changes.scan(target.id, base.id);
  await refused(refusal, 'NOT_FOUND', /retained base because/);
});

test('a pool with metadata of an older transaction is not served', async (pool) => {
  const { volume } = await retainedBase(pool);
  await pool.stop();
  const saved = pool.workspace.path('metadata.saved');
  copyDevice(pool.metadata.path, saved);
  await pool.start();
  await pool.takeOne(volume);
  await pool.stop();
  const newest = pool.workspace.path('metadata.newest');
  copyDevice(pool.metadata.path, newest);
  copyDevice(saved, pool.metadata.path);
  await refused(pool.next(), 'FAILED_PRECONDITION', /transaction id/);
  copyDevice(newest, pool.metadata.path);
  await pool.start();
});

test('a pool that needs a check at a start invalidates all bases', async (pool) => {
  const { base } = await retainedBase(pool);
  await pool.stop();
  patchSuperblock(pool.metadata.path, { needsCheck: true });
  await pool.next();
  assert.match(await pool.lossOf(base), /check|write of the pool's metadata failed/);
  await pool.backend.stop();
  patchSuperblock(pool.metadata.path, { needsCheck: false });
  await pool.start();
  assert.notEqual(await pool.lossOf(base), '', 'it stays lost');
});

test('a pool that could not write its metadata invalidates the bases of attached volumes, even after it recovers', async (pool) => {
  const { volume, base } = await retainedBase(pool);
  await pool.metadata.failWrites();
  assert.throws(() => {
    volume.discardBlock(3);
    volume.sync();
  });
  await pool.metadata.work();
  await pool.stop();
  patchSuperblock(pool.metadata.path, { needsCheck: false });
  await pool.start();
  assert.notEqual(await pool.lossOf(base), '');
});

test('discards that were passed down before a power failure invalidate the bases of their volume only', async (pool) => {
  const { volume, base } = await retainedBase(pool);
  const other = await retainedBase(pool);
  await other.volume.detach();
  pool.volumes.delete(other.volume.id);
  await pool.powerCut(() => volume.discardBlock(3));
  assert.match(await pool.lossOf(base), /discards/);
  assert.equal(await pool.lossOf(other.base), '', 'it was not attached');
  const target = await pool.takeOne(volume);
  const refusal = pool.backend.changes.scan(target.id, base.id);
  await refused(refusal, 'NOT_FOUND', /retained base because/);
});

test(
  'discards that stay in the pool invalidate nothing in a power failure',
  async (pool) => {
    const { volume, base } = await retainedBase(pool);
    await pool.powerCut(() => {
      volume.discardBlock(3);
      volume.write(5 * PAGES_A_BLOCK, 1);
    });
    assert.equal(await pool.lossOf(base), '');
    volume.writeBlock(6);
    const target = await pool.takeOne(volume);
    assert.ok((await pool.reported(base, target)).includes(6));
  },
  KEEP,
);

test('a restart of the plugin with volumes attached invalidates nothing', async (pool) => {
  const { volume, base } = await retainedBase(pool);
  await pool.restart();
  volume.discardBlock(3);
  const target = await pool.takeOne(volume);
  assert.deepEqual(await pool.reported(base, target), [3]);
});

test('lists are correct near the largest time of a mapping, and no snapshot is taken beyond it', async (pool) => {
  const last = (1 << 24) - 1;
  const volume = await pool.written(3);
  await pool.stop();
  patchSuperblock(pool.metadata.path, { time: last - 3 });
  await pool.start();
  const base = await pool.takeOne(volume);
  volume.write(PAGES_A_BLOCK, 1);
  await pool.retainAndDelete(base);
  volume.write(2 * PAGES_A_BLOCK, 1);
  const target = await pool.takeOne(volume);
  assert.deepEqual(await pool.reported(base, target), [1, 2]);
  await pool.takeOne(volume);
  await assert.rejects(pool.takeOne(volume));
  assert.deepEqual(await pool.reported(base, target), [1, 2]);
});

test('a base whose file is missing is invalidated, and files without a base are swept', async (pool) => {
  const { base } = await retainedBase(pool);
  const bases = join(pool.directory, 'bases');
  assert.deepEqual(readdirSync(bases), [base.id]);
  copyFileSync(join(bases, base.id), join(bases, 'left'));
  rmSync(join(bases, base.id));
  await pool.restart();
  assert.match(await pool.lossOf(base), /is gone/);
  assert.deepEqual(pool.swept, ['left']);
});

test('a bookmark that was damaged, or exchanged with another one, is invalidated', async (pool) => {
  const [damaged, first, second] = [await retainedBase(pool), await retainedBase(pool), await retainedBase(pool)];
  const fileOf = ({ base }: { base: ThinSnapshot }): string => join(pool.directory, 'bases', base.id);
  const bytes = readFileSync(fileOf(damaged));
  bytes[5000] = (bytes[5000] ?? 0) ^ 1;
  writeFileSync(fileOf(damaged), bytes);
  const saved = readFileSync(fileOf(first));
  copyFileSync(fileOf(second), fileOf(first));
  writeFileSync(fileOf(second), saved);
  for (const [of, reason] of [
    [damaged, /its bookmark is damaged: /],
    [first, /is the bookmark of another snapshot/],
    [second, /is the bookmark of another snapshot/],
  ] as const) {
    of.volume.write(2 * PAGES_A_BLOCK, 1);
    const target = await pool.takeOne(of.volume);
    for (let count = 0; count < 2; count += 1)
      await refused(pool.backend.changes.scan(target.id, of.base.id), 'NOT_FOUND', reason);
    assert.match(await pool.lossOf(of.base), reason);
  }
});

/** The last close writes the page cache of a device out and drops it. */
function copyDevice(from: string, to: string): void {
  writeFileSync(to, readFileSync(from), { flush: true });
}
