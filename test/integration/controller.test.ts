/** What the controller's calls mean for volumes in use: refused, kept by the node, or applied to the device. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Message, mountCapability } from '../support/csi-client.js';
import { loopsOf } from '../support/loops.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('controller', {
  pools: { main: 'xfs' },
  // No limit of a pod can be set there.
  env: { BLOCKDELTA_CGROUP_ROOT: '/proc', BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
});
const { orchestrator } = running;

async function remove(volume: HeldVolume): Promise<void> {
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
}

test('CP8: a volume that the controller published read-only cannot be written to on the node', async () => {
  const volume = await orchestrator.create('reading');
  const request = {
    ...{ volume_id: volume.id, node_id: 'test-node', volume_capability: volume.capability },
  };
  const write = (): void =>
    writeFileSync(volume.targetPath, 'written', { flag: 'r+', flush: true });
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

test('DV3: a volume that is staged or published is FAILED_PRECONDITION, names the path and stays as it is', async () => {
  const spec = { capability: mountCapability('ext4'), sizeBytes: 16 * MIB };
  const mounted = await orchestrator.create('in use', spec);
  await orchestrator.stage(mounted);
  const message = await refused(orchestrator.delete(mounted), 'FAILED_PRECONDITION');
  assert.ok(message.includes(mounted.stagingPath), message);
  await orchestrator.publish(mounted);
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
  for (const volume of [mounted, raw]) await remove(volume);
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
  const of = (name: string): string =>
    readFileSync(`/sys/block/${basename(device)}/${name}`, 'utf8').trim();
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
  await remove(volume);
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
  await remove(volume);
});
