/** btrfs volumes smaller than the kernel's minimum for growth, as older versions created them. */
import assert from 'node:assert/strict';
import { readFileSync, statfsSync, writeFileSync } from 'node:fs';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { newSnapshotId, nodeKey } from '../../src/domain/identifiers.js';
import { rejectsWith } from '../support/expect-status.js';
import { MIB } from '../support/records.js';
import { test as rootTest } from '../support/running-plugin.js';
import { mountCapability, useNode } from './node-fixture.js';

const node = useNode('small-btrfs');

const SMALL = 128n * MIB;
const BETWEEN = 200n * MIB;
const LEAST = 256n * MIB;
const BTRFS = mountCapability('btrfs');

const sizeAt = (volume: VolumeRecord): bigint => {
  const { blocks, bsize } = statfsSync(node.stagingPath(volume.volumeId), { bigint: true });
  return blocks * bsize;
};

rootTest(
  'H20: a btrfs volume of 128 MiB is served, and grows to 256 MiB or is refused clearly',
  async () => {
    const volume = await node.makeVolume({ sizeBytes: SMALL });
    await node.stage(volume, BTRFS);
    await node.expand(volume);
    await node.enlarge(volume, BETWEEN);
    const refusal = new RegExp(`${volume.volumeId}.*none to less than ${LEAST}.*ControllerExpand`);
    await rejectsWith(node.expand(volume), 'FAILED_PRECONDITION', refusal);
    await node.unstage(volume);
    await node.stage(volume, BTRFS);
    assert.equal(sizeAt(volume), SMALL);
    await node.enlarge(volume, LEAST);
    await node.expand(volume);
    assert.equal(sizeAt(volume), LEAST);
    await node.unstage(volume);
  },
);

rootTest(
  'H20: a larger copy that is still too small is refused, and is staged after an expansion',
  async () => {
    const source = await node.makeVolume({ sizeBytes: SMALL });
    await node.stage(source, BTRFS);
    writeFileSync(`${node.stagingPath(source.volumeId)}/data`, 'cut', { flush: true });
    const snapshotId = newSnapshotId(nodeKey('test-node'));
    await node.backend.createSnapshots([{ volumeId: source.volumeId, snapshotId }]);
    await node.unstage(source);
    const copy = await node.makeVolume({
      sizeBytes: BETWEEN,
      sourceSnapshotId: snapshotId,
      pristine: false,
      awaitsGrowth: true,
    });
    const refusal = new RegExp(`${copy.volumeId}.*none to less than ${LEAST}.*ControllerExpand`);
    await rejectsWith(node.stage(copy, BTRFS), 'FAILED_PRECONDITION', refusal);
    assert.deepEqual(node.held(), { mounts: [], loops: [] });
    await node.enlarge(copy, LEAST);
    await node.stage(copy, BTRFS);
    assert.equal(sizeAt(copy), LEAST);
    assert.equal(readFileSync(`${node.stagingPath(copy.volumeId)}/data`, 'utf8'), 'cut');
    await node.unstage(copy);
  },
);
