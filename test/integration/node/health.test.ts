/**
 * Conditions of volumes and pools that are really damaged, as the controller, the node and NodeGetVolumeStats report
 * them. How conditions follow from observations is in unit/health.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { blockCapability, type Message, mountCapability } from '../../support/csi-client.js';
import { detachLoopForSure } from '../../support/loops.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { refused } from '../../support/refusal.js';
import { runPlugin, test } from '../../support/running-plugin.js';
import { writeAt } from '../../support/write-at.js';

const running = runPlugin('health', { pools: { main: 'xfs' }, poolSizeMiB: 2048 });
const { orchestrator } = running;

const fileOf = (volume: HeldVolume): string => running.poolPath('main', 'volumes', volume.id);

/** `STATUS Reason` of each condition, in the order given. */
function told(conditions: readonly Message[]): string[] {
  return conditions.map(({ status, reason }) => `${String(status)} ${String(reason)}`);
}

/** What the controller and the node report. */
async function bothViews({ id: volume_id }: HeldVolume): Promise<string[][]> {
  const { controller, node } = running.client;
  const answers = [
    await controller.ControllerGetVolumeHealth({ volume_id }),
    await node.NodeGetVolumeHealth({ volume_id }),
  ];
  return answers.map(({ volume_health }) => {
    assert.equal(volume_health.volume_id, volume_id);
    return told(volume_health.health_statuses);
  });
}

async function bothTell(volume: HeldVolume, ...expected: string[]): Promise<void> {
  assert.deepEqual(await bothViews(volume), [expected, expected]);
}

/** The controller does not see it. */
async function onlyNodeTells(volume: HeldVolume, ...expected: string[]): Promise<void> {
  assert.deepEqual(await bothViews(volume), [[], expected]);
}

const storageHealth = async (): Promise<string[]> =>
  told((await running.client.node.NodeGetStorageHealth({}))['backend_health']);

/** NV5: up to CSI 1.12 this is the only RPC that reports the node's conditions. */
async function statsTell(volume: HeldVolume, expected: RegExp | null): Promise<void> {
  const stats = (volume_path: string): Promise<Message> =>
    running.client.node.NodeGetVolumeStats({ volume_id: volume.id, volume_path });
  for (const path of [volume.stagingPath, volume.targetPath]) {
    const { usage, volume_condition } = await stats(path);
    assert.equal(volume_condition.abnormal, expected !== null, path);
    if (expected !== null) assert.match(volume_condition.message, expected);
    assert.equal(usage.length, 'block' in volume.capability ? 1 : 2);
    for (const { total } of usage) assert.ok(BigInt(total) > 0n);
  }
  for (const path of [running.workspace.directory, '/no']) {
    await refused(stats(path), 'NOT_FOUND', /neither staged nor published/);
  }
}

async function used(capability = mountCapability('ext4'), sizeMiB = 32): Promise<HeldVolume> {
  const volume = await orchestrator.create('used', { capability, sizeBytes: sizeMiB * MIB });
  await orchestrator.bringUp(volume);
  await bothTell(volume);
  return volume;
}

async function gone(volume: HeldVolume): Promise<void> {
  await orchestrator.takeDown(volume);
  await bothTell(volume);
  await orchestrator.delete(volume);
}

const remount = (volume: HeldVolume, options: string): unknown =>
  execFileSync('mount', ['-o', `remount,${options}`, volume.stagingPath]);

/** The device whose backing file, there or not, is the volume's. */
function deviceOf(volume: HeldVolume): string {
  const list = execFileSync('losetup', ['-n', '-O', 'NAME,BACK-FILE'], { encoding: 'utf8' });
  const line = list.split('\n').find((found) => found.includes(volume.id));
  return line?.split(' ')[0] ?? assert.fail(`no device is labelled ${volume.id}`);
}

test('a backing file shorter than the volume is DATA_LOSS until its size is restored', async () => {
  const volume = await orchestrator.create('truncated', { sizeBytes: 8 * MIB });
  await bothTell(volume);
  truncateSync(fileOf(volume), 4 * MIB);
  await bothTell(volume, 'DATA_LOSS BackingFileTruncated');
  const { controller } = running.client;
  const { entries } = await controller.ListVolumes({});
  const got = await controller.ControllerGetVolume({ volume_id: volume.id });
  for (const { volume_condition } of [entries[0].status, got['status']]) {
    assert.equal(volume_condition.abnormal, true, 'LV7, GV4');
    const said = /^BackingFileTruncated: its file was truncated to 4194304 of/;
    assert.match(volume_condition.message, said);
  }
  truncateSync(fileOf(volume), 8 * MIB);
  await gone(volume);
});

