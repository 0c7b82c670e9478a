/**
 * Staging and its end. `sleep` plays the tool that outlived the plugin that started it: the plugin checks only
 * the lock.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import type { TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { newSnapshotId, newVolumeId, nodeKey, uuidOf } from '../../../src/base/csi/handles.js';
import { CsiError } from '../../../src/base/errors.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { isToolAtWork } from '../../../src/driver/host/device-holders.js';
import { FILE_SYSTEMS } from '../../../src/driver/host/file-systems.js';
import { btrfsIdentity } from '../../../src/driver/host/superblock.js';
import { end } from '../../support/child-processes.js';
import { blockCapability, mountCapability } from '../../support/csi-client.js';
import { copyMountNamespace } from '../../support/mount-namespace.js';
import { namesHolder, refused } from '../../support/refusal.js';
import { NOTHING, test } from '../../support/running-plugin.js';
import { useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('node-stage');
const { workspace } = node;

const WRITER = 'SINGLE_NODE_WRITER';
const READER = 'SINGLE_NODE_READER_ONLY';
const CAPABILITIES = [mountCapability(), blockCapability()];

const stagingOf = ({ volumeId }: VolumeRecord): string => node.stagingPath(volumeId);
const dataOf = (volume: VolumeRecord): string => readFileSync(`${stagingOf(volume)}/data`, 'utf8');
const run = (name: string, ...args: string[]): string => execFileSync(name, args, { encoding: 'utf8' });
/** Its lines in mountinfo. */
const mountsOf = ({ volumeId }: VolumeRecord): string => run('grep', volumeId, '/proc/self/mountinfo');

test('NS2, NS3: an unknown volume is NOT_FOUND, a relative path INVALID_ARGUMENT', async () => {
  const request = {
    volume_id: 'fake-vol-id-0123456789',
    staging_target_path: 'some/path',
    volume_capability: mountCapability(),
  };
  await refused(node.call('NodeStageVolume', request), 'NOT_FOUND');
  const volume = await node.makeVolume();
  for (const staging_target_path of ['some/path', `${workspace.directory}/../x`]) {
    const staged = node.stage(volume, mountCapability(), { staging_target_path });
    await refused(staged, 'INVALID_ARGUMENT', /staging_target_path/);
  }
  await node.catalogue.setVolumeState(volume.volumeId, 'creating');
  await refused(node.stage(volume, mountCapability()), 'NOT_FOUND');
  await node.catalogue.setVolumeState(volume.volumeId, 'deleting');
  const deleting = node.stage(volume, mountCapability());
  await refused(deleting, 'FAILED_PRECONDITION', /has not completed/);
});

test('NS5: another capability at the same path is ALREADY_EXISTS', async () => {
  const volume = await node.staged(mountCapability('ext4'));
  for (const other of [
    mountCapability(''),
    mountCapability('xfs'),
    mountCapability('ext4', READER),
    mountCapability('ext4', WRITER, ['noatime']),
    blockCapability(),
  ]) {
    await refused(node.stage(volume, other), 'ALREADY_EXISTS', new RegExp(volume.volumeId));
  }
  await node.stage(volume, mountCapability('ext4'));
  await node.unstage(volume);
});

test('NS6, NP11: an unsupported capability is FAILED_PRECONDITION', async () => {
  const volume = await node.makeVolume();
  for (const capability of [
    mountCapability('', 'MULTI_NODE_MULTI_WRITER'),
    blockCapability('MULTI_NODE_SINGLE_WRITER'),
    mountCapability('ext3'),
    { ...mountCapability(), mount: { fs_type: '', mount_flags: [], volume_mount_group: '7' } },
  ]) {
    await refused(node.stage(volume, capability), 'FAILED_PRECONDITION', /not supported/);
  }
  assert.deepEqual(node.held(), NOTHING);
  const tricky = mountCapability('', WRITER, ['noatime', 'bind']);
  await refused(node.stage(volume, tricky), 'INVALID_ARGUMENT', /mount_flags/);
});

