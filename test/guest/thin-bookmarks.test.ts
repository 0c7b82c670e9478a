/**
 * Deltas from retained bases on the real dm-thin: each condition that docs/retained-bases.md names, and
 * the invalidation of a base where a condition is not met.
 */
import assert from 'node:assert/strict';
import {
  closeSync,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { openLedgerHere } from '../support/direct-database.js';
import { rejectsWith } from '../support/expect-status.js';
import { patchSuperblock } from '../support/thin-superblock-patch.js';
import {
  PAGES_A_BLOCK,
  poolTest,
  type ThinPoolOnDisks,
  type WorldSnapshot,
  type WorldVolume,
} from './thin-pool-on-disks.js';

const PASS = {};
const KEEP = { backend: { passDiscards: false } };

/** An attached volume with its first blocks written, and its snapshot, kept and deleted. */
async function retainedBase(
  world: ThinPoolOnDisks,
  blocks = 10,
): Promise<{ volume: WorldVolume; base: WorldSnapshot }> {
  const volume = await world.written(blocks);
  const base = await world.cutOne(volume);
  await world.keepAndDelete(base);
  return { volume, base };
}

poolTest(
  'the kernel decides sharing by time alone: no first write after the base is missed',
  PASS,
  async (world) => {
    const { volume, base } = await retainedBase(world);
    // In part and whole, and again in place; over the number of a freed block; behind other snapshots.
    volume.write(1 * PAGES_A_BLOCK, 1);
    volume.writeBlock(2);
    volume.write(1 * PAGES_A_BLOCK + 3, 1);
    volume.discardBlock(4);
    volume.discardBlock(5);
    volume.write(5 * PAGES_A_BLOCK, 1);
    volume.write(6 * PAGES_A_BLOCK + 1, PAGES_A_BLOCK - 2);
    const between = await world.cutOne(volume);
    await world.backend.deleteSnapshot(between.id);
    volume.write(7 * PAGES_A_BLOCK, 1);
    await world.stop();
    await world.start();
    volume.write(8 * PAGES_A_BLOCK, 1);
    volume.writeBlock(20);
    const target = await world.cutOne(volume);
    volume.writeBlock(9);
    assert.deepEqual(await world.reported(base, target), [1, 2, 4, 5, 6, 7, 8, 20]);
    assert.ok((await world.contentOf(target)).equals(target.image));
  },
);

poolTest(
  'a delta from a retained base equals the one from the snapshot before its deletion',
  PASS,
  async (world) => {
    const volume = await world.written(4);
    const base = await world.cutOne(volume);
    volume.write(2, 1);
    volume.discardBlock(2);
    volume.writeBlock(30);
    const target = await world.cutOne(volume);
    const before = await world.soundDelta(base, target);
    await world.keepAndDelete(base);
    assert.deepEqual((await world.soundDelta(base, target)).ranges, before.ranges);
    await world.rig.restart();
    assert.deepEqual((await world.soundDelta(base, target)).ranges, before.ranges);
  },
);

poolTest(
  'a bookmark has the creation time that is on the disk before the deletion',
  PASS,
  async (world) => {
    const volume = await world.volume();
    const base = await world.cutOne(volume);
    const { native, metadata } = world.rig;
    const request = { metadata: metadata.path, superblock: 0n, deviceIds: null };
    const { devices } = await native.run('thinDevices', request);
    const onDisk = Math.max(...devices.map(({ creationTime }) => creationTime));
    await world.keepAndDelete(base);
    const ledger = openLedgerHere(join(world.rig.directory, 'pool.sqlite'));
    const kept = ledger.bookmark(base.id);
    ledger.close();
    assert.equal(kept?.creationTime, onDisk);
  },
);

poolTest(
  'a power failure between bookmark and deletion leaves bookmark and snapshot, and both give the same delta',
  KEEP,
  async (world) => {
    const volume = await world.written(1);
    const base = await world.cutOne(volume);
    assert.notEqual(await world.backend.retainBase(base.id), null);
    await world.powerCut();
    volume.writeBlock(1);
    const target = await world.cutOne(volume);
    assert.deepEqual(await world.reported(base, target), [1]);
    await world.keepAndDelete(base);
    assert.deepEqual(await world.reported(base, target), [1]);
  },
);

poolTest(
  'no base is retained if the snapshot was written to or its bookmark cannot be stored',
  PASS,
  async (world) => {
    const volume = await world.written(1);
    const base = await world.cutOne(volume);
    const bases = join(world.rig.directory, 'bases');
    rmSync(bases, { recursive: true, force: true });
    mkdirSync(join(bases, `${base.id}.tmp`), { recursive: true });
    await assert.rejects(world.backend.retainBase(base.id));
    rmSync(bases, { recursive: true });
    await writeInto(world, base);
    await assert.rejects(world.backend.retainBase(base.id), { code: 'EINVAL' });
    assert.deepEqual(await world.backend.retainedBases(), { usable: [], invalidated: [] });
  },
);

/** What nobody should do: activates a snapshot by hand and writes to it. */
async function writeInto(world: ThinPoolOnDisks, { id }: WorldSnapshot): Promise<void> {
  const ledger = openLedgerHere(join(world.rig.directory, 'pool.sqlite'));
  const device = ledger.device(id);
  ledger.close();
  const pool = await world.rig.native.run('dmFind', { name: await world.rig.poolName() });
  const name = 'blockdelta-by-hand';
  const made = await world.rig.native.run('dmCreate', {
    ...{ name, uuid: '', readOnly: false, sizeSectors: 8192n, type: 'thin' },
    table: `${pool.device?.major}:${pool.device?.minor} ${device?.deviceId}`,
  });
  const fd = openSync(made.device.path, 'r+');
  writeSync(fd, Buffer.alloc(4096, 1), 0, 4096, 0);
  fsyncSync(fd);
  closeSync(fd);
  await world.rig.native.run('dmRemove', { name, deferred: false });
}

poolTest('a base is compared only with later snapshots of its own volume', PASS, async (world) => {
  const volume = await world.written(1);
  const earlier = await world.cutOne(volume);
  const base = await world.cutOne(volume);
  const later = await world.cutOne(volume);
  const restored = await world.restore(base);
  const cloned = await world.clone(volume);
  const ofRestored = await world.cutOne(restored);
  const ofCloned = await world.cutOne(cloned);
  await world.keepAndDelete(base);
  await world.soundDelta(base, later);
  for (const target of [earlier, ofRestored, ofCloned]) {
    const refused = world.backend.scanSource(target.id, base.id);
    await rejectsWith(refused, 'FAILED_PRECONDITION', /make a full backup/);
  }
  await rejectsWith(world.backend.scanSource(base.id, null), 'FAILED_PRECONDITION');
});

poolTest(
  'the list of a volume expanded since the base includes the new blocks',
  PASS,
  async (world) => {
    const { volume, base } = await retainedBase(world, 64);
    await world.grow(volume, 8 << 20);
    volume.writeBlock(100);
    volume.writeBlock(3);
    const target = await world.cutOne(volume);
    assert.deepEqual(await world.reported(base, target), [3, 100]);
  },
);

poolTest(
  'metadata that was restored or rewritten while the plugin was stopped invalidates all bases',
  PASS,
  async (world) => {
    const { volume, base } = await retainedBase(world);
    await world.stop();
    const saved = world.rig.workspace.path('metadata.saved');
    copyDevice(world.rig.metadata.path, saved);
    await world.start();
    assert.equal(await world.lossOf(base), null, 'an orderly stop loses nothing');
    volume.writeBlock(0);
    await world.stop();
    copyDevice(saved, world.rig.metadata.path);
    await world.rig.next();
    assert.match((await world.lossOf(base)) ?? '', /changed/);
    const target = await world.cutOne(volume);
    await rejectsWith(
      world.backend.scanSource(target.id, base.id),
      'NOT_FOUND',
      /retained base because/,
    );
  },
);

poolTest('a pool with metadata of an older transaction is not served', PASS, async (world) => {
  const { volume } = await retainedBase(world);
  await world.stop();
  const saved = world.rig.workspace.path('metadata.saved');
  copyDevice(world.rig.metadata.path, saved);
  await world.start();
  await world.cutOne(volume);
  await world.stop();
  const newest = world.rig.workspace.path('metadata.newest');
  copyDevice(world.rig.metadata.path, newest);
  copyDevice(saved, world.rig.metadata.path);
  await rejectsWith(world.rig.next(), 'FAILED_PRECONDITION', /transaction id/);
  copyDevice(newest, world.rig.metadata.path);
  await world.start();
});

poolTest('a pool that needs a check at a start invalidates all bases', PASS, async (world) => {
  const { base } = await retainedBase(world);
  await world.stop();
  patchSuperblock(world.rig.metadata.path, { needsCheck: true });
  await world.rig.next();
  assert.match((await world.lossOf(base)) ?? '', /check|write of the pool's metadata failed/);
  await world.backend.stop();
  patchSuperblock(world.rig.metadata.path, { needsCheck: false });
  await world.start();
  assert.notEqual(await world.lossOf(base), null, 'it stays lost');
});

poolTest(
  'a pool that could not write its metadata invalidates the bases of attached volumes, even after it recovers',
  PASS,
  async (world) => {
    const { volume, base } = await retainedBase(world);
    await world.rig.metadata.failWrites();
    assert.throws(() => {
      volume.discardBlock(3);
      volume.sync();
    });
    await world.rig.metadata.work();
    await world.stop();
    patchSuperblock(world.rig.metadata.path, { needsCheck: false });
    await world.start();
    assert.notEqual(await world.lossOf(base), null);
  },
);

poolTest(
  'discards that were passed down before a power failure invalidate the bases of their volume only',
  PASS,
  async (world) => {
    const { volume, base } = await retainedBase(world);
    const other = await retainedBase(world);
    await other.volume.detach();
    world.volumes.delete(other.volume.id);
    await world.powerCut(() => volume.discardBlock(3));
    assert.match((await world.lossOf(base)) ?? '', /discards/);
    assert.equal(await world.lossOf(other.base), null, 'it was not attached');
    const target = await world.cutOne(volume);
    await rejectsWith(
      world.backend.scanSource(target.id, base.id),
      'NOT_FOUND',
      /retained base because/,
    );
  },
);

poolTest(
  'discards that stay in the pool invalidate nothing in a power failure',
  KEEP,
  async (world) => {
    const { volume, base } = await retainedBase(world);
    await world.powerCut(() => {
      volume.discardBlock(3);
      volume.write(5 * PAGES_A_BLOCK, 1);
    });
    assert.equal(await world.lossOf(base), null);
    volume.writeBlock(6);
    const target = await world.cutOne(volume);
    assert.ok((await world.reported(base, target)).includes(6));
  },
);

poolTest(
  'a restart of the plugin with volumes attached invalidates nothing',
  PASS,
  async (world) => {
    const { volume, base } = await retainedBase(world);
    await world.rig.restart();
    volume.discardBlock(3);
    const target = await world.cutOne(volume);
    assert.deepEqual(await world.reported(base, target), [3]);
  },
);

poolTest(
  'lists are correct near the largest time of a mapping, and no snapshot is taken beyond it',
  PASS,
  async (world) => {
    const last = (1 << 24) - 1;
    const volume = await world.written(3);
    await world.stop();
    patchSuperblock(world.rig.metadata.path, { time: last - 3 });
    await world.start();
    const base = await world.cutOne(volume);
    volume.write(PAGES_A_BLOCK, 1);
    await world.keepAndDelete(base);
    volume.write(2 * PAGES_A_BLOCK, 1);
    const target = await world.cutOne(volume);
    assert.deepEqual(await world.reported(base, target), [1, 2]);
    await world.cutOne(volume);
    await assert.rejects(world.cutOne(volume));
    assert.deepEqual(await world.reported(base, target), [1, 2]);
  },
);

poolTest(
  'a base whose file is missing is invalidated, and files without a base are swept',
  PASS,
  async (world) => {
    const { base } = await retainedBase(world);
    const bases = join(world.rig.directory, 'bases');
    assert.deepEqual(readdirSync(bases), [base.id]);
    copyFileSync(join(bases, base.id), join(bases, 'left'));
    rmSync(join(bases, base.id));
    await world.rig.restart();
    assert.match((await world.lossOf(base)) ?? '', /is gone/);
    assert.deepEqual(await world.backend.sweep(), ['left']);
  },
);

/** The last close writes the page cache of a device out and drops it. */
function copyDevice(from: string, to: string): void {
  const bytes = readFileSync(from);
  const fd = openSync(to, 'w');
  writeSync(fd, bytes, 0, bytes.length, 0);
  fsyncSync(fd);
  closeSync(fd);
}
