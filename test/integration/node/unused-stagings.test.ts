/**
 * DeleteVolume of a volume that is staged and not published, as a kubelet leaves it that dies between NodeUnpublishVolume
 * and NodeUnstageVolume: the staging is released. Whatever else uses the volume keeps it, and is named.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { end } from '../../support/child-processes.js';
import { specOf, type VolumeKind } from '../../support/contents.js';
import { mountCapability } from '../../support/csi-client.js';
import { freeze } from '../../support/freeze.js';
import { loopsOf } from '../../support/loops.js';
import { copyMountNamespace } from '../../support/mount-namespace.js';
import type { HeldVolume } from '../../support/orchestrator.js';
import { logLines } from '../../support/plugin-log.js';
import { refused } from '../../support/refusal.js';
import { NOTHING, runPlugin, test } from '../../support/running-plugin.js';

const running = runPlugin('unused-stagings', {
  pools: { main: 'xfs' },
  poolSizeMiB: 2048,
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
});
const { orchestrator } = running;

const KINDS: readonly VolumeKind[] = ['ext4', 'xfs', 'btrfs', 'block'];

/** Written to, unpublished, and still staged. */
async function left(name: string, kind: VolumeKind): Promise<HeldVolume> {
  const volume = await orchestrator.create(name, specOf(kind));
  const target = await orchestrator.bringUp(volume);
  if (kind === 'block') writeFileSync(target, 'written', { flag: 'r+', flush: true });
  else writeFileSync(join(target, 'file'), 'written', { flush: true });
  await orchestrator.unpublish(volume);
  return volume;
}

/** What the staging of a volume is mounted on. */
const mountPoint = ({ stagingPath }: HeldVolume, kind: VolumeKind): string =>
  kind === 'block' ? join(stagingPath, 'device') : stagingPath;

const deviceOf = ({ id }: HeldVolume): string => {
  const [device] = loopsOf(running.poolPath('main', 'volumes', id));
  return device ?? assert.fail('it is not attached');
};

const umount = (path: string): void => void execFileSync('umount', [path]);

/** Refused, and the staging is as it was. */
async function keeps(volume: HeldVolume, kind: VolumeKind, message: RegExp): Promise<void> {
  const before = running.held();
  const said = await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', message);
  assert.ok(said.includes(volume.id), said);
  assert.deepEqual(running.held(), before);
  assert.ok(before.mounts.includes(mountPoint(volume, kind)));
}

for (const kind of KINDS) {
  const undo: Readonly<Record<string, (volume: HeldVolume) => void>> = {
    'its staging there': () => undefined,
    'its staging unmounted by hand': (volume) => umount(mountPoint(volume, kind)),
    'its staging unmounted and removed': (volume) => {
      umount(mountPoint(volume, kind));
      rmSync(volume.stagingPath, { recursive: true });
    },
  };
  for (const [state, make] of Object.entries(undo)) {
    test(`DV3: ${kind} is deleted that is staged only, ${state}; unstaging is OK afterwards`, async () => {
      const volume = await left(`${kind}, ${state}`, kind);
      make(volume);
      await orchestrator.delete(volume);
      assert.deepEqual(running.held(), NOTHING);
      assert.deepEqual(await orchestrator.volumeIds(), []);
      const line = logLines(running.plugin.log).findLast(({ releasedStagings }) => releasedStagings !== undefined);
      assert.equal(line?.['releasedStagings'], volume.stagingPath);
      await orchestrator.unstage(volume);
      await orchestrator.delete(volume);
    });
  }
}

test('DV3: all stagings of a volume are released, also after a restart of the plugin', async () => {
  const volume = await left('twice', 'ext4');
  const other = { ...volume, stagingPath: `${volume.stagingPath}-2` };
  await orchestrator.stage(other);
  await running.crash();
  await orchestrator.delete(volume);
  assert.deepEqual(running.held(), NOTHING);
  for (const each of [volume, other]) await orchestrator.unstage(each);
});