test('NS7, NS8: the maps of an orchestrator are accepted, other ones are not', async () => {
  const volume = await node.makeVolume();
  for (const [fields, message] of [
    [{ publish_context: { key: 'v'.repeat(4096) } }, /publish_context/],
    [{ volume_context: { key: 'value' } }, /context/],
    [{ secrets: { 'bad key': 'value' } }, /secrets/],
  ] as const) {
    const staged = node.stage(volume, mountCapability(), fields);
    await refused(staged, 'INVALID_ARGUMENT', message);
  }
  await node.stage(volume, mountCapability(), {
    volume_context: { 'storage.kubernetes.io/csiProvisionerIdentity': 'x' },
    secrets: { 'any.key': 'value' },
    publish_context: { anything: 'at all' },
  });
  await node.stage(volume, mountCapability());
  await node.unstage(volume);
});

for (const [fsType, expected] of [
  ['', 'ext4'],
  ['ext4', 'ext4'],
  ['xfs', 'xfs'],
  ['btrfs', 'btrfs'],
] as const) {
  test(`a pristine volume staged as '${fsType}' gets ${expected}, once, and keeps it`, async () => {
    const volume = await node.staged(mountCapability(fsType), { sizeBytes: XFS_SIZE });
    assert.equal((await node.catalogue.volumeById(volume.volumeId))?.pristine, false);
    writeFileSync(`${stagingOf(volume)}/data`, 'kept');
    await node.unstage(volume);
    await node.stage(volume, mountCapability(fsType));
    assert.equal(dataOf(volume), 'kept');
    await node.unstage(volume);
    const other = node.stage(volume, mountCapability(expected === 'xfs' ? 'ext4' : 'xfs'));
    await refused(other, 'FAILED_PRECONDITION', new RegExp(`type ${expected}.*nothing was`));
    assert.deepEqual(node.held(), NOTHING);
    await node.stage(volume, mountCapability(''));
    assert.equal(dataOf(volume), 'kept');
    await node.unstage(volume);
  });
}

test('a volume too small for xfs is refused it, and stays pristine', async () => {
  const volume = await node.makeVolume();
  const staged = node.stage(volume, mountCapability('xfs'));
  await refused(staged, 'FAILED_PRECONDITION', /314572800/);
  assert.deepEqual(node.held(), NOTHING);
  await node.stage(volume, mountCapability('ext4'));
  await node.unstage(volume);
});

test('a formatted volume that was never marked initialized is formatted again', async () => {
  const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
  const { backend } = node;
  const markInitialized = backend.marks.set.bind(backend.marks);
  backend.marks.set = () => Promise.reject(new Error('dead'));
  for (const capability of [mountCapability('xfs'), blockCapability()]) {
    await assert.rejects(node.stage(volume, capability), /dead/);
    // The pool comes first: of the two marks, the catalogue's is never there alone.
    assert.equal((await node.catalogue.volumeById(volume.volumeId))?.pristine, true);
    assert.deepEqual(node.held(), NOTHING);
  }
  backend.marks.set = markInitialized;
  await node.stage(volume, mountCapability('ext4'));
  assert.equal(await backend.marks.has(volume.volumeId), true);
  await node.unstage(volume);
});

test('a volume that its pool or a snapshot says was used is not formatted', async () => {
  const nothing = /no known signature.*nothing was formatted/;
  const volume = await node.makeVolume();
  await node.backend.marks.set([volume.volumeId]);
  const asMount = () => node.stage(volume, mountCapability('ext4'));
  await refused(asMount(), 'FAILED_PRECONDITION', nothing);
  await node.stage(volume, blockCapability());
  const device = `${stagingOf(volume)}/device`;
  assert.equal(statSync(device).rdev, statSync(await node.attachedPath(volume)).rdev);
  assert.equal((await node.catalogue.volumeById(volume.volumeId))?.pristine, false);
  await node.unstage(volume);
  await refused(asMount(), 'FAILED_PRECONDITION', nothing);
  await node.stage(volume, blockCapability());
  execFileSync('mkswap', [device], { stdio: 'pipe' });
  await node.unstage(volume);
  await refused(asMount(), 'FAILED_PRECONDITION', /holds swap/);
  assert.deepEqual(node.held(), NOTHING);
});

