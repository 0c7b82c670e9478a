/** Reflink pools on btrfs: volumes in a subvolume of their own, and the copies of it that snapshots are cloned from. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach } from 'node:test';
import type { ReflinkBackend } from '../../src/driver/backends/reflink/reflink-backend.js';
import { test } from '../support/running-plugin.js';
import { newSnapshot, newVolume } from './harness.js';
import { ReflinkFixture } from './reflink-fixture.js';

const MIB = 1n << 20n;
const SIZE = 128n * MIB;
/** Inode number of the top of a subvolume. */
const TOP = 256;

const fixture = new ReflinkFixture('subvolume', 'btrfs', 1024, beforeEach);
const started = (): Promise<ReflinkBackend> => fixture.open();

const at = (...names: string[]): string => join(fixture.directory, ...names);
const btrfs = (...words: string[]): void => void execFileSync('btrfs', words);
const copies = (): string[] => readdirSync(fixture.directory).filter((name) => name.endsWith('.copy'));

/** Gives a volume's file more extents than are cloned under a freeze, without changing what it holds. */
function fragment(file: string): void {
  const commands = Array.from({ length: 16_000 }, (_, index) => `falloc -k ${index * 8192} 4096\n`);
  execFileSync('xfs_io', [file], { input: commands.join('') });
}

async function mounted(backend: ReflinkBackend, volumeId: string): Promise<string> {
  await backend.volumes.create(volumeId, SIZE);
  const { devicePath } = await backend.attachments.attach(volumeId, { readOnly: false });
  execFileSync('mkfs.ext4', ['-q', devicePath]);
  const mountPoint = fixture.workspace.path('mounted');
  mkdirSync(mountPoint);
  execFileSync('mount', [devicePath, mountPoint]);
  return mountPoint;
}

test('a new pool on btrfs has its volumes in a subvolume, and keeps it', async () => {
  const [volumeId, snapshotId] = [newVolume(), newSnapshot()];
  const backend = await started();
  const { ino, mode } = statSync(at('volumes'));
  assert.deepEqual([ino, mode & 0o7777], [TOP, 0o700]);
  await backend.volumes.create(volumeId, MIB);
  await (await started()).snapshots.create([{ volumeId, snapshotId }]);
  const { volumes, snapshots } = await backend.list();
  assert.deepEqual([volumes.length, snapshots.length], [1, 1]);
});

test('a pool whose volumes are in a plain directory is served as it is', async () => {
  mkdirSync(at('volumes'));
  const { ino } = statSync(at('volumes'));
  const backend = await started();
  assert.equal(statSync(at('volumes')).ino, ino);
  const [volumeId, snapshotId] = [newVolume(), newSnapshot()];
  const mountPoint = await mounted(backend, volumeId);
  fragment(at('volumes', volumeId));
  writeFileSync(join(mountPoint, 'file'), 'content');
  await backend.snapshots.create([{ volumeId, snapshotId }]);
  await backend.snapshots.check(snapshotId, SIZE);
});

test('a snapshot of a mounted volume in pieces is cloned from a copy, which goes', async () => {
  const backend = await started();
  const [volumeId, snapshotId, cloneId] = [newVolume(), newSnapshot(), newVolume()];
  const mountPoint = await mounted(backend, volumeId);
  fragment(at('volumes', volumeId));
  writeFileSync(join(mountPoint, 'file'), 'content');
  // A copy that is left over from a killed call is replaced, so a copy was made.
  btrfs('subvolume', 'snapshot', '-r', at('volumes'), at(`${snapshotId}.copy`));
  await backend.snapshots.create([{ volumeId, snapshotId }]);
  assert.deepEqual(copies(), []);
  await backend.snapshots.check(snapshotId, SIZE);
  btrfs('subvolume', 'snapshot', '-r', at('volumes'), at(`${cloneId}.copy`));
  await backend.volumes.create(cloneId, SIZE, { volumeId });
  assert.deepEqual(copies(), []);
  const restoredId = newVolume();
  await backend.volumes.create(restoredId, SIZE, { snapshotId });
  for (const id of [cloneId, restoredId]) {
    const mountPoint = fixture.workspace.path(id);
    mkdirSync(mountPoint);
    execFileSync('mount', ['-o', 'ro,loop', at('volumes', id), mountPoint]);
    assert.equal(readFileSync(join(mountPoint, 'file'), 'utf8'), 'content');
  }
});

