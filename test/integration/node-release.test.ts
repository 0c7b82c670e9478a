/** Volumes are released even if their file system has shut down or their pool is unreachable. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { CsiError } from '../../src/base/errors.js';
import type { VolumeRecord } from '../../src/driver/catalogue/records.js';
import { describeHolders } from '../../src/driver/host/device-holders.js';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { rejectsWith } from '../support/expect-status.js';
import { attachLoop } from '../support/loops.js';
import { NOTHING, test } from '../support/running-plugin.js';
import { useNode, XFS_SIZE } from './node-fixture.js';

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
      await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
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
          await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
        }
        await node.unpublish(volume);
        assert.equal(existsSync(target), false);
        await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /not configured any more/);
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
    await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /pool 'default'.*EIO/);
    assert.deepEqual(node.held().mounts, []);
    for (const device of node.held().loops) execFileSync('losetup', ['-d', device]);
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
    await rejectsWith(unpublished, 'FAILED_PRECONDITION', /something else/);
    const staging = { staging_target_path: node.stagingPath(first.volumeId) };
    await rejectsWith(node.unstage(second, staging), 'FAILED_PRECONDITION');
    assert.equal(node.held().mounts.length, 2);
  });
  await node.cleared(first, target_path);
});

test('what uses the device of a raw volume is named: a bind, and a loop of the kubelet', async () => {
  const volume = await node.staged(blockCapability());
  const device = await node.attachedPath(volume);
  const own = node.workspace.path('volumeDevices', 'pvc-1', 'dev', 'pod-uid');
  mkdirSync(dirname(own), { recursive: true });
  writeFileSync(own, '');
  execFileSync('mount', ['--bind', device, own]);
  const bound = node.unstage(volume);
  await rejectsWith(bound, 'FAILED_PRECONDITION', /pod-uid shows the device of volume/);
  const loop = attachLoop(own);
  const named = `^${device} is the backing device of ${loop}, the kubelet's own.*losetup -d ${loop}`;
  try {
    // With the kubelet's own mount of the device node, and without it.
    assert.match(await describeHolders(device), new RegExp(named, 's'));
    execFileSync('umount', ['-l', own]);
    assert.match(await describeHolders(device), new RegExp(named, 's'));
    const unstaged = node.unstage(volume, {}, { deadline: Date.now() + 2000 });
    await rejectsWith(unstaged, 'FAILED_PRECONDITION', new RegExp(`kubelet's own.*-d ${loop}`));
  } finally {
    execFileSync('losetup', ['-d', loop]);
  }
  await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
});
