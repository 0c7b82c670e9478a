/** File systems that cannot be grown when they are staged, for lack of space in the pool or because of their type. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { CsiError, SystemError } from '../../src/base/errors.js';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { newSnapshotId, nodeKey } from '../../src/domain/identifiers.js';
import type { FileSystem } from '../../src/host/file-systems.js';
import { canGrowMounted } from '../../src/host/growth.js';
import type { NodeDependencies } from '../../src/node/dependencies.js';
import { growStaged } from '../../src/node/growth.js';
import { createNodeService } from '../../src/node/node.js';
import { callContext } from '../support/call-context.js';
import { rejectsWith } from '../support/expect-status.js';
import { mount } from '../support/mounts.js';
import { received } from '../support/received-request.js';
import { MIB, mountOf } from '../support/records.js';
import { test as rootTest } from '../support/running-plugin.js';
import { mountCapability, NOTHING, useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('node-growth');

const LARGER = 1024n * MIB;

const bytesAt = (path: string): bigint => {
  const { blocks, bsize } = statfsSync(path, { bigint: true });
  return blocks * bsize;
};

/** Unstaged, with a file in it. */
async function used(type: FileSystem): Promise<VolumeRecord> {
  const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
  await node.stage(volume, mountCapability(type));
  writeFileSync(`${node.stagingPath(volume.volumeId)}/data`, 'kept', { flush: true });
  await node.unstage(volume);
  return { ...volume, pristine: false };
}

/** Takes all there is in the pool, and gives it back afterwards. */
async function whilePoolIsFull(run: () => Promise<void>): Promise<void> {
  const path = node.workspace.path('xfs.pool', 'filler');
  for (const unit of ['64M', '1M', '4K']) {
    while (spawnSync('fallocate', ['-o', size(path), '-l', unit, path]).status === 0);
  }
  try {
    await run();
  } finally {
    rmSync(path);
  }
}

function size(path: string): string {
  const { stdout } = spawnSync('stat', ['-c', '%s', path], { encoding: 'utf8' });
  return stdout.trim() || '0';
}

/** A kernel that grows nothing, for failures that cannot be made here. */
function refusing(code: string): NodeDependencies {
  const native = {
    run: async (...call: Parameters<typeof node.native.run>) => {
      if (call[0] !== 'growFileSystem') return node.native.run(...call);
      throw new SystemError(code, 'XFS_IOC_FSGROWFSDATA', '/x', 'as a stub says');
    },
  };
  return { ...node.deps, native } as NodeDependencies;
}

/**
 * NodeStage where the file system finds no room to grow. A copy shares its log with its source, and where
 * the kernel has to grow it the full pool would keep it from being mounted: there a stub has no room.
 */
async function stageWithoutRoom(volume: VolumeRecord, type: FileSystem): Promise<void> {
  const request = received('NodeStageVolume', {
    volume_id: volume.volumeId,
    staging_target_path: node.stagingPath(volume.volumeId),
    volume_capability: mountCapability(type),
  });
  const service = createNodeService(refusing('ENOSPC'));
  const stage = async (): Promise<void> => {
    try {
      await service.unary.NodeStageVolume?.(request, callContext());
    } catch (thrown) {
      throw CsiError.from(thrown);
    }
  };
  await ((await canGrowMounted(type)) ? stage() : whilePoolIsFull(stage));
}

const isTold = (): boolean => node.notes.some((fields) => 'growthFailure' in fields);

/** The device and its source are one file system to XFS. */
const NOUUID = { xfs: ['nouuid'], ext4: [] } as const;

