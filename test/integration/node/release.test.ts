/** Volumes are released even if their file system has shut down or their pool is unreachable. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { after } from 'node:test';
import { newVolumeId } from '../../../src/base/csi/handles.js';
import { CsiError } from '../../../src/base/errors.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { describeHolders } from '../../../src/driver/host/device-holders.js';
import { blockCapability, type Message, mountCapability } from '../../support/csi-client.js';
import { LO_NAME_LENGTH } from '../../support/ioctls.js';
import { attachLoop, backingOf, detachLoop, detachLoopForSure, fileBelow } from '../../support/loops.js';
import { namesHolder, refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { useNode, XFS_SIZE } from './node-fixture.js';

/** Made as a kubelet makes them. No path leads to what the code under test does not release, so nobody else finds it. */
const leftLoops: string[] = [];
after(() => {
  for (const loop of leftLoops) detachLoop(loop, () => isLeft(loop));
});

const node = useNode('node-release');

const KINDS: readonly [string, Message][] = [
  ['mount', mountCapability('ext4')],
  ['block', blockCapability()],
];

async function published(capability: Message): Promise<VolumeRecord> {
  const volume = await node.staged(capability, { sizeBytes: XFS_SIZE });
  await node.publish(volume, capability);
  return volume;
}

function shutDown(mountPoint: string): void {
  execFileSync('xfs_io', ['-x', '-c', 'shutdown', mountPoint]);
  assert.throws(() => readdirSync(mountPoint), /EIO/);
}

async function withoutPool(work: () => Promise<void>): Promise<void> {
  node.askPool = () => {
    throw CsiError.failedPrecondition('the pool is not configured any more');
  };
  await work().finally(() => {
    node.askPool = () => undefined;
  });
}

for (const [kind, capability] of KINDS) {
  test(`what somebody has written to a target while nothing was mounted stays, and ends no call, ${kind}`, async () => {
    const volume = await published(capability);
    const target = node.targetPath(volume.volumeId);
    execFileSync('umount', [target]);
    const stray = kind === 'mount' ? `${target}/stray` : target;
    writeFileSync(stray, 'of somebody');
    node.leftovers.length = 0;
    await node.unpublish(volume);
    assert.equal(readFileSync(stray, 'utf8'), 'of somebody');
    assert.deepEqual(node.leftovers, [{ volumeId: volume.volumeId, path: target }]);
    assert.deepEqual(await node.catalogue.publications(volume.volumeId), []);
    rmSync(target, { recursive: true });
    await node.cleared(volume);
  });
}

