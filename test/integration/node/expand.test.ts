/** The sizes of volumes on their node: NodeExpandVolume, and growth when a volume is staged. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { CsiError, SystemError } from '../../../src/base/errors.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { canGrowMounted } from '../../../src/driver/host/file-system-growth.js';
import { FILE_SYSTEMS, type FileSystem } from '../../../src/driver/host/file-systems.js';
import { notPermitted } from '../../../src/driver/node/expand-volume.js';
import { growStaged } from '../../../src/driver/node/growth.js';
import { callContext } from '../../support/call-context.js';
import { blockCapability, type Message, mountCapability } from '../../support/csi-client.js';
import { mount } from '../../support/mounts.js';
import { MIB, mountOf } from '../../support/records.js';
import { refused } from '../../support/refusal.js';
import { NOTHING, test } from '../../support/running-plugin.js';
import { SIZE, useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('node-expand');

const READER = 'SINGLE_NODE_READER_ONLY';
const LARGER = 1024n * MIB;

const expand = (volume: VolumeRecord, volume_path: string, fields: Message = {}) =>
  node.expand(volume, { volume_path, ...fields });

const range = (required: bigint, limit = 0n): Message => ({
  capacity_range: { required_bytes: required.toString(), limit_bytes: limit.toString() },
});

const stagingOf = ({ volumeId }: VolumeRecord): string => node.stagingPath(volumeId);
const isLarge = (path: string, size = LARGER): boolean => node.bytesAt(path) > (size * 8n) / 10n;
const dataOf = (path: string): string => readFileSync(`${path}/data`, 'utf8');

/** Unstaged, with a file in it. */
async function filled(type: FileSystem, sizeBytes = XFS_SIZE): Promise<VolumeRecord> {
  const volume = await node.staged(mountCapability(type), { sizeBytes });
  writeFileSync(`${stagingOf(volume)}/data`, 'kept', { flush: true });
  await node.unstage(volume);
  return { ...volume, pristine: false };
}

/** A volume restored from a snapshot of that one. */
async function restored(source: VolumeRecord, sizeBytes: bigint, awaitsGrowth = true): Promise<VolumeRecord> {
  const sourceSnapshotId = await node.snapshot(source);
  return node.makeVolume({ sizeBytes, sourceSnapshotId, pristine: false, awaitsGrowth });
}

test('NE2, NE9: a volume that is unknown, or not at the path, is NOT_FOUND', async () => {
  const volume = await node.makeVolume();
  const unknown = { volume_id: 'fake-vol-id-0123456789', volume_path: 'some/path' };
  await refused(node.call('NodeExpandVolume', unknown), 'NOT_FOUND');
  const staging = stagingOf(volume);
  await refused(expand(volume, staging), 'NOT_FOUND', /neither staged nor published/);
  await node.stage(volume, mountCapability());
  for (const path of ['some/path', '/no/such/path', `${staging}/..`, node.workspace.directory]) {
    await refused(expand(volume, path), 'NOT_FOUND', /neither staged nor published/);
  }
  await node.unstage(volume);
});

