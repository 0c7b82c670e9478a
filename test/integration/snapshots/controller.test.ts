/**
 * What the controller's calls mean for volumes in use: refused, kept by the node, or applied to the device. And
 * CreateVolume from a source that holds another file system than the one requested.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { specOf } from '../../support/contents.js';
import { blockCapability, type Message, mountCapability } from '../../support/csi-client.js';
import { loopsOf } from '../../support/loops.js';
import { createRequest, type HeldVolume, MIB, type VolumeSpec } from '../../support/orchestrator.js';
import { refused } from '../../support/refusal.js';
import { runPlugin, test } from '../../support/running-plugin.js';

const running = runPlugin('controller', {
  pools: { main: 'xfs' },
  // No limit of a pod can be set there.
  env: { BLOCKDELTA_CGROUP_ROOT: '/proc', BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
});
const { orchestrator } = running;

test('CP8: a volume that the controller published read-only cannot be written to on the node', async () => {
  const volume = await orchestrator.create('reading');
  const request = { volume_id: volume.id, node_id: 'test-node', volume_capability: volume.capability };
  const write = (): void => writeFileSync(volume.targetPath, 'written', { flag: 'r+', flush: true });
  for (const readonly of [true, false]) {
    await running.client.controller.ControllerPublishVolume({ ...request, readonly });
    await orchestrator.bringUp(volume);
    if (readonly) assert.throws(write, /EPERM|EACCES|EROFS|EIO/);
    else write();
    await orchestrator.takeDown(volume);
    await orchestrator.controllerUnpublish(volume);
  }
  await orchestrator.delete(volume);
});

test('DV3: a volume that is published is FAILED_PRECONDITION, names the path and stays as it is', async () => {
  const mounted = await orchestrator.create('in use', specOf('ext4'));
  await orchestrator.bringUp(mounted);
  const message = await refused(orchestrator.delete(mounted), 'FAILED_PRECONDITION');
  assert.ok(message.includes(mounted.targetPath), message);
  const file = join(mounted.targetPath, 'file');
  writeFileSync(file, 'content');
  // A block volume counts even if no process has it open.
  const raw = await orchestrator.create('block in use');
  await orchestrator.bringUp(raw);
  for (const volume of [mounted, raw]) {
    await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', /in use/);
  }
  assert.equal(readFileSync(file, 'utf8'), 'content');
  assert.deepEqual((await orchestrator.volumeIds()).sort(), [mounted.id, raw.id].sort());
  await orchestrator.remove(mounted, raw);
});

test('DV3: a volume that another process holds open is FAILED_PRECONDITION and is not deleted later', async () => {
  const volume = await orchestrator.create('held', { sizeBytes: 16 * MIB });
  const file = running.poolPath('main', 'volumes', volume.id);
  const directory = running.workspace.path('held');
  mkdirSync(directory);
  execFileSync('mkfs.ext4', ['-q', '-F', file]);
  execFileSync('mount', ['-o', 'loop', file, directory]);
  await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION', /in use/);
  execFileSync('umount', [directory]);
  await running.restart();
  assert.deepEqual(await orchestrator.volumeIds(), [volume.id]);
  await orchestrator.delete(volume);
});

const modify = (volume: HeldVolume, mutable_parameters: Message): Promise<Message> =>
  running.client.controller.ControllerModifyVolume({ volume_id: volume.id, mutable_parameters });

async function withSettings(name: string, mutable: Message, parameters = {}): Promise<HeldVolume> {
  const { volume } = await running.client.controller.CreateVolume({
    ...createRequest(name, { parameters }),
    mutable_parameters: mutable,
  });
  const held = orchestrator.hold(name, volume);
  await orchestrator.bringUp(held);
  return held;
}

/** The read-ahead of the volume's loop device in KiB, and whether it uses direct I/O. */
function settings(volume: HeldVolume): [readAheadKiB: string, direct: string] {
  const [device = ''] = loopsOf(running.poolPath('main', 'volumes', volume.id));
  const of = (name: string): string => readFileSync(`/sys/block/${basename(device)}/${name}`, 'utf8').trim();
  return [of('queue/read_ahead_kb'), of('loop/dio')];
}

