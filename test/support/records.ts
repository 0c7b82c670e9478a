/** Catalogue records with plausible fields, for tests that care about one or two of them. */

import { newSnapshotId, newVolumeId, nodeKey } from '../../src/base/csi/handles.js';
import type { VolumeCapability } from '../../src/base/csi/volume-capability.js';
import type { ReplicaRecord, SnapshotRecord, VolumeRecord } from '../../src/driver/catalogue/records.js';

export const TEST_NODE_KEY = nodeKey('test-node');
export const MIB = 1n << 20n;

export const BLOCK: VolumeCapability = { accessType: 'block', accessMode: 'SINGLE_NODE_WRITER' };

export function mountOf(fsType: string): VolumeCapability {
  return { accessType: 'mount', fsType, mountFlags: [], volumeMountGroup: '', accessMode: 'SINGLE_NODE_WRITER' };
}

export function volumeRecord(fields: Partial<VolumeRecord> = {}): VolumeRecord {
  const volumeId = newVolumeId(TEST_NODE_KEY);
  return {
    volumeId,
    name: `name of ${volumeId}`,
    pool: 'default',
    sizeBytes: 16n * MIB,
    state: 'ready',
    parameters: {},
    capabilities: [BLOCK],
    sourceSnapshotId: null,
    sourceVolumeId: null,
    createdMutableParameters: {},
    mutableParameters: {},
    pristine: true,
    awaitsGrowth: false,
    createdNs: 1_700_000_000_123_456_789n,
    ...fields,
  };
}

export function snapshotRecord(
  volume: VolumeRecord,
  fields: Partial<SnapshotRecord> = {},
): Omit<SnapshotRecord, 'sequence'> {
  const snapshotId = newSnapshotId(TEST_NODE_KEY);
  return {
    snapshotId,
    name: `name of ${snapshotId}`,
    groupSnapshotId: null,
    volumeId: volume.volumeId,
    pool: volume.pool,
    sizeBytes: volume.sizeBytes,
    state: 'ready',
    creationTimeNs: 1_700_000_000_987_654_321n,
    pristine: false,
    awaitsCopy: false,
    parameters: {},
    ...fields,
  };
}

/** A part of a replica, of which nothing is there yet. */
export function replicaRecord(
  { volumeId, pool, sizeBytes, capabilities }: VolumeRecord,
  fields: Partial<ReplicaRecord> = {},
): ReplicaRecord {
  return {
    snapshotId: newSnapshotId(TEST_NODE_KEY),
    volumeId,
    pool,
    sizeBytes,
    capabilities,
    sequence: 1n,
    creationTimeNs: 1n,
    pristine: true,
    fileSystem: 'xfs',
    catalogueUuid: 'c',
    poolUuid: 'p',
    baseId: null,
    cloneName: null,
    promiseId: null,
    nextOffset: 0n,
    askedNs: 2n,
    usedNs: 3n,
    ...fields,
  };
}
