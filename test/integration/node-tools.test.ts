/**
 * Volumes that a tool is still working on, which outlived the plugin that started it. Here `sleep` plays
 * the tool: the plugin checks only the lock.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { newSnapshotId, newVolumeId, nodeKey } from '../../src/domain/identifiers.js';
import { isToolAtWork } from '../../src/host/device-holders.js';
import { rejectsWith } from '../support/expect-status.js';
import { test as rootTest } from '../support/running-plugin.js';
import { blockCapability, mountCapability, NOTHING, useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('node-tools');

/** A volume left attached, as a killed plugin leaves it, and the tool on it. */
async function startTool(volume: VolumeRecord): Promise<ChildProcess> {
  const { devicePath } = await node.backend.attach(volume.volumeId, { readOnly: false });
  const tool = spawn('flock', ['--no-fork', '-x', devicePath, 'sleep', '600'], { stdio: 'ignore' });
  while (!(await isToolAtWork(devicePath))) await delay(20);
  return tool;
}

async function endTool(tool: ChildProcess): Promise<void> {
  const ended = once(tool, 'exit');
  tool.kill('SIGKILL');
  await ended;
}

async function used(capability: ReturnType<typeof mountCapability>): Promise<VolumeRecord> {
  const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
  await node.stage(volume, capability);
  await node.unstage(volume);
  return { ...volume, pristine: false };
}

for (const [name, capability] of [
  ['ext4', mountCapability('ext4')],
  ['btrfs', mountCapability('btrfs')],
  ['raw block', blockCapability()],
] as const) {
  rootTest(
    `a ${name} volume that a tool is working on is not staged before the tool ends`,
    async () => {
      const volume = await used(capability);
      const tool = await startTool(volume);
      const { loops } = node.held();
      for (let time = 0; time < 2; time += 1) {
        const staged = node.stage(volume, capability);
        await rejectsWith(staged, 'ABORTED', new RegExp(`working on volume ${volume.volumeId}`));
      }
      assert.deepEqual(node.held(), { mounts: [], loops });
      assert.deepEqual(await node.catalogue.stagings(volume.volumeId), []);
      await endTool(tool);
      await node.stage(volume, capability);
      await node.unstage(volume);
      assert.deepEqual(node.held(), NOTHING);
    },
  );
}

rootTest('a copy of a btrfs that has its own id already waits for the tool as well', async () => {
  const source = await used(mountCapability('btrfs'));
  const snapshotId = newSnapshotId(nodeKey('test-node'));
  await node.backend.createSnapshots([{ volumeId: source.volumeId, snapshotId }]);
  const copy = await node.makeVolume({ sizeBytes: XFS_SIZE, sourceSnapshotId: snapshotId });
  await node.stage(copy, mountCapability('btrfs'));
  writeFileSync(`${node.stagingPath(copy.volumeId)}/own`, 'kept', { flush: true });
  await node.unstage(copy);
  const tool = await startTool(copy);
  const staged = node.stage(copy, mountCapability('btrfs'));
  await rejectsWith(staged, 'ABORTED', /try again when it has ended/);
  await endTool(tool);
  await node.stage(copy, mountCapability('btrfs'));
  assert.equal(statSync(`${node.stagingPath(copy.volumeId)}/own`).size, 4);
  await node.unstage(copy);
  assert.deepEqual(node.held(), NOTHING);
});

rootTest(
  'a volume that a tool is working on is not snapshotted, alone or in a group, nor cloned',
  async () => {
    const volume = await used(mountCapability('ext4'));
    const other = await used(mountCapability('ext4'));
    const tool = await startTool(volume);
    const [first, second] = [
      newSnapshotId(nodeKey('test-node')),
      newSnapshotId(nodeKey('test-node')),
    ];
    const busy = new RegExp(`still working on volume ${volume.volumeId}`);
    const member = { volumeId: volume.volumeId, snapshotId: first };
    const group = [{ volumeId: other.volumeId, snapshotId: second }, member];
    const cloneId = newVolumeId(nodeKey('test-node'));
    await rejectsWith(node.backend.createSnapshots([member]), 'ABORTED', busy);
    await rejectsWith(node.backend.createSnapshots(group), 'ABORTED', busy);
    const cloned = node.backend.cloneVolume(cloneId, volume.volumeId, XFS_SIZE);
    await rejectsWith(cloned, 'ABORTED', busy);
    await endTool(tool);
    await node.backend.createSnapshots(group);
    await node.backend.cloneVolume(cloneId, volume.volumeId, XFS_SIZE);
    await node.backend.detach(volume.volumeId);
    assert.deepEqual(node.held(), NOTHING);
  },
);