test('DV3: a record of a publication keeps the volume, whether or not a mount confirms it', async () => {
  for (const kind of ['block', 'ext4'] as const) {
    const volume = await orchestrator.create(`published ${kind}`, specOf(kind));
    await orchestrator.bringUp(volume);
    const message = new RegExp(`still in use at ${volume.targetPath}, where it is published`);
    await keeps(volume, kind, message);
    umount(volume.targetPath);
    await keeps(volume, kind, message);
    await orchestrator.unpublish(volume);
    await orchestrator.controllerPublish(volume);
    await keeps(volume, kind, /still published on node test-node/);
    await orchestrator.controllerUnpublish(volume);
    await orchestrator.delete(volume);
  }
});

test('DV3: a mount or bound device node beside the staging keeps the volume and its staging, and is named', async () => {
  const elsewhere = running.workspace.path('elsewhere');
  const file = running.workspace.path('node');
  mkdirSync(elsewhere);
  writeFileSync(file, '');
  const [mounted, raw] = [await left('bound', 'ext4'), await left('bound raw', 'block')];
  execFileSync('mount', ['--bind', mounted.stagingPath, elsewhere]);
  await keeps(mounted, 'ext4', new RegExp(`in use at ${elsewhere}, beside its staging at `));
  umount(elsewhere);
  execFileSync('mount', ['--bind', deviceOf(raw), file]);
  await keeps(raw, 'block', new RegExp(`in use at ${file}, beside its staging at `));
  umount(file);
  // Over the staging, and below it.
  execFileSync('mount', ['-t', 'tmpfs', 'none', mounted.stagingPath]);
  await refused(orchestrator.delete(mounted), 'FAILED_PRECONDITION', /something else mounted on it/);
  umount(mounted.stagingPath);
  const below = join(mounted.stagingPath, 'below');
  mkdirSync(below);
  execFileSync('mount', ['-t', 'tmpfs', 'none', below]);
  await refused(orchestrator.delete(mounted), 'FAILED_PRECONDITION', /cannot be unmounted: it is busy/);
  umount(below);
  rmdirSync(below);
  for (const volume of [mounted, raw]) await orchestrator.delete(volume);
  assert.deepEqual(running.held(), NOTHING);
});

test('DV3: a mount or a bound device node in another mount namespace keeps the volume and its staging', async () => {
  const volumes = [await left('copied', 'xfs'), await left('copied raw', 'block')] as const;
  const copy = await copyMountNamespace();
  try {
    for (const [index, kind] of (['xfs', 'block'] as const).entries()) {
      await keeps(volumes[index] as HeldVolume, kind, /in the mount namespace of process \d+ /);
    }
  } finally {
    await end(copy);
  }
  for (const volume of volumes) await orchestrator.delete(volume);
});

test('DV3: a device that a process has open keeps the volume, which can be staged, unstaged and deleted when it is closed', async () => {
  for (const kind of KINDS) {
    const volume = await left(`open ${kind}`, kind);
    const file = await open(deviceOf(volume), 'r');
    try {
      const inUse = new RegExp(`${volume.id} is in use: .*open in process ${process.pid} `);
      await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', inUse);
    } finally {
      await file.close();
    }
    assert.deepEqual(await orchestrator.volumeIds(), [volume.id]);
    await orchestrator.bringUp(volume);
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
  }
});

test('DV3: a staging that a lost hook has left frozen is released, and nothing stays frozen', async () => {
  for (const kind of ['ext4', 'xfs', 'btrfs'] as const) {
    const volume = await left(`frozen ${kind}`, kind);
    freeze(volume.stagingPath);
    await orchestrator.delete(volume);
    assert.deepEqual(running.held(), NOTHING);
  }
});

test('DV3: a snapshot of a volume that was staged only outlives it', async () => {
  const volume = await left('with a snapshot', 'ext4');
  const snapshotId = await orchestrator.snapshot(volume);
  await orchestrator.delete(volume);
  await orchestrator.unstage(volume);
  const capability = mountCapability('ext4');
  const copy = await orchestrator.create('copy', { ...specOf('ext4'), capability, snapshotId });
  await orchestrator.bringUp(copy);
  await orchestrator.remove(copy);
  await orchestrator.deleteSnapshot(snapshotId);
});