test('a removed file is DATA_LOSS, and its data stays until the device is detached', async () => {
  for (const capability of [blockCapability(), mountCapability('ext4')]) {
    const volume = await used(capability);
    rmSync(fileOf(volume));
    await bothTell(volume, 'DATA_LOSS BackingFileDeleted');
    await statsTell(volume, /^BackingFileDeleted: /);
    await orchestrator.takeDown(volume);
    // The plugin never detaches what it cannot prove to be its own, and so the data stays.
    await bothTell(volume, 'DATA_LOSS BackingFileDeleted');
    await detachLoopForSure(deviceOf(volume));
    await bothTell(volume, 'DATA_LOSS BackingFileMissing');
    await orchestrator.delete(volume);
    const request = { volume_id: volume.id };
    const { controller, node } = running.client;
    await refused(controller.ControllerGetVolumeHealth(request), 'NOT_FOUND');
    await refused(node.NodeGetVolumeHealth(request), 'NOT_FOUND');
  }
});

test('a pool that fills up is reported before and when writes fail, and recovers', async () => {
  const volume = await orchestrator.create('in a full pool');
  const fillers = ['filler-0', 'filler-1'].map((name) => running.poolPath('main', name));
  for (const [filler, leaveMiB, status, reason] of [
    [fillers[0] ?? '', 16, 'DEGRADED', 'PoolNearlyFull'],
    [fillers[1] ?? '', 1, 'INACCESSIBLE', 'PoolOutOfSpace'],
  ] as const) {
    const path = running.poolPath('main');
    const free = execFileSync('stat', ['-f', '-c', '%a %S', path], { encoding: 'utf8' });
    const [blocks = 0, size = 0] = free.split(' ').map(Number);
    execFileSync('fallocate', ['-l', String(blocks * size - leaveMiB * MIB), filler]);
    await bothTell(volume, `${status} ${reason}`);
    assert.deepEqual(await storageHealth(), [`STORAGE_DEGRADED ${reason}`]);
  }
  for (const filler of fillers) rmSync(filler);
  // XFS gives the space of a removed file back a little later.
  while ((await storageHealth()).length > 0);
  await gone(volume);
});

test('an unreachable pool is reported as such, and not as the loss of its volumes', async () => {
  const volumes = [await used(), await orchestrator.create('raw')];
  await orchestrator.bringUp(volumes[1] as HeldVolume);
  for (const volume of volumes) await statsTell(volume, null);
  renameSync(running.poolPath('main', 'volumes'), running.poolPath('main', 'away'));
  try {
    for (const volume of volumes) {
      await bothTell(volume, 'INACCESSIBLE PoolUnreachable');
      await statsTell(volume, /^PoolUnreachable: /);
    }
    const { backend_health } = await running.client.node.NodeGetStorageHealth({});
    const [{ status, reason, message, volume_capability }] = backend_health;
    assert.equal(`${status} ${reason}`, 'STORAGE_UNREACHABLE PoolUnreachable');
    assert.match(message, /pool 'main'/);
    assert.equal(volume_capability, null);
  } finally {
    renameSync(running.poolPath('main', 'away'), running.poolPath('main', 'volumes'));
  }
  for (const volume of volumes) await gone(volume);
});

test('only abnormal volumes are listed, in pages, and a bad token is ABORTED', async () => {
  const { controller } = running.client;
  const volumes: HeldVolume[] = [];
  for (let index = 0; index < 7; index += 1) {
    volumes.push(await orchestrator.create(`page ${index}`, { sizeBytes: MIB }));
  }
  const sick = volumes.filter((_, index) => index % 2 === 0);
  for (const volume of sick) truncateSync(fileOf(volume), 0);
  const list = controller.ControllerListVolumeHealth;
  const found: string[] = [];
  let token = '';
  do {
    const page: Message = await list({ max_entries: 3, starting_token: token });
    assert.ok(page['entries'].length <= 3);
    for (const { volume_id, health_statuses } of page['entries']) {
      assert.deepEqual(told(health_statuses), ['DATA_LOSS BackingFileTruncated']);
      found.push(volume_id);
    }
    token = page['next_token'];
  } while (token !== '');
  assert.deepEqual(found, sick.map(({ id }) => id).sort());
  const { next_token } = await controller.ListVolumes({ max_entries: 1 });
  for (const bad of ['no token', next_token]) {
    await refused(list({ starting_token: bad }), 'ABORTED', /starting_token/);
  }
  await refused(list({ max_entries: -1 }), 'INVALID_ARGUMENT', /max_entries/);
  for (const volume of volumes) await orchestrator.delete(volume);
});

