/** Converts rows of the catalogue's tables to records. The tables are STRICT, so the types hold. */

import type { StringMap } from '../../base/csi/string-map.js';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';
import type { Row } from '../database/connection.js';
import type {
  ControllerPublicationRecord,
  CopiedVolume,
  CopyRecord,
  CopyState,
  GroupSnapshotRecord,
  PublicationRecord,
  ReplicaRecord,
  RestoreMark,
  RetainedBaseRecord,
  SnapshotRecord,
  SnapshotState,
  StagingRecord,
  SuccessionRecord,
  VolumeRecord,
  VolumeState,
} from './records.js';

const text = (row: Row, column: string): string => row[column] as string;
const integer = (row: Row, column: string): bigint => row[column] as bigint;
const optionalText = (row: Row, column: string): string | null => row[column] as string | null;
const json = <T>(row: Row, column: string): T => JSON.parse(text(row, column)) as T;

export function volumeRow(row: Row): VolumeRecord {
  return {
    volumeId: text(row, 'volume_id'),
    name: text(row, 'name'),
    pool: text(row, 'pool'),
    sizeBytes: integer(row, 'size_bytes'),
    state: text(row, 'state') as VolumeState,
    parameters: json<StringMap>(row, 'parameters'),
    createdMutableParameters: json<StringMap>(row, 'created_mutable_parameters'),
    mutableParameters: json<StringMap>(row, 'mutable_parameters'),
    capabilities: json<VolumeCapability[]>(row, 'capabilities'),
    sourceSnapshotId: optionalText(row, 'source_snapshot_id'),
    sourceVolumeId: optionalText(row, 'source_volume_id'),
    pristine: integer(row, 'pristine') === 1n,
    awaitsGrowth: integer(row, 'awaits_growth') === 1n,
    createdNs: integer(row, 'created_ns'),
  };
}

export function snapshotRow(row: Row): SnapshotRecord {
  return {
    snapshotId: text(row, 'snapshot_id'),
    name: optionalText(row, 'name'),
    groupSnapshotId: optionalText(row, 'group_snapshot_id'),
    volumeId: text(row, 'volume_id'),
    pool: text(row, 'pool'),
    sizeBytes: integer(row, 'size_bytes'),
    state: text(row, 'state') as SnapshotState,
    sequence: integer(row, 'sequence'),
    creationTimeNs: integer(row, 'creation_time_ns'),
    parameters: json<StringMap>(row, 'parameters'),
    pristine: integer(row, 'pristine') === 1n,
    awaitsCopy: integer(row, 'awaits_copy') === 1n,
  };
}

export function copyRow(row: Row): CopyRecord {
  return {
    promiseId: text(row, 'promise_id'),
    snapshotId: text(row, 'snapshot_id'),
    nodeId: text(row, 'node_id'),
    state: text(row, 'state') as CopyState,
  };
}

export function copiedVolumeRow(row: Row): CopiedVolume {
  return { supersededBy: optionalText(row, 'superseded_by'), isCordoned: integer(row, 'cordoned') === 1n };
}

export function successionRow(row: Row): SuccessionRecord {
  return {
    oldVolumeId: text(row, 'old_volume_id'),
    newVolumeId: text(row, 'new_volume_id'),
    isTold: integer(row, 'told') === 1n,
  };
}

export function restoreMarkRow(row: Row): RestoreMark {
  return {
    volumeId: text(row, 'volume_id'),
    token: text(row, 'token'),
    command: text(row, 'command'),
    snapshotName: text(row, 'snapshot_name'),
  };
}

export function staging(row: Row): StagingRecord {
  return {
    volumeId: text(row, 'volume_id'),
    stagingPath: text(row, 'staging_path'),
    resolvedPath: optionalText(row, 'resolved_path'),
    capability: json<VolumeCapability>(row, 'capability'),
  };
}

export function publicationRow(row: Row): PublicationRecord {
  return {
    targetPath: text(row, 'target_path'),
    resolvedPath: optionalText(row, 'resolved_path'),
    volumeId: text(row, 'volume_id'),
    stagingPath: text(row, 'staging_path'),
    capability: json<VolumeCapability>(row, 'capability'),
    readOnly: integer(row, 'read_only') === 1n,
    podUid: optionalText(row, 'pod_uid'),
  };
}

export function groupRow(row: Row): GroupSnapshotRecord {
  return {
    groupSnapshotId: text(row, 'group_snapshot_id'),
    name: text(row, 'name'),
    state: text(row, 'state') as SnapshotState,
    creationTimeNs: integer(row, 'creation_time_ns'),
    parameters: json<StringMap>(row, 'parameters'),
  };
}

export function retainedBaseRow(row: Row): RetainedBaseRecord {
  const reason = optionalText(row, 'invalid_reason');
  return {
    snapshotId: text(row, 'snapshot_id'),
    volumeId: text(row, 'volume_id'),
    pool: text(row, 'pool'),
    sequence: integer(row, 'sequence'),
    sizeBytes: integer(row, 'size_bytes'),
    creationTimeNs: integer(row, 'creation_time_ns'),
    deletedNs: integer(row, 'deleted_ns'),
    storedBytes: integer(row, 'stored_bytes'),
    invalidated: reason === null ? null : { reason, timeNs: integer(row, 'invalid_ns') },
    useful: integer(row, 'useful') === 1n,
  };
}

export function replicaRow(row: Row): ReplicaRecord {
  return {
    snapshotId: text(row, 'snapshot_id'),
    volumeId: text(row, 'volume_id'),
    pool: text(row, 'pool'),
    sizeBytes: integer(row, 'size_bytes'),
    sequence: integer(row, 'sequence'),
    creationTimeNs: integer(row, 'creation_time_ns'),
    pristine: integer(row, 'pristine') === 1n,
    fileSystem: optionalText(row, 'file_system'),
    capabilities: json<VolumeCapability[]>(row, 'capabilities'),
    catalogueUuid: text(row, 'catalogue_uuid'),
    poolUuid: text(row, 'pool_uuid'),
    baseId: optionalText(row, 'base_id'),
    cloneName: optionalText(row, 'clone_name'),
    promiseId: optionalText(row, 'promise_id'),
    nextOffset: row['next_offset'] as bigint | null,
    askedNs: integer(row, 'asked_ns'),
    usedNs: integer(row, 'used_ns'),
  };
}

export function controllerPublicationRow(row: Row): ControllerPublicationRecord {
  return {
    volumeId: text(row, 'volume_id'),
    nodeId: text(row, 'node_id'),
    capability: json<VolumeCapability>(row, 'capability'),
    readOnly: integer(row, 'read_only') === 1n,
  };
}