for (const type of FILE_SYSTEMS) {
  test(`NE3, NE4: ${type} in use is grown to its device, and growing it again is OK`, async () => {
    const volume = await filled(type);
    await node.stage(volume, mountCapability(type));
    await node.publish(volume, mountCapability(type));
    const [staging, target] = [stagingOf(volume), node.targetPath(volume.volumeId)];
    assert.equal((await expand(volume, target))['capacity_bytes'], XFS_SIZE.toString());
    await node.enlarge(volume, LARGER);
    const isAble = await canGrowMounted(type);
    const requests: [string, Message][] = [
      [target, { ...range(LARGER), volume_capability: mountCapability(type) }],
      [staging, {}],
      [target, range(1n, LARGER)],
    ];
    for (const [path, fields] of requests) {
      const answer = expand(volume, path, fields);
      if (isAble) assert.equal((await answer)['capacity_bytes'], LARGER.toString());
      else await refused(answer, 'FAILED_PRECONDITION', /CAP_SYS_RESOURCE.*unstage/);
    }
    assert.equal(isLarge(target), isAble);
    assert.equal(dataOf(target), 'kept');
    await node.unpublish(volume);
    await node.unstage(volume);
    // The way out that the message names.
    await node.stage(volume, mountCapability(type));
    assert.ok(isLarge(staging));
    assert.equal((await expand(volume, staging))['capacity_bytes'], LARGER.toString());
    await node.unstage(volume);
  });

  test(`NP10, CV9: ${type} restored larger is grown when it is staged for writing`, async () => {
    const copy = await restored(await filled(type), LARGER, false);
    const staging = stagingOf(copy);
    await node.stage(copy, mountCapability(type, READER));
    assert.equal(node.bytesAt(staging) > XFS_SIZE, type === 'ext4');
    assert.throws(() => writeFileSync(`${staging}/x`, ''), /EROFS/);
    await node.unstage(copy);
    await node.stage(copy, mountCapability(type));
    await node.publish(copy, mountCapability(type));
    const target = node.targetPath(copy.volumeId);
    assert.ok(isLarge(target));
    assert.equal(dataOf(target), 'kept');
    await node.unpublish(copy);
    // As a kill leaves it: larger, and staged.
    await node.backend.volumes.expand(copy.volumeId, 2n * LARGER);
    await node.stage(copy, mountCapability(type));
    assert.equal(isLarge(staging, 2n * LARGER), await canGrowMounted(type));
    await node.unstage(copy);
    await node.stage(copy, mountCapability(type));
    assert.ok(isLarge(staging, 2n * LARGER));
    await node.cleared(copy);
  });
}

test('EPERM is attributed to a capability only if that is missing', async () => {
  const cause = new SystemError('EPERM', 'EXT4_IOC_RESIZE_FS', '/x', 'not permitted');
  const said = (type: string, isAble: boolean): string => notPermitted('vol-1', type, isAble, cause).message;
  assert.match(said('ext4', false), /plugin lacks CAP_SYS_RESOURCE/);
  assert.match(said('ext4', true), /has recorded errors; unpublish, unstage and stage/);
  assert.match(said('xfs', true), /plugin lacks CAP_SYS_ADMIN/);
  const isAble = await canGrowMounted('ext4');
  const volume = await node.staged(mountCapability('ext4'));
  // As the kernel sees an error: EPERM for whoever may resize, too.
  const name = basename(await node.attachedPath(volume));
  writeFileSync(`/sys/fs/ext4/${name}/trigger_fs_error`, 'made by a test');
  await node.enlarge(volume, LARGER);
  const reason = isAble ? /has recorded errors/ : /CAP_SYS_RESOURCE/;
  await refused(node.expand(volume), 'FAILED_PRECONDITION', reason);
  await node.unstage(volume);
  // The way out that both messages name.
  await node.stage(volume, mountCapability('ext4'));
  assert.ok(isLarge(stagingOf(volume)));
  await node.unstage(volume);
});

test('NE5: what is mounted read-only grows through a writable mount, if there is one', async () => {
  const volume = await filled('xfs');
  await node.stage(volume, mountCapability('xfs', READER));
  await node.enlarge(volume, LARGER);
  await refused(node.expand(volume), 'FAILED_PRECONDITION', /mounted read-only/);
  await node.unstage(volume);
  await node.stage(volume, mountCapability('xfs'));
  await node.publish(volume, mountCapability('xfs'), { readonly: true });
  await node.enlarge(volume, 2n * LARGER);
  const target = node.targetPath(volume.volumeId);
  await expand(volume, target);
  assert.ok(isLarge(target, 2n * LARGER));
  await node.cleared(volume, target);
});