// A btrfs needs no room to grow.
for (const type of ['xfs', 'ext4'] as const) {
  rootTest(
    `${type} without space to grow is staged with its data, and grown later`,
    async (context) => {
      if (type === 'ext4' && (await canGrowMounted(type))) {
        context.skip('the kernel grows ext4 here, and tells of a full pool later');
        return;
      }
      const volume = await used(type);
      const staging = node.stagingPath(volume.volumeId);
      await node.enlarge(volume, LARGER);
      await whilePoolIsFull(async () => {
        node.notes.length = 0;
        await node.stage(volume, mountCapability(type));
        assert.ok(isTold());
        assert.equal(readFileSync(`${staging}/data`, 'utf8'), 'kept');
        assert.ok(bytesAt(staging) <= XFS_SIZE);
        await node.stage(volume, mountCapability(type));
        await assert.rejects(node.expand(volume), 'the failure is reported');
      });
      await node.unstage(volume);
      node.notes.length = 0;
      await node.stage(volume, mountCapability(type));
      assert.ok(!isTold());
      assert.ok(bytesAt(staging) > (LARGER * 8n) / 10n);
      await node.unstage(volume);
      assert.deepEqual(node.held(), NOTHING);
    },
  );

  rootTest(`${type} restored larger is not staged before it has been grown once`, async () => {
    const source = await used(type);
    const snapshotId = newSnapshotId(nodeKey('test-node'));
    await node.backend.createSnapshots([{ volumeId: source.volumeId, snapshotId }]);
    const origin = { sourceSnapshotId: snapshotId, pristine: false, awaitsGrowth: true };
    const copy = await node.makeVolume({ sizeBytes: LARGER, ...origin });
    const staging = node.stagingPath(copy.volumeId);
    await rejectsWith(stageWithoutRoom(copy, type), 'RESOURCE_EXHAUSTED');
    assert.deepEqual(node.held(), NOTHING);
    // As a kill between the mount and the growth leaves it.
    const { devicePath } = await node.backend.attach(copy.volumeId, { readOnly: false });
    await mount({
      source: devicePath,
      target: staging,
      fsType: type,
      options: ['rw', ...NOUUID[type]],
    });
    await node.stage(copy, mountCapability(type));
    assert.ok(bytesAt(staging) > (LARGER * 8n) / 10n);
    await node.unstage(copy);
    // From now on it is a volume like any other.
    await node.enlarge(copy, 2n * LARGER);
    await stageWithoutRoom(copy, type);
    assert.equal(readFileSync(`${staging}/data`, 'utf8'), 'kept');
    await node.unstage(copy);
    assert.deepEqual(node.held(), NOTHING);
  });
}

rootTest(
  'a repeated NodeStage of a volume in use does not fail because it cannot grow',
  async () => {
    const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
    await node.stage(volume, mountCapability('xfs'));
    for (const code of ['ENOSPC', 'EIO', 'EBUSY', 'EOPNOTSUPP', 'EPERM', 'ESTALE']) {
      const notes: object[] = [];
      const request = received('NodeStageVolume', {
        volume_id: volume.volumeId,
        staging_target_path: node.stagingPath(volume.volumeId),
        volume_capability: mountCapability('xfs'),
      });
      const service = createNodeService(refusing(code));
      await service.unary.NodeStageVolume?.(
        request,
        callContext({ note: (fields) => notes.push(fields) }),
      );
      assert.match(JSON.stringify(notes), /growthFailure.*as a stub says/);
    }
    await node.unstage(volume);
  },
);

rootTest('an ext4 that can only be grown unmounted is unmounted for it', async () => {
  const volume = await used('ext4');
  const directory = node.stagingPath(volume.volumeId);
  await node.enlarge(volume, LARGER);
  const attachment = await node.backend.attach(volume.volumeId, { readOnly: false });
  const source = attachment.devicePath;
  const mountIt = (): Promise<unknown> =>
    mount({ source, target: directory, fsType: 'ext4', options: ['rw'] });
  await mountIt();
  const context = callContext({ note: (fields) => node.notes.push(fields) });
  const capability = mountOf('ext4');
  assert.ok(capability.accessType === 'mount');
  const staging = { volume, attachment, capability, directory, context };
  const deps = refusing('EOPNOTSUPP');
  node.notes.length = 0;
  // In use elsewhere, and in use for a repeated call: left as it is.
  const elsewhere = node.stagingPath('elsewhere');
  await mount({ source, target: elsewhere, fsType: 'ext4', options: ['rw'] });
  await growStaged(deps, staging, 'ext4', mountIt);
  execFileSync('umount', [elsewhere]);
  await growStaged(deps, staging, 'ext4', null);
  assert.equal(node.notes.length, 2);
  assert.ok(bytesAt(directory) <= XFS_SIZE);
  await growStaged(deps, staging, 'ext4', mountIt);
  assert.equal(node.notes.length, 2);
  assert.ok(bytesAt(directory) > (LARGER * 8n) / 10n);
  assert.equal(readFileSync(`${directory}/data`, 'utf8'), 'kept');
  execFileSync('umount', [directory]);
  await node.backend.detach(volume.volumeId);
  assert.deepEqual(node.held(), NOTHING);
});