test('MV4: a setting this node cannot apply is INVALID_ARGUMENT, and the rest of the call is rolled back', async () => {
  const volume = await withSettings('taken back', { readAheadKiB: '64' });
  await orchestrator.unpublish(volume);
  await orchestrator.publish(volume, { podUid: '7c8e2f0a-0001-4000-8000-000000000001' });
  const limited = { readAheadKiB: '256', loopDirectIo: 'false', readBytesPerSecond: '1048576' };
  await refused(modify(volume, limited), 'INVALID_ARGUMENT', /cgroup v2/);
  assert.deepEqual(settings(volume), ['64', '1']);
  await orchestrator.takeDown(volume);
  await orchestrator.bringUp(volume);
  assert.deepEqual(settings(volume), ['64', '1'], 'and nothing of it is remembered');
  await orchestrator.remove(volume);
});

test('changes win over parameters, accumulate, and persist over a kill and another staging', async () => {
  const parameters = { readAheadKiB: '32', loopDirectIo: 'true' };
  const volume = await withSettings('in use', { readAheadKiB: '64' }, parameters);
  assert.deepEqual(settings(volume), ['64', '1']);
  for (let repeat = 0; repeat < 2; repeat += 1) {
    await modify(volume, { loopDirectIo: 'false' });
    assert.deepEqual(settings(volume), ['64', '0']);
  }
  await running.crash();
  await orchestrator.takeDown(volume);
  // Of a volume that is not in use: applied when it is staged.
  await modify(volume, { readAheadKiB: '512' });
  await orchestrator.bringUp(volume);
  assert.deepEqual(settings(volume), ['512', '0']);
  await orchestrator.remove(volume);
});

const COPY_BYTES = 320 * MIB;

/** A volume that was staged with that capability once. */
async function used(name: string, capability: Message): Promise<HeldVolume> {
  const volume = await orchestrator.create(name, { capability, sizeBytes: COPY_BYTES });
  await useOnce(volume);
  return volume;
}

const copied = (name: string, capability: Message, source: Partial<VolumeSpec>) =>
  orchestrator.create(name, { capability, sizeBytes: COPY_BYTES, ...source });

async function useOnce(volume: HeldVolume): Promise<void> {
  await orchestrator.bringUp(volume);
  await orchestrator.takeDown(volume);
}

test('a copy for another file system is INVALID_ARGUMENT, and both are named', async () => {
  const types = ['ext4', 'xfs', 'btrfs'];
  for (const [index, held] of types.entries()) {
    const asked = types[(index + 1) % 3] ?? '';
    const volume = await used(held, mountCapability(held));
    const snapshotId = await orchestrator.snapshot(volume, held);
    const message = new RegExp(
      `^volume_capabilities\\[0\\].mount.fs_type is '${asked}' and (volume|snapshot) .* holds ${held}: `,
    );
    for (const source of [{ snapshotId }, { volumeId: volume.id }]) {
      const copy = copied(`${held} as ${asked}`, mountCapability(asked), source);
      await refused(copy, 'INVALID_ARGUMENT', message);
    }
    assert.deepEqual(await orchestrator.volumeIds(), [volume.id], 'nothing was made');
    await orchestrator.deleteSnapshot(snapshotId);
    await orchestrator.delete(volume);
  }
});

test('a copy for the same file system, for any, or as a raw device is made', async () => {
  // The volume asks for none, so the record does not say what it holds.
  const volume = await used('default', mountCapability(''));
  const snapshotId = await orchestrator.snapshot(volume, 'default');
  const copies = [
    await copied('same', mountCapability('ext4'), { snapshotId }),
    await copied('any', mountCapability(''), { snapshotId }),
    await copied('raw', blockCapability(), { snapshotId }),
  ];
  for (const copy of copies.slice(0, 2)) await useOnce(copy);
  const again = copied('copy of a copy', mountCapability('xfs'), { volumeId: copies[1]?.id ?? '' });
  await refused(again, 'INVALID_ARGUMENT', /holds ext4/);
  for (const each of [...copies, volume]) await orchestrator.delete(each);
  await orchestrator.deleteSnapshot(snapshotId);
});

test('what was never written to, and what was written as a raw device, decides nothing', async () => {
  const pristine = await copied('pristine', mountCapability('ext4'), {});
  const raw = await orchestrator.create('raw', { sizeBytes: COPY_BYTES });
  execFileSync('mkfs.ext4', ['-q', '-F', await orchestrator.bringUp(raw)]);
  await orchestrator.takeDown(raw);
  const first = await copied('of pristine', mountCapability('xfs'), { volumeId: pristine.id });
  await useOnce(first);
  const second = await copied('of raw', mountCapability('xfs'), { volumeId: raw.id });
  await refused(orchestrator.stage(second), 'FAILED_PRECONDITION', /nothing was formatted/);
  for (const each of [pristine, raw, first, second]) await orchestrator.delete(each);
});