test('NE6, NE7: a range or capability that does not fit the volume is refused', async () => {
  const volume = await node.staged();
  const asked = (fields: Message) => expand(volume, stagingOf(volume), fields);
  await refused(asked(range(SIZE + 1n)), 'OUT_OF_RANGE', /call ControllerExpandVolume first/);
  await refused(asked(range(0n, SIZE - 1n)), 'OUT_OF_RANGE', /do not shrink/);
  for (const bad of [range(0n), range(-1n), range(2n, 1n)]) {
    await refused(asked(bad), 'INVALID_ARGUMENT', /capacity_range/);
  }
  for (const volume_capability of [
    mountCapability('', 'MULTI_NODE_MULTI_WRITER'),
    mountCapability('ext3'),
    blockCapability(),
    { mount: null, block: null, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
  ]) {
    await refused(asked({ volume_capability }), 'INVALID_ARGUMENT');
  }
  await node.unstage(volume);
});

test('NE8: a raw volume is known by its path, and has the size of its device', async () => {
  const volume = await node.staged(blockCapability());
  await node.publish(volume, blockCapability());
  const target = node.targetPath(volume.volumeId);
  await node.enlarge(volume, LARGER);
  for (const fields of [{}, { volume_capability: blockCapability() }, range(LARGER)]) {
    for (const path of [target, stagingOf(volume)]) {
      assert.equal((await expand(volume, path, fields))['capacity_bytes'], LARGER.toString());
    }
  }
  // As a killed controller leaves it: the loop device was not told.
  const file = node.workspace.path('xfs.pool', 'volumes', volume.volumeId);
  execFileSync('truncate', ['-s', String(2n * LARGER), file]);
  await node.catalogue.setVolumeSize(volume.volumeId, 2n * LARGER);
  await expand(volume, target);
  const size = execFileSync('blockdev', ['--getsize64', target], { encoding: 'utf8' });
  assert.equal(BigInt(size.trim()), 2n * LARGER);
  await node.cleared(volume, target);
});

test('H20: a btrfs below the least size to grow to is served, and grows to that size', async () => {
  const [small, between, least] = [128n * MIB, 200n * MIB, 256n * MIB];
  const capability = mountCapability('btrfs');
  const source = await filled('btrfs', small);
  const refusal = ({ volumeId }: VolumeRecord) =>
    new RegExp(`${volumeId}.*a btrfs to less than ${least} bytes.*ControllerExpand`);
  await node.stage(source, capability);
  await node.expand(source);
  await node.enlarge(source, between);
  await refused(node.expand(source), 'FAILED_PRECONDITION', refusal(source));
  await node.unstage(source);
  const copy = await restored(source, between);
  await refused(node.stage(copy, capability), 'FAILED_PRECONDITION', refusal(copy));
  assert.deepEqual(node.held(), NOTHING);
  await node.stage(source, capability);
  assert.equal(node.bytesAt(stagingOf(source)), small);
  await node.enlarge(source, least);
  await node.expand(source);
  await node.enlarge(copy, least);
  await node.stage(copy, capability);
  for (const volume of [source, copy]) {
    assert.equal(node.bytesAt(stagingOf(volume)), least);
    assert.equal(dataOf(stagingOf(volume)), 'kept');
    await node.unstage(volume);
  }
});

/** Takes all there is in the pool, and gives it back afterwards. */
async function whilePoolIsFull(run: () => Promise<unknown>): Promise<void> {
  const path = node.workspace.path('xfs.pool', 'filler');
  writeFileSync(path, '');
  for (const unit of ['1G', '64M', '4M', '256K', '16K', '4K']) {
    const more = () => ['-o', String(statSync(path).size), '-l', unit, path];
    while (spawnSync('fallocate', more()).status === 0);
  }
  await run().finally(() => rmSync(path));
}

/**
 * NodeStage where the file system finds no room to grow. A copy shares its log with its source, and where
 * the kernel has to grow it the full pool would keep it from being mounted: there a stub has no room.
 */
async function stageWithoutRoom(volume: VolumeRecord, type: FileSystem): Promise<void> {
  const stage = () => node.stage(volume, mountCapability(type));
  if (!(await canGrowMounted(type))) return whilePoolIsFull(stage);
  node.failing = { method: 'growFileSystem', code: 'ENOSPC' };
  try {
    await stage();
  } catch (thrown) {
    throw CsiError.from(thrown);
  } finally {
    node.failing = null;
  }
}

const isTold = (): boolean => node.notes.some((fields) => 'growthFailure' in fields);

/** The device and its source are one file system to XFS. */
const NOUUID = { xfs: ['nouuid'], ext4: [] } as const;

// A btrfs needs no room to grow.
for (const type of ['xfs', 'ext4'] as const) {
  test(`${type} without space to grow is staged with its data, and grown later`, async (context) => {
    if (type === 'ext4' && (await canGrowMounted(type))) {
      context.skip('the kernel grows ext4 here, and tells of a full pool later');
      return;
    }
    const volume = await filled(type);
    const staging = stagingOf(volume);
    await node.enlarge(volume, LARGER);
    await whilePoolIsFull(async () => {
      node.notes.length = 0;
      await node.stage(volume, mountCapability(type));
      assert.ok(isTold());
      assert.equal(dataOf(staging), 'kept');
      assert.ok(node.bytesAt(staging) <= XFS_SIZE);
      await node.stage(volume, mountCapability(type));
      await assert.rejects(node.expand(volume), 'the failure is reported');
    });
    await node.unstage(volume);
    node.notes.length = 0;
    await node.stage(volume, mountCapability(type));
    assert.ok(!isTold());
    assert.ok(isLarge(staging));
    await node.cleared(volume);
  });

  test(`${type} restored larger is not staged before it has been grown once`, async () => {
    const copy = await restored(await filled(type), LARGER);
    const staging = stagingOf(copy);
    const failed = stageWithoutRoom(copy, type);
    await refused(failed, 'RESOURCE_EXHAUSTED');
    assert.deepEqual(node.held(), NOTHING);
    // As a kill between the mount and the growth leaves it.
    const { devicePath: source } = await node.backend.attachments.attach(copy.volumeId, { readOnly: false });
    await mount({ source, target: staging, fsType: type, options: ['rw', ...NOUUID[type]] });
    await node.stage(copy, mountCapability(type));
    assert.ok(isLarge(staging));
    await node.unstage(copy);
    // From now on it is a volume like any other.
    await node.enlarge(copy, 2n * LARGER);
    await stageWithoutRoom(copy, type);
    assert.equal(dataOf(staging), 'kept');
    await node.cleared(copy);
  });
}

test('a repeated NodeStage does not fail because the volume cannot grow', async () => {
  const volume = await node.staged(mountCapability('xfs'), { sizeBytes: XFS_SIZE });
  for (const code of ['ENOSPC', 'EIO', 'EBUSY', 'EOPNOTSUPP', 'EPERM', 'ESTALE']) {
    node.notes.length = 0;
    node.failing = { method: 'growFileSystem', code };
    await node.stage(volume, mountCapability('xfs'));
    assert.match(JSON.stringify(node.notes), /growthFailure.*as a stub says/);
  }
  node.failing = null;
  await node.unstage(volume);
});

test('an ext4 that can only be grown unmounted is unmounted for it', async () => {
  const volume = await filled('ext4');
  const directory = stagingOf(volume);
  await node.enlarge(volume, LARGER);
  const attachment = await node.backend.attachments.attach(volume.volumeId, { readOnly: false });
  const source = attachment.devicePath;
  const mountIt = (target = directory): Promise<unknown> => mount({ source, target, fsType: 'ext4', options: ['rw'] });
  await mountIt();
  const context = callContext({ note: (fields) => node.notes.push(fields) });
  const capability = mountOf('ext4');
  assert.ok(capability.accessType === 'mount');
  const staging = { volume, attachment, capability, directory, context };
  node.failing = { method: 'growFileSystem', code: 'EOPNOTSUPP' };
  node.notes.length = 0;
  const grow = (again: (() => Promise<unknown>) | null) => growStaged(node.deps, staging, 'ext4', again);
  // In use elsewhere, and in use for a repeated call: left as it is.
  const elsewhere = node.stagingPath('elsewhere');
  await mountIt(elsewhere);
  await grow(mountIt);
  execFileSync('umount', [elsewhere]);
  await grow(null);
  assert.equal(node.notes.length, 2);
  assert.ok(node.bytesAt(directory) <= XFS_SIZE);
  await grow(() => mountIt());
  node.failing = null;
  assert.equal(node.notes.length, 2);
  assert.ok(isLarge(directory));
  assert.equal(dataOf(directory), 'kept');
  execFileSync('umount', [directory]);
  await node.backend.attachments.detach(volume.volumeId);
  assert.deepEqual(node.held(), NOTHING);
});