for (const fsType of FILE_SYSTEMS) {
  test(`a snapshot of ${fsType} in use is restored beside it, also read-only`, async () => {
    const source = await node.staged(mountCapability(fsType), { sizeBytes: XFS_SIZE });
    const file = `${stagingOf(source)}/data`;
    writeFileSync(file, 'taken', { flush: true });
    const sourceSnapshotId = await node.snapshot(source);
    writeFileSync(file, 'later');
    for (const mode of [WRITER, READER]) {
      // Restored ones are never formatted, whatever their record says.
      const fields = { sizeBytes: XFS_SIZE, sourceSnapshotId, pristine: mode === WRITER };
      const restored = await node.staged(mountCapability(fsType, mode), fields);
      assert.equal(dataOf(restored), 'taken');
      const write = () => writeFileSync(`${stagingOf(restored)}/x`, '');
      if (mode === READER) assert.throws(write, /EROFS/);
      else write();
      await node.unstage(restored);
    }
    await node.cleared(source);
  });
}

test('NS9: the options of the StorageClass are those of mkfs and of every mount', async () => {
  const cases = [
    ['ext4', '-i 65536 -m 3', 'noatime,commit=17', /noatime.*commit=17/],
    ['xfs', '-m rmapbt=0 -i size=1024', 'logbsize=64k,nodiratime', /nodiratime.*logbsize=64k/],
    ['btrfs', '-n 4096 -m single', 'compress=zstd:5,nosuid', /nosuid.*compress=zstd:5/],
  ] as const;
  for (const [type, mkfsOptions, mountOptions, shown] of cases) {
    const parameters = { mkfsOptions, mountOptions };
    const volume = await node.makeVolume({ sizeBytes: XFS_SIZE, parameters });
    for (let time = 0; time < 2; time += 1) {
      await node.stage(volume, mountCapability(type, 'SINGLE_NODE_WRITER', ['nodev']));
      const options = mountsOf(volume);
      assert.match(options, shown);
      assert.match(options, /nodev/);
      const device = await node.attachedPath(volume);
      if (type === 'ext4') assert.equal(statfsSync(stagingOf(volume)).files, 5120);
      if (type === 'xfs') assert.match(run('xfs_info', stagingOf(volume)), /isize=1024/);
      if (type === 'btrfs') {
        assert.match(run('btrfs', 'inspect-internal', 'dump-super', device), /nodesize\s+4096/);
      }
      await node.unstage(volume);
    }
  }
  assert.deepEqual(node.held(), NOTHING);
});

test('copies of a btrfs and their source are mounted at once, each with its own data', async () => {
  const source = await node.staged(mountCapability('btrfs'), { sizeBytes: XFS_SIZE });
  writeFileSync(`${stagingOf(source)}/data`, 'taken', { flush: true });
  const sourceSnapshotId = await node.snapshot(source);
  await node.unstage(source);
  const copy = (pristine: boolean) => node.makeVolume({ sizeBytes: XFS_SIZE, sourceSnapshotId, pristine });
  const volumes = [source, await copy(true), await copy(false)];
  const [, ...copies] = volumes;
  for (const [index, volume] of volumes.entries()) {
    await node.stage(volume, mountCapability(index === 1 ? '' : 'btrfs'));
    writeFileSync(`${stagingOf(volume)}/own`, volume.volumeId, { flush: true });
  }
  for (const volume of volumes) {
    assert.equal(readFileSync(`${stagingOf(volume)}/own`, 'utf8'), volume.volumeId);
    assert.equal(readFileSync(`${stagingOf(volume)}/data`, 'utf8'), 'taken');
  }
  for (const volume of copies) {
    const { uuid } = await btrfsIdentity(node.native, await node.attachedPath(volume));
    assert.equal(uuid, uuidOf(volume.volumeId));
  }
  for (const volume of volumes) await node.unstage(volume);
  for (const volume of volumes.reverse()) {
    await node.stage(volume, mountCapability('btrfs'));
    assert.equal(readFileSync(`${stagingOf(volume)}/own`, 'utf8'), volume.volumeId);
  }
  for (const volume of volumes) await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
});

