/**
 * Volumes in a pool without space, and file systems that have shut down: a snapshot or clone reports which it
 * is, and none is taken of a file system that has lost data.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('full-pool', {
  pools: { main: 'xfs' },
  poolSizeMiB: 1024,
  env: { BLOCKDELTA_OVERCOMMIT: '4' },
});

/** A volume with a file system, staged and published. */
async function inUse(type: string, label: string): Promise<HeldVolume> {
  const { orchestrator } = running;
  const spec = { capability: mountCapability(type), sizeBytes: 384 * MIB };
  const volume = await orchestrator.create(`${type} ${label}`, spec);
  await orchestrator.bringUp(volume);
  return volume;
}

async function end(volume: HeldVolume, snapshotIds: readonly string[]): Promise<void> {
  await running.orchestrator.remove(volume);
  for (const id of snapshotIds) await running.orchestrator.deleteSnapshot(id);
}

const snapshot = (volume: HeldVolume, name: string): Promise<string> =>
  running.orchestrator.snapshot(volume, `${volume.name} ${name}`);

const clone = ({ id: volumeId, name, capability, sizeBytes }: HeldVolume): Promise<HeldVolume> =>
  running.orchestrator.create(`${name} clone`, { volumeId, capability, sizeBytes });

/** Staged again, the volume can be snapshotted. */
async function endAgain(volume: HeldVolume): Promise<void> {
  await running.orchestrator.takeDown(volume);
  await running.orchestrator.bringUp(volume);
  await end(volume, [await snapshot(volume, 'whole again')]);
}

/** Takes the pool's space but for about that much. */
function fillPool(filler: string, leaveMiB: number): void {
  const root = running.poolPath('main');
  execFileSync('sync', ['-f', root]);
  const { bavail, bsize } = statfsSync(root);
  execFileSync('fallocate', ['-l', String(bavail * bsize - leaveMiB * MIB), filler]);
}

for (const type of ['ext4', 'xfs', 'btrfs']) {
  test(`H18: a snapshot of ${type} in a pool that becomes full is RESOURCE_EXHAUSTED, not INTERNAL`, async () => {
    const volume = await inUse(type, 'full');
    const filler = running.poolPath('main', 'filler');
    // Enough that the pool does not seem full before the data are written.
    fillPool(filler, 16);
    // The file system keeps this in memory for now.
    writeFileSync(`${volume.targetPath}/data`, Buffer.alloc(64 * MIB, 0x5a));
    for (const name of ['first', 'first', 'second']) {
      await refused(snapshot(volume, name), 'RESOURCE_EXHAUSTED', /bytes free.*add space/);
    }
    await refused(clone(volume), 'RESOURCE_EXHAUSTED');
    assert.deepEqual(await running.orchestrator.snapshotIds(), []);
    rmSync(filler);
    await endAgain(volume);
  });
}

test('CS6, H18: a snapshot of a raw volume in a pool without space names the pool and its free bytes', async () => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('raw', { sizeBytes: 16 * MIB });
  writeFileSync(await orchestrator.bringUp(volume), Buffer.alloc(8 * MIB, 0x5a), { flag: 'r+' });
  const fillers = [running.poolPath('main', 'filler'), running.poolPath('main', 'rest')];
  fillPool(fillers[0] ?? '', 8);
  spawnSync('dd', ['if=/dev/zero', `of=${fillers[1]}`, 'bs=4096', 'oflag=direct']);
  await refused(
    snapshot(volume, 'full'),
    'RESOURCE_EXHAUSTED',
    /^pool 'main' has no space for the snapshot: \d+ of its \d+ bytes are free; delete .*add space/,
  );
  for (const filler of fillers) rmSync(filler);
  await end(volume, [await snapshot(volume, 'later')]);
});

for (const type of ['ext4', 'xfs']) {
  test(`H18: ${type} that has shut down is neither snapshotted nor cloned before it is staged again`, async () => {
    const volume = await inUse(type, 'shut down');
    execFileSync('xfs_io', ['-x', '-c', 'shutdown', volume.stagingPath]);
    for (const call of [() => snapshot(volume, 'broken'), () => clone(volume)]) {
      await refused(call(), 'FAILED_PRECONDITION', /unpublish, unstage and stage the volume/);
    }
    await endAgain(volume);
  });
}

test('H18: ext4 that became read-only by an error is not snapshotted before it is staged again', async () => {
  const volume = await inUse('ext4', 'in error');
  const source = execFileSync('findmnt', ['-n', '-o', 'SOURCE', volume.stagingPath], { encoding: 'utf8' });
  writeFileSync(`/sys/fs/ext4/${basename(source.trim())}/trigger_fs_error`, 'a test');
  await refused(snapshot(volume, 'broken'), 'FAILED_PRECONDITION', /become read-only/);
  await endAgain(volume);
});

test('H18: a volume that is staged read-only can be snapshotted, also in a full pool', async () => {
  const { orchestrator } = running;
  const volume = await inUse('ext4', 'for reading');
  await orchestrator.takeDown(volume);
  const capability = mountCapability('ext4', 'SINGLE_NODE_READER_ONLY');
  const reader = { ...volume, capability };
  await orchestrator.bringUp(reader);
  const filler = running.poolPath('main', 'filler');
  fillPool(filler, 2);
  const id = await snapshot(reader, 'of a reader');
  rmSync(filler);
  await end(reader, [id]);
});