test('the health RPCs check the id, then the volume, then the paths', async () => {
  const { controller, node } = running.client;
  const ask = (volume_id: string, more: Message = {}) => node.NodeGetVolumeHealth({ volume_id, ...more });
  await refused(controller.ControllerGetVolumeHealth({}), 'INVALID_ARGUMENT', /volume_id/);
  await refused(ask(''), 'INVALID_ARGUMENT', /volume_id/);
  await refused(ask('fake-vol-id', { volume_publish_path: 'some/path' }), 'NOT_FOUND');
  const { id } = await orchestrator.create('paths');
  for (const field of ['volume_publish_path', 'staging_target_path']) {
    for (const wrong of ['some/path', '/a/../b']) {
      await refused(ask(id, { [field]: wrong }), 'INVALID_ARGUMENT', new RegExp(field));
    }
    assert.deepEqual((await ask(id, { [field]: '/no' }))['volume_health'].health_statuses, []);
  }
});

test('errors counted by ext4 are DEGRADED, also after another mount, until fsck has run', async () => {
  const volume = await used();
  const source = ['-n', '-o', 'SOURCE', volume.stagingPath];
  const device = basename(execFileSync('findmnt', source, { encoding: 'utf8' }).trim());
  // As staged it would become read-only by the error, which is another condition.
  remount(volume, 'errors=continue');
  writeFileSync(`/sys/fs/ext4/${device}/trigger_fs_error`, 'for a test');
  await onlyNodeTells(volume, 'DEGRADED FileSystemErrors');
  await statsTell(volume, /^FileSystemErrors: the kernel counted 1 error/);
  await orchestrator.takeDown(volume);
  await bothTell(volume);
  // Staging runs fsck.ext4, which mends it and clears the count.
  await orchestrator.bringUp(volume);
  await bothTell(volume);
  await gone(volume);
});

for (const fsType of ['ext4', 'xfs']) {
  test(`an ${fsType} that has shut down is INACCESSIBLE, and has recovered after another staging`, async () => {
    const volume = await used(mountCapability(fsType), fsType === 'xfs' ? 320 : 32);
    execFileSync('xfs_io', ['-x', '-c', 'shutdown', volume.stagingPath]);
    await onlyNodeTells(volume, 'INACCESSIBLE FileSystemShutDown');
    await orchestrator.takeDown(volume);
    await orchestrator.bringUp(volume);
    await gone(volume);
  });
}

test('a file system that became read-only is INACCESSIBLE where it is staged for writing', async () => {
  const volume = await used();
  remount(volume, 'ro');
  await onlyNodeTells(volume, 'INACCESSIBLE FileSystemReadOnly');
  remount(volume, 'rw');
  await bothTell(volume);
  await orchestrator.unpublish(volume);
  await orchestrator.publish(volume, { readonly: true });
  await bothTell(volume);
  await gone(volume);
  await gone(await used(mountCapability('ext4', 'SINGLE_NODE_READER_ONLY')));
});

test('btrfs content that was changed on the device is DATA_LOSS once it is read', async () => {
  const volume = await used(mountCapability('btrfs'), 320);
  const pattern = Buffer.alloc(64 * 1024, 'blocks that nobody else writes. ');
  const file = join(volume.targetPath, 'file');
  writeFileSync(file, pattern);
  // Nothing of it stays in memory.
  await orchestrator.takeDown(volume);
  const stored = fileOf(volume);
  const offset = readFileSync(stored).indexOf(pattern);
  assert.ok(offset > 0, 'the file is stored as it is');
  writeAt(stored, offset, Buffer.alloc(4096, 'damage'));
  await orchestrator.bringUp(volume);
  await bothTell(volume);
  assert.throws(() => readFileSync(file), /EIO/);
  await onlyNodeTells(volume, 'DATA_LOSS FileSystemCorruption');
  await gone(volume);
});

test('a device that was detached under a published path is INACCESSIBLE', async () => {
  const volume = await used(blockCapability());
  await detachLoopForSure(deviceOf(volume));
  await onlyNodeTells(volume, 'INACCESSIBLE DeviceDetached');
  await gone(volume);
});

test('records left behind by a reboot are not a condition', async () => {
  const volume = await used();
  // What a reboot does: no mount, no device, the records as they were.
  for (const path of [volume.targetPath, volume.stagingPath]) execFileSync('umount', [path]);
  await bothTell(volume);
  await orchestrator.bringUp(volume);
  await gone(volume);
});