test('mount flags are applied, and do not appear in an error', async () => {
  const volume = await node.staged(mountCapability('ext4', WRITER, ['noatime,nodev']));
  assert.match(mountsOf(volume), /noatime/);
  await node.unstage(volume);
  const unknown = node.stage(volume, mountCapability('ext4', WRITER, ['tiger=1']));
  await assert.rejects(unknown, ({ message }: Error) => !/tiger/.test(message));
  assert.deepEqual(node.held(), NOTHING);
});

test('a staging path that is missing, a link, or a foreign mount is refused', async () => {
  const volume = await node.makeVolume();
  const at = (path: string): Promise<unknown> => node.stage(volume, mountCapability(), { staging_target_path: path });
  await refused(at(workspace.path('absent')), 'FAILED_PRECONDITION', /absent does not exist/);
  symlinkSync(node.stagingPath('real'), workspace.path('link'));
  await refused(at(workspace.path('link')), 'FAILED_PRECONDITION', /symbolic link/);
  const foreign = node.stagingPath('foreign');
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', foreign]);
  await refused(at(foreign), 'FAILED_PRECONDITION', /something else mounted/);
  // NU2: the volume is not staged there, so unstaging it there is done; the mount stays.
  await node.unstage(volume, { staging_target_path: foreign });
  assert.equal(node.held().mounts.length, 1);
  execFileSync('umount', [foreign]);
  const file = `${stagingOf(volume)}/device`;
  writeFileSync(file, "somebody else's");
  await node.unstage(volume);
  assert.ok(lstatSync(file).isFile());
  await refused(node.stage(volume, blockCapability()), 'FAILED_PRECONDITION', /not empty/);
  rmSync(file);
  assert.deepEqual(node.held(), NOTHING);
});

test("a volume's staging path is not available to another volume", async () => {
  const volumes = [await node.makeVolume(), await node.makeVolume()] as const;
  for (const [index, capability] of CAPABILITIES.entries()) {
    const [volume, other] = index === 0 ? volumes : [volumes[1], volumes[0]];
    await node.stage(volume, capability);
    const path = { staging_target_path: stagingOf(volume) };
    await refused(node.stage(other, capability, path), 'FAILED_PRECONDITION');
    await node.unstage(other, path);
    assert.equal(node.held().mounts.length, 1, 'the other volume stays staged');
    await node.unstage(volume);
  }
});