for (const known of ['recorded', 'not recorded', 'unknown']) {
  test(`a file system that has shut down is released, its volume ${known}`, async () => {
    const volume = await published(mountCapability('xfs'));
    const [staging, target] = [node.stagingPath(volume.volumeId), node.targetPath(volume.volumeId)];
    if (known === 'not recorded') {
      await node.catalogue.removePublication(target);
      await node.catalogue.removeStaging(volume.volumeId, staging);
    }
    shutDown(staging);
    if (known === 'recorded') {
      await refused(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
    }
    if (known === 'unknown') {
      await node.catalogue.removeVolume(volume.volumeId);
      await node.unpublish(volume);
      await node.unstage(volume);
      assert.deepEqual(node.held().mounts, []);
      await node.backend.attachments.detach(volume.volumeId);
    } else {
      await node.cleared(volume, target);
      assert.deepEqual(readdirSync(staging), []);
    }
    await node.backend.volumes.delete(volume.volumeId);
  });
}

for (const [name, capability] of KINDS) {
  for (const hasRecord of [true, false]) {
    test(`a volume of a pool that is not configured is unmounted, ${name}, record: ${hasRecord}`, async () => {
      const volume = await published(capability);
      const target = node.targetPath(volume.volumeId);
      if (!hasRecord) await node.catalogue.removePublication(target);
      await withoutPool(async () => {
        if (hasRecord) {
          await refused(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
        }
        await node.unpublish(volume);
        assert.equal(existsSync(target), false);
        await refused(node.unstage(volume), 'FAILED_PRECONDITION', /not configured any more/);
        assert.deepEqual(node.held().mounts, []);
        assert.equal(node.held().loops.length, 1);
        assert.equal((await node.catalogue.stagings(volume.volumeId)).length, 1);
      });
      await node.cleared(volume);
    });
  }

  test(`a volume of an unreachable pool is unmounted, and released when it is back, ${name}`, async () => {
    const volume = await published(capability);
    const pool = node.workspace.path('xfs.pool');
    shutDown(pool);
    await node.unpublish(volume);
    await refused(node.unstage(volume), 'FAILED_PRECONDITION', /pool 'default'.*EIO/);
    assert.deepEqual(node.held().mounts, []);
    for (const device of node.held().loops) await detachLoopForSure(device);
    execFileSync('umount', [pool]);
    execFileSync('mount', ['-o', 'loop', node.workspace.path('xfs.img'), pool]);
    await node.cleared(volume);
  });
}

test("another volume's mount stays if the pool is unreachable", async () => {
  const [first, second] = [await published(mountCapability('ext4')), await node.makeVolume()];
  const target_path = node.targetPath(first.volumeId);
  await withoutPool(async () => {
    const unpublished = node.unpublish(second, { target_path });
    await refused(unpublished, 'FAILED_PRECONDITION', /something else/);
    const staging = { staging_target_path: node.stagingPath(first.volumeId) };
    await refused(node.unstage(second, staging), 'FAILED_PRECONDITION');
    assert.equal(node.held().mounts.length, 2);
  });
  await node.cleared(first, target_path);
});

/** The device node of a raw volume where the kubelet binds it, by the name of a PersistentVolume. */
function bindAsKubelet(device: string, claim: string): string {
  const own = node.workspace.path('volumeDevices', claim, 'dev', 'pod-uid');
  mkdirSync(dirname(own), { recursive: true });
  writeFileSync(own, '');
  execFileSync('mount', ['--bind', device, own]);
  return own;
}

/** The loop device that a kubelet leaves on the device: of its bound node, and its pod's directory, nothing is left. */
function leaveLoop(device: string, shown = '/'): string {
  const own = bindAsKubelet(device, 'left');
  const loop = attachLoop(own);
  leftLoops.push(loop);
  execFileSync('umount', ['-l', own]);
  rmSync(node.workspace.path('volumeDevices'), { recursive: true });
  if (shown !== '/') rmSync(device);
  assert.equal(backingOf(loop), shown);
  assert.ok(isLeft(loop));
  return loop;
}

/** Whether the loop device is still what leaveLoop made. Its number may be another test's by now, which leaves loops as well. */
function isLeft(loop: string): boolean {
  return fileBelow(loop)?.name.startsWith(node.workspace.path('volumeDevices').slice(0, LO_NAME_LENGTH)) === true;
}

test("a bound node of a raw volume and the kubelet's loop device on it are named, with the steps that release them", async () => {
  const volume = await node.staged(blockCapability());
  const device = await node.attachedPath(volume);
  const own = bindAsKubelet(device, 'pvc-1');
  const refusal = (reason: RegExp) => refused(node.unstage(volume), 'FAILED_PRECONDITION', reason);
  await refusal(/pod-uid shows the device of volume .*record of that; unmount it there$/);
  const loop = attachLoop(own);
  const named = `^${device} is the backing device of ${loop}, the kubelet's own.*losetup -d ${loop}, then umount ${own}`;
  assert.match(await describeHolders(device), new RegExp(named, 's'));
  assert.throws(() => execFileSync('umount', [own], { stdio: 'pipe' }), /busy/);
  await refusal(new RegExp(`pod-uid shows .*losetup -d ${loop}, then unmount it there$`));
  await detachLoopForSure(loop);
  execFileSync('umount', [own]);
  await node.cleared(volume);
});

test('a loop device that the kubelet left behind is released with the volume', async () => {
  const volume = await node.staged(blockCapability());
  const device = await node.attachedPath(volume);
  // A container may have a node of its own in /dev.
  const own = node.workspace.path('own-node');
  execFileSync('cp', ['-a', device, own]);
  const loops = [leaveLoop(device), leaveLoop(own, '/ (deleted)')];
  assert.match(await describeHolders(device), new RegExp(`kubelet's own.*losetup -d ${loops[0]}`));
  await node.cleared(volume);
  assert.deepEqual(loops.map(isLeft), [false, false]);
});

/** What keeps a loop device that looks left behind; the end of it. */
const KEPT: Readonly<Record<string, (loop: string, volume: VolumeRecord) => Promise<() => unknown>>> = {
  'a program has it open': async (loop) => {
    const opened = openSync(loop, 'r');
    return () => closeSync(opened);
  },
  'a publication is on record': async (_, volume) => {
    await node.publish(volume, blockCapability());
    execFileSync('umount', [node.targetPath(volume.volumeId)]);
    return () => node.unpublish(volume);
  },
};

for (const [reason, keep] of Object.entries(KEPT)) {
  test(`a loop device that a kubelet left behind stays, and is named, while ${reason}`, async () => {
    const volume = await node.staged(blockCapability());
    const loop = leaveLoop(await node.attachedPath(volume));
    const end = await keep(loop, volume);
    const unstage = () => node.unstage(volume, {}, { deadline: Date.now() + 2000 });
    await namesHolder(unstage, new RegExp(`kubelet's own.*-d ${loop}`));
    await end();
    // Nor is it marked to go with its last user.
    assert.equal(backingOf(loop), '/');
    await node.cleared(volume);
    assert.equal(isLeft(loop), false);
  });
}

test('a loop device on another device, or on this one by a path that is there, stays', async () => {
  const [volume, other] = [await node.staged(blockCapability()), await node.makeVolume()];
  const { devicePath } = await node.backend.attachments.attach(other.volumeId, { readOnly: false });
  const device = await node.attachedPath(volume);
  const [left, on] = [leaveLoop(devicePath), attachLoop(device)];
  try {
    const unstage = () => node.unstage(volume, {}, { deadline: Date.now() + 2000 });
    await namesHolder(unstage, new RegExp(`backing device of ${on} `));
    assert.deepEqual([left, on].map(backingOf), ['/', device]);
  } finally {
    execFileSync('losetup', ['-d', left, on]);
  }
  await node.backend.attachments.detach(other.volumeId);
  await node.cleared(volume);
});

test('bound nodes that were left from volumes which had the number before keep nothing staged', async () => {
  const [own, before] = ['1', '2'].map((digit) => `pvc-${digit.repeat(8)}-1f0a-4c1d-8a55-${digit.repeat(12)}`);
  assert.ok(own !== undefined && before !== undefined);
  const volume = await node.staged(blockCapability(), { name: own });
  const device = await node.attachedPath(volume);
  const ofOthers = [newVolumeId('0'.repeat(12)), before].map((claim) => bindAsKubelet(device, claim));
  const ofOurs = bindAsKubelet(device, own);
  await refused(node.unstage(volume), 'FAILED_PRECONDITION', new RegExp(`${ofOurs} shows the device`));
  execFileSync('umount', [ofOurs]);
  await node.unstage(volume);
  assert.deepEqual(node.held(), { mounts: ofOthers, loops: [] });
  execFileSync('umount', ofOthers);
});
