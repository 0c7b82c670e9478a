/** Volumes are released even if their file system has shut down or their pool is unreachable. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { CsiError } from '../../src/base/errors.js';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { describeHolders } from '../../src/host/device-holders.js';
import { rejectsWith } from '../support/expect-status.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';
import {
  blockCapability,
  mountCapability,
  type NodeFixture,
  openNode,
  XFS_SIZE,
} from './node-fixture.js';

/** Each test has a pool of its own, since some end with a dead one. */
const rootTest = (title: string, body: (node: NodeFixture) => Promise<void>): void => {
  test(title, { skip: skipUnlessRoot }, async () => {
    const workspace = new Workspace('node-release');
    try {
      const node = await openNode(workspace);
      try {
        await body(node);
      } finally {
        await node.close();
      }
    } finally {
      workspace.dispose();
    }
  });
};

type Capability = ReturnType<typeof mountCapability>;

const NOTHING = { mounts: [], loops: [] };
const KINDS: readonly [string, Capability][] = [
  ['mount', mountCapability('ext4')],
  ['block', blockCapability()],
];

async function published(node: NodeFixture, capability: Capability): Promise<VolumeRecord> {
  const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
  await node.stage(volume, capability);
  await node.publish(volume, capability);
  return volume;
}

function shutDown(mountPoint: string): void {
  execFileSync('xfs_io', ['-x', '-c', 'shutdown', mountPoint]);
  assert.throws(() => readdirSync(mountPoint), /EIO/);
}

async function assertReleased(node: NodeFixture, volume: VolumeRecord): Promise<void> {
  assert.deepEqual(node.held(), NOTHING);
  assert.equal(existsSync(node.targetPath(volume.volumeId)), false);
  assert.deepEqual(readdirSync(node.stagingPath(volume.volumeId)), []);
  assert.deepEqual(await node.catalogue.publications(volume.volumeId), []);
  assert.deepEqual(await node.catalogue.stagings(volume.volumeId), []);
}

for (const [name, hasRecords] of [
  ['with records', true],
  ['without records', false],
] as const) {
  rootTest(
    `a file system that has shut down is unpublished, unstaged and deleted, ${name}`,
    async (node) => {
      const volume = await published(node, mountCapability('xfs'));
      const staging = node.stagingPath(volume.volumeId);
      if (!hasRecords) {
        await node.catalogue.removePublication(node.targetPath(volume.volumeId));
        await node.catalogue.removeStaging(volume.volumeId, staging);
      }
      shutDown(staging);
      if (hasRecords) {
        await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
      }
      await node.unpublish(volume);
      await node.unstage(volume);
      await assertReleased(node, volume);
      await node.backend.deleteVolume(volume.volumeId);
    },
  );
}

rootTest('a file system that has shut down is cleared for an unknown volume', async (node) => {
  const volume = await published(node, mountCapability('xfs'));
  shutDown(node.stagingPath(volume.volumeId));
  await node.catalogue.removeVolume(volume.volumeId);
  await node.unpublish(volume);
  await node.unstage(volume);
  assert.deepEqual(node.held().mounts, []);
});

for (const [name, capability] of KINDS) {
  for (const hasRecord of [true, false]) {
    rootTest(
      `volumes of a pool that was removed from the configuration can be unmounted, ${name}, record: ${hasRecord}`,
      async (node) => {
        const volume = await published(node, capability);
        if (!hasRecord) await node.catalogue.removePublication(node.targetPath(volume.volumeId));
        node.askPool = () => {
          throw CsiError.failedPrecondition('the pool is not configured any more');
        };
        if (hasRecord) {
          await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
        }
        await node.unpublish(volume);
        assert.equal(existsSync(node.targetPath(volume.volumeId)), false);
        await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /not configured any more/);
        assert.deepEqual(node.held().mounts, []);
        assert.equal(node.held().loops.length, 1);
        assert.equal((await node.catalogue.stagings(volume.volumeId)).length, 1);
        node.askPool = () => undefined;
        await node.unstage(volume);
        await assertReleased(node, volume);
      },
    );
  }

  rootTest(
    `volumes of an unreachable pool can be unmounted, and a retry completes when it is back, ${name}`,
    async (node) => {
      const volume = await published(node, capability);
      const pool = node.workspace.path('xfs.pool');
      shutDown(pool);
      await node.unpublish(volume);
      await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /pool 'default'.*EIO/);
      assert.deepEqual(node.held().mounts, []);
      for (const device of node.held().loops) execFileSync('losetup', ['-d', device]);
      execFileSync('umount', [pool]);
      execFileSync('mount', ['-o', 'loop', node.workspace.path('xfs.img'), pool]);
      await node.unstage(volume);
      await assertReleased(node, volume);
    },
  );
}

rootTest("another volume's mount stays if the pool is unreachable", async (node) => {
  const [first, second] = [
    await published(node, mountCapability('ext4')),
    await node.makeVolume({ sizeBytes: XFS_SIZE }),
  ];
  node.askPool = () => {
    throw CsiError.failedPrecondition('the pool is not configured any more');
  };
  const target = { target_path: node.targetPath(first.volumeId) };
  await rejectsWith(node.unpublish(second, target), 'FAILED_PRECONDITION', /something else/);
  const staging = { staging_target_path: node.stagingPath(first.volumeId) };
  await rejectsWith(node.unstage(second, staging), 'FAILED_PRECONDITION');
  assert.equal(node.held().mounts.length, 2);
});

for (const [title, isMounted] of [
  ['while its own mount of the device node is there', true],
  ['when that is gone', false],
] as const) {
  rootTest(
    `the kubelet's loop device on a raw volume is named in the error, ${title}`,
    async (node) => {
      const volume = await node.makeVolume();
      await node.stage(volume, blockCapability());
      const own = node.workspace.path('volumeDevices', 'pvc-1', 'dev', 'pod-uid');
      mkdirSync(dirname(own), { recursive: true });
      writeFileSync(own, '');
      execFileSync('mount', ['--bind', await node.attachedPath(volume), own]);
      const shown = execFileSync('losetup', ['-f', '--show', own], { encoding: 'utf8' });
      const loop = shown.trim();
      try {
        if (!isMounted) execFileSync('umount', ['-l', own]);
        const device = await node.attachedPath(volume);
        const holders = await describeHolders(device);
        assert.match(
          holders,
          new RegExp(`^${device} is the backing device of ${loop}, the kubelet's own`),
        );
        assert.match(holders, new RegExp(`losetup -d ${loop}`));
        if (isMounted) execFileSync('umount', ['-l', own]);
        const context = { deadline: Date.now() + 2000 };
        const unstaged = node.unstage(volume, {}, context);
        await rejectsWith(unstaged, 'FAILED_PRECONDITION', new RegExp(`kubelet's own.*-d ${loop}`));
      } finally {
        execFileSync('losetup', ['-d', loop]);
      }
      await node.unstage(volume);
      assert.deepEqual(node.held(), NOTHING);
    },
  );
}

rootTest('an unrecorded bind of the device node is named in the error', async (node) => {
  const volume = await node.makeVolume();
  await node.stage(volume, blockCapability());
  const elsewhere = node.workspace.path('by-hand');
  execFileSync('touch', [elsewhere]);
  execFileSync('mount', ['--bind', await node.attachedPath(volume), elsewhere]);
  await rejectsWith(
    node.unstage(volume),
    'FAILED_PRECONDITION',
    /by-hand shows the device of volume/,
  );
  execFileSync('umount', [elsewhere]);
  await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
});
