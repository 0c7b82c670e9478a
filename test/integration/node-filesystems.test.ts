/** File systems on volumes: the options they are made and mounted with, and how a btrfs is told from its copies. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, statfsSync, writeFileSync } from 'node:fs';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { uuidOf } from '../../src/domain/identifiers.js';
import { probe } from '../../src/host/filesystem.js';
import { rejectsWith } from '../support/expect-status.js';
import { test } from '../support/running-plugin.js';
import { blockCapability, mountCapability, NOTHING, useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('node-filesystems');

const stagingOf = ({ volumeId }: VolumeRecord): string => node.stagingPath(volumeId);
const tool = (...[name = '', ...args]: string[]): string =>
  execFileSync(name, args, { encoding: 'utf8' });

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
      const options = tool('grep', volume.volumeId, '/proc/self/mountinfo');
      assert.match(options, shown);
      assert.match(options, /nodev/);
      const device = await node.attachedPath(volume);
      const path = stagingOf(volume);
      if (type === 'ext4') assert.equal(Number(statfsSync(path).files), 5120);
      if (type === 'xfs') assert.match(tool('xfs_info', path), /isize=1024/);
      if (type === 'btrfs') {
        assert.match(tool('btrfs', 'inspect-internal', 'dump-super', device), /nodesize\s+4096/);
      }
      await node.unstage(volume);
    }
  }
  assert.deepEqual(node.held(), NOTHING);
});

test('copies of a btrfs and their source are mounted at once, each with its own data', async () => {
  const source = await node.staged(mountCapability('btrfs'), { sizeBytes: XFS_SIZE });
  writeFileSync(`${stagingOf(source)}/data`, 'cut', { flush: true });
  const sourceSnapshotId = await node.snapshot(source);
  await node.unstage(source);
  const copy = (pristine: boolean) =>
    node.makeVolume({ sizeBytes: XFS_SIZE, sourceSnapshotId, pristine });
  const volumes = [source, await copy(true), await copy(false)];
  const [, ...copies] = volumes;
  for (const [index, volume] of volumes.entries()) {
    await node.stage(volume, mountCapability(index === 1 ? '' : 'btrfs'));
    writeFileSync(`${stagingOf(volume)}/own`, volume.volumeId, { flush: true });
  }
  for (const volume of volumes) {
    assert.equal(readFileSync(`${stagingOf(volume)}/own`, 'utf8'), volume.volumeId);
    assert.equal(readFileSync(`${stagingOf(volume)}/data`, 'utf8'), 'cut');
  }
  for (const volume of copies) {
    const signature = await probe(await node.attachedPath(volume));
    assert.ok(signature.kind === 'filesystem' && signature.uuid === uuidOf(volume.volumeId));
  }
  for (const volume of volumes) await node.unstage(volume);
  for (const volume of volumes.reverse()) {
    await node.stage(volume, mountCapability('btrfs'));
    assert.equal(readFileSync(`${stagingOf(volume)}/own`, 'utf8'), volume.volumeId);
  }
  for (const volume of volumes) await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
});

test('a btrfs is identified by its device: bound, staged twice, already in use', async () => {
  const volume = await node.staged(mountCapability('btrfs'), { sizeBytes: XFS_SIZE });
  const second = { staging_target_path: node.stagingPath('btrfs-second') };
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
