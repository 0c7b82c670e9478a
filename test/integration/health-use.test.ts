/**
 * Conditions that only the node can observe: file systems that really fail, and devices that vanish under a
 * published path. The controller does not report them.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { blockCapability, mountCapability } from '../support/csi-client.js';
import { controllerHealth, nodeHealth } from '../support/health.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('health-use', { pools: { main: 'xfs' }, poolSizeMiB: 2048 });

async function used(fsType: string, mode = 'SINGLE_NODE_WRITER'): Promise<HeldVolume> {
  const { orchestrator } = running;
  const sizeBytes = fsType === 'ext4' ? 32 * MIB : 320 * MIB;
  const capability = mountCapability(fsType, mode);
  const volume = await orchestrator.create(`${fsType} ${mode}`, { capability, sizeBytes });
  await orchestrator.bringUp(volume);
  assert.deepEqual(await nodeHealth(running.client, volume.id), []);
  return volume;
}

async function gone(volume: HeldVolume): Promise<void> {
  await running.orchestrator.takeDown(volume);
  assert.deepEqual(await nodeHealth(running.client, volume.id), [], 'not staged any more');
  await running.orchestrator.delete(volume);
}

/** What the node reports; the controller has nothing to report. */
async function nodeTells(volume: HeldVolume): Promise<string[]> {
  assert.deepEqual(await controllerHealth(running.client, volume.id), []);
  return nodeHealth(running.client, volume.id);
}

const deviceAt = (path: string): string =>
  execFileSync('findmnt', ['-n', '-o', 'SOURCE', path], { encoding: 'utf8' }).trim();

test('errors counted by ext4 are DEGRADED, also after another mount, until fsck has run', async () => {
  const { orchestrator } = running;
  const volume = await used('ext4');
  const device = basename(deviceAt(volume.stagingPath));
  // As staged it would become read-only by the error, which is another condition.
  execFileSync('mount', ['-o', 'remount,errors=continue', volume.stagingPath]);
  writeFileSync(`/sys/fs/ext4/${device}/trigger_fs_error`, 'for a test');
  assert.deepEqual(await nodeTells(volume), ['DEGRADED FileSystemErrors']);
  for (const volume_path of [volume.stagingPath, volume.targetPath]) {
    const { volume_condition } = await running.client.node.NodeGetVolumeStats({
      volume_id: volume.id,
      volume_path,
    });
    assert.equal(volume_condition.abnormal, true, 'NV5');
    assert.match(volume_condition.message, /^FileSystemErrors: the kernel counted 1 error/);
  }
  await orchestrator.takeDown(volume);
  assert.deepEqual(await nodeTells(volume), []);
  // Staging runs fsck.ext4, which mends it and clears the count.
  await orchestrator.bringUp(volume);
  assert.deepEqual(await nodeTells(volume), []);
  await gone(volume);
});

for (const fsType of ['ext4', 'xfs']) {
  test(`an ${fsType} that has shut down is INACCESSIBLE, and has recovered after another staging`, async () => {
    const { orchestrator } = running;
    const volume = await used(fsType);
    execFileSync('xfs_io', ['-x', '-c', 'shutdown', volume.stagingPath]);
    assert.deepEqual(await nodeTells(volume), ['INACCESSIBLE FileSystemShutDown']);
    await orchestrator.takeDown(volume);
    await orchestrator.bringUp(volume);
    assert.deepEqual(await nodeTells(volume), []);
    await gone(volume);
  });
}

test('a file system that became read-only is INACCESSIBLE where it is staged for writing', async () => {
  const volume = await used('ext4');
  execFileSync('mount', ['-o', 'remount,ro', volume.stagingPath]);
  assert.deepEqual(await nodeTells(volume), ['INACCESSIBLE FileSystemReadOnly']);
  execFileSync('mount', ['-o', 'remount,rw', volume.stagingPath]);
  assert.deepEqual(await nodeTells(volume), []);
  await gone(volume);
});

test('a volume that is staged or published read-only is healthy', async () => {
  const { orchestrator } = running;
  await gone(await used('ext4', 'SINGLE_NODE_READER_ONLY'));
  const capability = mountCapability('ext4');
  const volume = await orchestrator.create('published ro', { capability, sizeBytes: 32 * MIB });
  await orchestrator.stage(volume);
  await orchestrator.publish(volume, { readonly: true });
  assert.deepEqual(await nodeTells(volume), []);
  await gone(volume);
});

test('btrfs content that was changed on the device is DATA_LOSS once it is read', async () => {
  const volume = await used('btrfs');
  const pattern = Buffer.alloc(64 * 1024, 'blocks that nobody else writes. ');
  const file = join(volume.targetPath, 'file');
  writeFileSync(file, pattern);
  // Nothing of it stays in memory.
  await running.orchestrator.takeDown(volume);
  const stored = running.poolPath('main', 'volumes', volume.id);
  const offset = readFileSync(stored).indexOf(pattern);
  assert.ok(offset > 0, 'the file is stored as it is');
  const handle = openSync(stored, 'r+');
  writeSync(handle, Buffer.alloc(4096, 'damage'), 0, 4096, offset);
  closeSync(handle);
  await running.orchestrator.bringUp(volume);
  assert.deepEqual(await nodeTells(volume), []);
  assert.throws(() => readFileSync(file), /EIO/);
  assert.deepEqual(await nodeTells(volume), ['DATA_LOSS FileSystemCorruption']);
  await running.orchestrator.takeDown(volume);
  await running.orchestrator.delete(volume);
});

test('a device that was detached under a published path is INACCESSIBLE', async () => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('detached', { capability: blockCapability() });
  await orchestrator.bringUp(volume);
  const name = execFileSync('losetup', [
    ...['-n', '-O', 'NAME', '-j', running.poolPath('main', 'volumes', volume.id)],
  ]);
  execFileSync('losetup', ['-d', name.toString().trim()]);
  assert.deepEqual(await nodeTells(volume), ['INACCESSIBLE DeviceDetached']);
  await gone(volume);
});

test('records left behind by a reboot are not a condition', async () => {
  const { orchestrator } = running;
  const volume = await used('ext4');
  // What a reboot does: no mount, no device, the records as they were.
  execFileSync('umount', [volume.targetPath]);
  execFileSync('umount', [volume.stagingPath]);
  assert.deepEqual(await nodeTells(volume), []);
  await orchestrator.bringUp(volume);
  await gone(volume);
});
