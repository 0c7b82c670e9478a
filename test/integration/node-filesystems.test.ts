import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, statfsSync, writeFileSync } from 'node:fs';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { newSnapshotId, nodeKey, uuidOf } from '../../src/domain/identifiers.js';
import { FILE_SYSTEMS, type FileSystem } from '../../src/host/file-systems.js';
import { probe } from '../../src/host/filesystem.js';
import { canGrowMounted } from '../../src/host/growth.js';
import { rejectsWith } from '../support/expect-status.js';
import { MIB } from '../support/records.js';
import { test as rootTest } from '../support/running-plugin.js';
import { blockCapability, mountCapability, NOTHING, useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('node-filesystems');

const READER = 'SINGLE_NODE_READER_ONLY';
const LARGER = 1024n * MIB;

const bytesAt = (path: string): bigint => {
  const { blocks, bsize } = statfsSync(path, { bigint: true });
  return blocks * bsize;
};
const superOptions = (volume: VolumeRecord): string =>
  execFileSync('grep', [volume.volumeId, '/proc/self/mountinfo'], { encoding: 'utf8' });

/** A file system with a file, its snapshot, and a larger volume restored from the snapshot. */
async function restoredLarger(
  type: FileSystem,
): Promise<{ restored: VolumeRecord; snapshotId: string }> {
  const source = await node.makeVolume({ sizeBytes: XFS_SIZE });
  await node.stage(source, mountCapability(type));
  writeFileSync(`${node.stagingPath(source.volumeId)}/data`, 'cut', { flush: true });
  const snapshotId = newSnapshotId(nodeKey('test-node'));
  await node.backend.createSnapshots([{ volumeId: source.volumeId, snapshotId }]);
  await node.unstage(source);
  const restored = await node.makeVolume({
    sizeBytes: LARGER,
    sourceSnapshotId: snapshotId,
    pristine: false,
  });
  return { restored, snapshotId };
}

for (const type of FILE_SYSTEMS) {
  rootTest(`NP10: ${type} restored larger is grown when it is staged, with its data`, async () => {
    const { restored } = await restoredLarger(type);
    for (let time = 0; time < 2; time += 1) {
      await node.stage(restored, mountCapability(type));
      await node.publish(restored, mountCapability(type));
      const target = node.targetPath(restored.volumeId);
      assert.ok(bytesAt(target) > (LARGER * 8n) / 10n, `${bytesAt(target)}`);
      assert.equal(readFileSync(`${target}/data`, 'utf8'), 'cut');
      await node.unpublish(restored);
      await node.unstage(restored);
    }
    assert.deepEqual(node.held(), NOTHING);
  });

  rootTest(
    `${type} staged read-only is grown then or when it is next staged for writing`,
    async () => {
      const { restored } = await restoredLarger(type);
      const staging = node.stagingPath(restored.volumeId);
      await node.stage(restored, mountCapability(type, READER));
      assert.equal(bytesAt(staging) > XFS_SIZE, type === 'ext4');
      assert.throws(() => writeFileSync(`${staging}/x`, ''), /EROFS/);
      await node.unstage(restored);
      await node.stage(restored, mountCapability(type));
      assert.ok(bytesAt(staging) > (LARGER * 8n) / 10n);
      await node.unstage(restored);
    },
  );

  rootTest(
    `${type} that a kill left staged but not grown is grown by the next NodeStage`,
    async () => {
      const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
      await node.stage(volume, mountCapability(type));
      const staging = node.stagingPath(volume.volumeId);
      await node.backend.expandVolume(volume.volumeId, LARGER);
      await node.stage(volume, mountCapability(type));
      assert.equal(bytesAt(staging) > XFS_SIZE, await canGrowMounted(type));
      await node.unstage(volume);
      await node.stage(volume, mountCapability(type));
      assert.ok(bytesAt(staging) > (LARGER * 8n) / 10n);
      await node.unstage(volume);
    },
  );
}

rootTest('NS9: the options of the StorageClass are those of mkfs and of every mount', async () => {
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
      assert.match(superOptions(volume), shown);
      assert.match(superOptions(volume), /nodev/);
      const device = await node.attachedPath(volume);
      const path = node.stagingPath(volume.volumeId);
      if (type === 'ext4') assert.equal(Number(statfsSync(path).files), 5120);
      if (type === 'xfs') {
        assert.match(execFileSync('xfs_info', [path], { encoding: 'utf8' }), /isize=1024/);
      }
      if (type === 'btrfs') {
        const text = execFileSync('btrfs', ['inspect-internal', 'dump-super', device], {
          encoding: 'utf8',
        });
        assert.match(text, /nodesize\s+4096/);
      }
      await node.unstage(volume);
    }
  }
  assert.deepEqual(node.held(), NOTHING);
});

rootTest(
  'two copies of a btrfs and their source are mounted at once, each with its own data',
  async () => {
    const { restored, snapshotId } = await restoredLarger('btrfs');
    const other = await node.makeVolume({ sizeBytes: XFS_SIZE, sourceSnapshotId: snapshotId });
    const snapshot = { sourceSnapshotId: snapshotId, sizeBytes: XFS_SIZE };
    const third = await node.makeVolume({ ...snapshot, pristine: false });
    const volumes = [restored, other, third];
    for (const [index, volume] of volumes.entries()) {
      await node.stage(volume, mountCapability(index === 1 ? '' : 'btrfs'));
      writeFileSync(`${node.stagingPath(volume.volumeId)}/own`, volume.volumeId, { flush: true });
    }
    for (const volume of volumes) {
      const staging = node.stagingPath(volume.volumeId);
      assert.equal(readFileSync(`${staging}/own`, 'utf8'), volume.volumeId);
      assert.equal(readFileSync(`${staging}/data`, 'utf8'), 'cut');
      const signature = await probe(await node.attachedPath(volume));
      assert.ok(signature.kind === 'filesystem' && signature.uuid === uuidOf(volume.volumeId));
    }
    for (const volume of volumes) await node.unstage(volume);
    for (const volume of volumes.reverse()) {
      await node.stage(volume, mountCapability('btrfs'));
      const own = `${node.stagingPath(volume.volumeId)}/own`;
      assert.equal(readFileSync(own, 'utf8'), volume.volumeId);
    }
    for (const volume of volumes) await node.unstage(volume);
    assert.deepEqual(node.held(), NOTHING);
  },
);

rootTest('a btrfs is identified by its device: bound, staged twice, already in use', async () => {
  const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
  const second = { staging_target_path: node.stagingPath('btrfs-second') };
  await node.stage(volume, mountCapability('btrfs'));
  await node.stage(volume, mountCapability('btrfs'), second);
  const raw = { staging_target_path: node.stagingPath('btrfs-raw') };
  await rejectsWith(node.stage(volume, blockCapability(), raw), 'FAILED_PRECONDITION', /in use/);
  await node.publish(volume, mountCapability('btrfs'), { readonly: true });
  const target = node.targetPath(volume.volumeId);
  assert.throws(() => writeFileSync(`${target}/x`, ''), /EROFS/);
  await rejectsWith(node.unstage(volume), 'FAILED_PRECONDITION', /still published/);
  await node.unpublish(volume);
  await node.unstage(volume);
  assert.equal(node.held().loops.length, 1);
  await node.unstage(volume, second);
  assert.deepEqual(node.held(), NOTHING);
});