test('a start removes the copies that kills have left, and no foreign one', async () => {
  const backend = await started();
  const [left, foreign] = [`${newSnapshot()}.copy`, 'foreign.copy'];
  for (const name of [left, foreign]) {
    btrfs('subvolume', 'snapshot', '-r', at('volumes'), at(name));
  }
  assert.deepEqual(await backend.start(), [left]);
  assert.deepEqual(copies(), [foreign]);
});

const NOWHERE = { paths: [], guarded: null, devicePath: null };

test('a mount over the subvolume is not taken for the subvolume', async () => {
  const backend = await started();
  btrfs('subvolume', 'create', at('other'));
  for (const mount of [
    ['-t', 'tmpfs', 'none', at('volumes')],
    ['--bind', at('other'), at('volumes')],
  ]) {
    execFileSync('mount', mount);
    await assert.rejects(backend.check(), /something is mounted over .*volumes/);
    assert.equal(await backend.attachments.findAndLook?.(newVolume(), NOWHERE), null);
    execFileSync('umount', [at('volumes')]);
    await backend.check();
  }
  const volumeId = newVolume();
  await backend.volumes.create(volumeId, MIB);
  const elsewhere = fixture.workspace.path('elsewhere');
  writeFileSync(elsewhere, '');
  execFileSync('mount', ['--bind', elsewhere, at('volumes', volumeId)]);
  await assert.rejects(backend.volumes.check(volumeId, MIB), /mounted over/);
  execFileSync('umount', [at('volumes', volumeId)]);
  await backend.volumes.check(volumeId, MIB);
});

test('a kill while the subvolume is being made is made good by the next start', async () => {
  btrfs('subvolume', 'create', at('volumes.tmp'));
  await started();
  assert.equal(statSync(at('volumes')).ino, TOP);
  assert.equal(existsSync(at('volumes.tmp')), false);
});

test('the commands of docs/backends.md give an older pool its subvolume', async () => {
  mkdirSync(at('volumes'), { mode: 0o700 });
  const volumeId = newVolume();
  await (await started()).volumes.create(volumeId, MIB);
  writeFileSync(at('volumes', volumeId), 'content', { flag: 'r+' });
  const page = readFileSync(new URL('../../../docs/backends.md', import.meta.url), 'utf8');
  const commands = /^ {6}mv volumes volumes\.old\n(?: {6}.*\n)+/m.exec(page)?.[0];
  assert.ok(commands !== undefined, 'the page shows the commands');
  execFileSync('sh', ['-ec', commands], { cwd: fixture.directory });
  const backend = await started();
  assert.deepEqual([statSync(at('volumes')).ino, statSync(at('volumes')).mode & 0o7777], [TOP, 0o700]);
  await backend.volumes.check(volumeId, MIB);
  assert.equal(readFileSync(at('volumes', volumeId), 'utf8').slice(0, 7), 'content');
});

test('the first list, for which btrfs has no map, leaves nothing unfinished', async () => {
  const backend = await fixture.open({ changeLists: true });
  const [volumeId, first, second] = [newVolume(), newSnapshot(), newSnapshot()];
  await backend.volumes.create(volumeId, MIB);
  for (const snapshotId of [first, second]) {
    writeFileSync(at('volumes', volumeId), snapshotId, { flag: 'r+', flush: true });
    await backend.snapshots.create([{ volumeId, snapshotId }]);
  }
  const list = await backend.changes.begin(second, first);
  assert.equal(await list?.step(), true);
  assert.deepEqual(readdirSync(at('lists')), [`${first}.to.${second}`]);
});