// A btrfs is told by its device from others with its id.
for (const fsType of ['ext4', 'btrfs']) {
  test(`the device of a volume (${fsType}) staged at two paths is detached with the last one`, async () => {
    const capability = mountCapability(fsType);
    const volume = await node.staged(capability, { sizeBytes: XFS_SIZE });
    const second = { staging_target_path: node.stagingPath('second') };
    await node.stage(volume, capability, second);
    const raw = { staging_target_path: node.stagingPath('third') };
    await refused(node.stage(volume, blockCapability(), raw), 'FAILED_PRECONDITION', /in use/);
    await node.publish(volume, capability, { readonly: true });
    const target = node.targetPath(volume.volumeId);
    assert.throws(() => writeFileSync(`${target}/x`, ''), /EROFS/);
    await refused(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
    await node.unpublish(volume);
    await node.unstage(volume);
    assert.equal(node.held().loops.length, 1);
    await node.unstage(volume, second);
    assert.deepEqual(node.held(), NOTHING);
  });
}

/** How often /proc/self/mountinfo is read while `work` runs, also by looks: it grows with the volumes of a node. */
async function readsDuring(t: TestContext, work: () => Promise<unknown>): Promise<number> {
  const { mock: reads } = t.mock.method(fs, 'readFile');
  const { mock: calls } = t.mock.method(node.native, 'run');
  syncBuiltinESMExports();
  await work().finally(() => {
    reads.restore();
    calls.restore();
    syncBuiltinESMExports();
  });
  const readings = reads.calls.filter((call) => call.arguments[0] === '/proc/self/mountinfo');
  const looking = calls.calls.filter(({ arguments: [method, request] }) => method === 'look' || 'look' in request);
  return readings.length + looking.length;
}

for (const kind of ['ext4', 'xfs', 'block']) {
  test(`NodeStageVolume of ${kind} reads the mounts first, and after each change`, async (t) => {
    const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
    const capability = kind === 'block' ? blockCapability() : mountCapability(kind);
    for (const round of ['new', 'used']) {
      const stage = () => node.stage(volume, capability);
      // At the beginning, and with the new mount or at the new file to bind the device to.
      assert.equal(await readsDuring(t, stage), 2, round);
      assert.equal(await readsDuring(t, stage), 1, `${round}, repeated`);
      await node.unstage(volume);
    }
  });
}

/** A volume left attached, as a killed plugin leaves it, and the tool on it. */
async function startTool(volume: VolumeRecord): Promise<ChildProcess> {
  const { devicePath } = await node.backend.attachments.attach(volume.volumeId, { readOnly: false });
  const tool = spawn('flock', ['--no-fork', '-x', devicePath, 'sleep', '600'], { stdio: 'ignore' });
  while (!(await isToolAtWork(devicePath))) await delay(20);
  return tool;
}

for (const [name, capability] of [
  ['ext4', mountCapability('ext4')],
  ['btrfs', mountCapability('btrfs')],
  ['a copy of btrfs', mountCapability('btrfs')],
  ['raw', blockCapability()],
] as const) {
  test(`a volume (${name}) that a tool works on is not staged before the tool ends`, async () => {
    let volume = await node.used(capability);
    if (name === 'a copy of btrfs') {
      // It has its own id already.
      const sourceSnapshotId = await node.snapshot(volume);
      volume = await node.staged(capability, { sizeBytes: XFS_SIZE, sourceSnapshotId });
      await node.unstage(volume);
    }
    const tool = await startTool(volume);
    const { loops } = node.held();
    for (let time = 0; time < 2; time += 1) {
      const staged = node.stage(volume, capability);
      const said = `working on volume ${volume.volumeId}.*try again when it has ended`;
      await refused(staged, 'ABORTED', new RegExp(said));
    }
    assert.deepEqual(node.held(), { mounts: [], loops });
    assert.deepEqual(await node.catalogue.stagings(volume.volumeId), []);
    await end(tool);
    await node.stage(volume, capability);
    await node.cleared(volume);
  });
}

test('a volume that a tool works on is not snapshotted, alone or in a group, nor cloned', async () => {
  const volume = await node.used(mountCapability('ext4'));
  const other = await node.used(mountCapability('ext4'));
  const tool = await startTool(volume);
  const busy = new RegExp(`still working on volume ${volume.volumeId}`);
  const taken = ({ volumeId }: VolumeRecord) => ({ volumeId, snapshotId: newSnapshotId(nodeKey('test-node')) });
  const member = taken(volume);
  const group = [taken(other), member];
  const clone = () =>
    node.backend.volumes.create(newVolumeId(nodeKey('test-node')), XFS_SIZE, { volumeId: volume.volumeId });
  await refused(node.backend.snapshots.create([member]), 'ABORTED', busy);
  await refused(node.backend.snapshots.create(group), 'ABORTED', busy);
  await refused(clone(), 'ABORTED', busy);
  await end(tool);
  await node.backend.snapshots.create(group);
  await clone();
  await node.backend.attachments.detach(volume.volumeId);
  assert.deepEqual(node.held(), NOTHING);
});

test('NU2, NU3: unstaging succeeds without a staging, a directory or a volume', async () => {
  const volume = await node.makeVolume();
  await node.unstage(volume);
  await node.unstage(volume, { staging_target_path: workspace.path('no', 'such', 'path') });
  const unknown = { volume_id: 'none-exist-id', staging_target_path: node.stagingPath('x') };
  const unstage = (path: string) => node.call('NodeUnstageVolume', { ...unknown, staging_target_path: path });
  await node.call('NodeUnstageVolume', unknown);
  await refused(unstage('relative'), 'NOT_FOUND');
  await refused(unstage('/etc'), 'INVALID_ARGUMENT', /etc cannot be/);
  const relative = node.unstage(volume, { staging_target_path: 'relative' });
  await refused(relative, 'INVALID_ARGUMENT', /absolute/);
});

test('NU3, NU4: what is published is not unstaged, until its volume is unknown', async () => {
  for (const capability of CAPABILITIES) {
    const volume = await node.staged(capability);
    await node.publish(volume, capability);
    const target = node.targetPath(volume.volumeId);
    await refused(node.unstage(volume), 'FAILED_PRECONDITION', new RegExp(target));
    await node.catalogue.removeVolume(volume.volumeId);
    await node.unpublish(volume);
    await node.unstage(volume);
    assert.equal(existsSync(target), false);
    assert.deepEqual(node.held().mounts, []);
    assert.deepEqual(readdirSync(stagingOf(volume)), []);
    await node.backend.attachments.detach(volume.volumeId);
  }
});

test('NU4: unstaging waits for a copy of the mount namespace until its deadline', async () => {
  const volume = await node.staged();
  const copy = await copyMountNamespace();
  const unstaged = node.unstage(volume, {}, { deadline: Date.now() + 60_000 });
  setTimeout(() => copy.kill('SIGKILL'), 500);
  await unstaged;
  assert.deepEqual(node.held(), NOTHING);
});

test('NU4: a volume that a copy of the mount namespace holds can be staged again', async () => {
  const volume = await node.staged(mountCapability('xfs'), { sizeBytes: XFS_SIZE });
  const copy = await copyMountNamespace();
  try {
    const said = `mounted at ${stagingOf(volume)} in the mount namespace of process ${copy.pid} `;
    const soon = () => node.unstage(volume, {}, { deadline: Date.now() + 3000 });
    await namesHolder(soon, new RegExp(said));
    await node.stage(volume, mountCapability('xfs'));
    const cancelled = new AbortController();
    setTimeout(() => cancelled.abort(CsiError.cancelled('the caller went away')), 200);
    const { signal } = cancelled;
    await refused(node.unstage(volume, {}, { signal }), 'CANCELLED', /went away/);
  } finally {
    await end(copy);
  }
  await node.cleared(volume);
});

test('what holds a volume is named, and it can be unstaged afterwards', async () => {
  const volume = await node.staged();
  const holder = spawn('sleep', ['600'], { cwd: stagingOf(volume), stdio: 'ignore' });
  await once(holder, 'spawn');
  await refused(node.unstage(volume), 'FAILED_PRECONDITION', /busy/);
  await end(holder);
  const elsewhere = node.stagingPath('by-hand');
  execFileSync('mount', ['--bind', stagingOf(volume), elsewhere]);
  await refused(node.unstage(volume), 'FAILED_PRECONDITION', /by-hand/);
  execFileSync('umount', [elsewhere]);
  await node.cleared(volume);
});
