/** Device-mapper devices by the addon's own ioctls, on a real kernel. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { majorOf, minorOf } from '../../src/base/system/mountinfo.js';
import type { DmDevice } from '../../src/driver/native/dm-addon.js';
import { eventually } from '../support/eventually.js';
import { atNight } from '../support/nightly.js';
import { type DmScene, fails, MIB, readBlock, dmTest as test, writeBlocks } from './dm-setup.js';

const nightlyTest = atNight(test);

const SIZE = 8n * MIB;

async function linear(scene: DmScene, label: string): Promise<DmDevice> {
  const { path } = await scene.disks.disk(`below-${label}`, SIZE);
  const target = { type: 'linear', table: `${path} 0`, sizeSectors: SIZE / 512n };
  return scene.create(label, { ...target, uuid: `BLOCKDELTA-TEST-${scene.name(label)}` });
}

const tableOf = (device: DmDevice): string => device.targets[0]?.table ?? '';

test('the kernel reports its version and its targets', async ({ native }) => {
  const version = await native.run('dmVersion', {});
  assert.equal(version.major, 4);
  for (const type of ['thin-pool', 'linear', 'zero']) {
    assert.equal((await native.run('dmHasTarget', { type })).present, true, type);
  }
  assert.equal((await native.run('dmHasTarget', { type: 'no-such-target' })).present, false);
  await fails(native.run('dmHasTarget', { type: 'sixteen-letters-' }), 'EINVAL');
});

test('a device is made, found, listed and removed', async (scene) => {
  const { native, name, find } = scene;
  const made = await linear(scene, 'one');
  const device = await find('one');
  assert.deepEqual(device, made);
  assert.equal(made.uuid, `BLOCKDELTA-TEST-${name('one')}`);
  assert.equal(made.sizeBytes, SIZE);
  for (const state of ['readOnly', 'suspended', 'hasInactiveTable', 'isBeingRemoved'] as const)
    assert.equal(made[state], false, state);
  assert.equal(made.openCount, 0);
  assert.equal(made.targets.length, 1);
  assert.equal(made.targets[0]?.type, 'linear');
  const { rdev } = statSync(made.path);
  assert.deepEqual([majorOf(rdev), minorOf(rdev)], [made.major, made.minor]);
  await writeBlocks(made.path, 7, 0);
  assert.equal(await readBlock(made.path, 0), 7);
  const { devices } = await native.run('dmList', { prefix: name('') });
  assert.deepEqual(devices, [{ name: made.name, uuid: made.uuid }]);
  assert.deepEqual(await scene.remove('one'), true);
  assert.deepEqual(await scene.remove('one'), false);
  assert.equal(await find('one'), null);
});

const ZERO = { readOnly: false, sizeSectors: 8n, type: 'zero', table: '' };

test('a name or uuid in use is refused, and the device that has it is unchanged', async (scene) => {
  const { native, name, find } = scene;
  const { uuid } = await linear(scene, 'one');
  await fails(native.run('dmCreate', { ...ZERO, name: name('one'), uuid: '' }), 'EEXIST');
  await fails(native.run('dmCreate', { ...ZERO, name: name('two'), uuid }), 'EEXIST');
  assert.equal((await find('one'))?.sizeBytes, SIZE);
  assert.equal(await find('two'), null);
});

test('names of 127 bytes and uuids of 128 are accepted in full, longer ones are refused', async ({ native }) => {
  const name = 'blockdelta-'.padEnd(127, 'n');
  const uuid = 'BLOCKDELTA-'.padEnd(128, 'u');
  try {
    const { device } = await native.run('dmCreate', { ...ZERO, name, uuid });
    assert.equal(device.name, name);
    assert.equal(device.uuid, uuid);
    assert.deepEqual((await native.run('dmList', { prefix: name })).devices, [{ name, uuid }]);
    await fails(native.run('dmFind', { name: `${name}n` }), 'EINVAL');
    await fails(native.run('dmRemove', { name: `${name}n`, deferred: false }), 'EINVAL');
  } finally {
    await native.run('dmRemove', { name, deferred: false });
  }
  for (const bad of [`${name}n`, 'a/b', '', 'a\0b']) {
    await fails(native.run('dmCreate', { ...ZERO, name: bad, uuid: '' }), 'EINVAL');
  }
  await fails(native.run('dmCreate', { ...ZERO, name, uuid: `${uuid}u` }), 'EINVAL');
  assert.deepEqual((await native.run('dmList', { prefix: 'blockdelta-nnn' })).devices, []);
});

test('a device that cannot be created leaves nothing behind', async ({ native, name, find }) => {
  for (const [bad, ...codes] of [
    [{ type: 'no-such-target' }, 'EINVAL'],
    [{ type: 'linear', table: '/none 0' }, 'ENODEV', 'ENOENT'],
    [{ sizeSectors: 0n }, 'EINVAL'],
    [{ sizeSectors: 1n << 60n }, 'EINVAL'],
  ] as const) {
    const request = { ...ZERO, name: name('bad'), uuid: '', ...bad };
    await fails(native.run('dmCreate', request), ...codes);
  }
  assert.equal(await find('bad'), null);
});

test('a table is replaced under an open device, which grows', async (scene) => {
  const { native, name } = scene;
  const before = await linear(scene, 'one');
  const handle = await open(before.path, 'r+');
  try {
    const how = { noFlush: false, lockFileSystem: false };
    const request = { ...ZERO, name: name('one'), sizeSectors: (2n * SIZE) / 512n, ...how };
    const { device } = await native.run('dmReload', request);
    assert.equal(device.sizeBytes, 2n * SIZE);
    assert.equal(device.path, before.path);
    assert.equal(device.suspended, false);
    assert.equal(device.openCount, 1);
  } finally {
    await handle.close();
    await scene.remove('one');
  }
});

test('a device runs on its old table after a failed change', async (scene) => {
  const { native, name, find } = scene;
  const before = await linear(scene, 'one');
  const how = { noFlush: false, lockFileSystem: true };
  const request = { name: name('one'), readOnly: false, sizeSectors: SIZE / 512n, ...how };
  await fails(native.run('dmReload', { ...request, type: 'linear', table: 'no device' }), 'EINVAL');
  await fails(native.run('dmReload', { ...request, type: 'no-such-target', table: '' }), 'EINVAL');
  const device = await find('one');
  assert.equal(device?.suspended, false);
  assert.equal(device?.hasInactiveTable, false);
  assert.equal(tableOf(device), tableOf(before));
  await writeBlocks(before.path, 3, 0);
  const absent = { ...request, name: name('none'), type: 'zero', table: '' };
  await fails(native.run('dmReload', absent), 'ENXIO');
});

test('a suspended device holds writes back until it is resumed', async (scene) => {
  const { native, name, find } = scene;
  const { path } = await linear(scene, 'one');
  const request = { name: name('one'), noFlush: false, lockFileSystem: false };
  await native.run('dmSuspend', request);
  await native.run('dmSuspend', request);
  assert.equal((await find('one'))?.suspended, true);
  let isWritten = false;
  const writing = writeBlocks(path, 9, 1).then(() => {
    isWritten = true;
  });
  await delay(300);
  assert.equal(isWritten, false);
  assert.equal((await native.run('dmResume', { name: name('one') })).resumed, true);
  await writing;
  assert.equal((await native.run('dmResume', { name: name('one') })).resumed, false);
  assert.equal(await readBlock(path, 1), 9);
  await fails(native.run('dmSuspend', { ...request, name: name('none') }), 'ENXIO');
  await fails(native.run('dmResume', { name: name('none') }), 'ENXIO');
});

test('a suspension freezes a mounted file system only on request', async (scene) => {
  const { native, name, workspace } = scene;
  const { path } = await linear(scene, 'one');
  execFileSync('mkfs.ext4', ['-q', path]);
  const mountPoint = workspace.path('mount');
  mkdirSync(mountPoint);
  execFileSync('mount', [path, mountPoint]);
  for (const lockFileSystem of [true, false]) {
    await native.run('dmSuspend', { name: name('one'), noFlush: false, lockFileSystem });
    // A frozen file system cannot be frozen once more.
    const frozen = lockFileSystem ? spawnSync('fsfreeze', ['-f', mountPoint]).status : 1;
    await native.run('dmResume', { name: name('one') });
    assert.notEqual(frozen, 0);
    execFileSync('touch', [`${mountPoint}/${lockFileSystem}`]);
  }
  execFileSync('umount', [mountPoint]);
  execFileSync('e2fsck', ['-fn', path], { stdio: 'ignore' });
});

test('an open device is busy, and a deferred removal takes effect when it is closed', async (s) => {
  const { path } = await linear(s, 'one');
  const handle = await open(path, 'r');
  try {
    await fails(s.remove('one'), 'EBUSY');
    const { removed } = await s.native.run('dmRemove', { name: s.name('one'), deferred: true });
    assert.equal(removed, false);
    const device = await s.find('one');
    assert.equal(device?.isBeingRemoved, true);
    assert.equal(device.openCount, 1);
    await readBlock(path, 0);
  } finally {
    await handle.close();
  }
  // By a work queue of the kernel, after the close.
  await eventually('the device is removed', async () => (await s.find('one')) === null);
});

test('a removal waits for a process that has the device open briefly', async (s) => {
  const { path } = await linear(s, 'one');
  const handle = await open(path, 'r');
  const removing = s.remove('one');
  await delay(200);
  await handle.close();
  assert.equal(await removing, true);
});

test('a device node that is missing or wrong is created', async (scene) => {
  const { find } = scene;
  const { path } = await linear(scene, 'one');
  const { rdev } = statSync(path);
  const isMade = async (): Promise<void> => {
    assert.equal((await find('one'))?.path, path);
    assert.equal(statSync(path).rdev, rdev);
    await readBlock(path, 0);
  };
  for (const [program, ...words] of [
    ['true'],
    ['mknod', path, 'c', '1', '3'],
    ['ln', '-s', '/dev/null', path],
  ] as const) {
    rmSync(path);
    execFileSync(program, words);
    await isMade();
  }
});

nightlyTest('more devices than fit into the first buffer are listed', async ({ native, name }) => {
  const names = Array.from({ length: 130 }, (_, i) => name(`${i}-`.padEnd(100, 'n')));
  try {
    for (const each of names) await native.run('dmCreate', { ...ZERO, name: each, uuid: '' });
    const { devices } = await native.run('dmList', { prefix: name('') });
    assert.deepEqual(devices.map((device) => device.name).sort(), [...names].sort());
  } finally {
    for (const each of names) await native.run('dmRemove', { name: each, deferred: false });
  }
});
