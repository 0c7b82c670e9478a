/** Turns rows of the catalogue's tables into records. The tables are strict, so types are trusted. */
import type { VolumeCapability } from '../csi/fields.js';
import type {
  PublicationRecord,
  SnapshotRecord,
  SnapshotState,
  StagingRecord,
  VolumeRecord,
  VolumeState,
} from './records.js';

export type Row = Readonly<Record<string, string | bigint | null>>;

const text = (row: Row, column: string): string => row[column] as string;
const integer = (row: Row, column: string): bigint => row[column] as bigint;
const json = <T>(row: Row, column: string): T => JSON.parse(text(row, column)) as T;

export function volumeRow(row: Row): VolumeRecord {
  return {
    volumeId: text(row, 'volume_id'),
    name: text(row, 'name'),
    pool: text(row, 'pool'),
    sizeBytes: integer(row, 'size_bytes'),
    state: text(row, 'state') as VolumeState,
    parameters: json<Record<string, string>>(row, 'parameters'),
    capabilities: json<VolumeCapability[]>(row, 'capabilities'),
    sourceSnapshotId: row['source_snapshot_id'] as string | null,
    fresh: integer(row, 'fresh') === 1n,
    createdNs: integer(row, 'created_ns'),
  };
}

export function snapshotRow(row: Row): SnapshotRecord {
  return {
    snapshotId: text(row, 'snapshot_id'),
    name: text(row, 'name'),
    volumeId: text(row, 'volume_id'),
    pool: text(row, 'pool'),
    sizeBytes: integer(row, 'size_bytes'),
    state: text(row, 'state') as SnapshotState,
    sequence: integer(row, 'sequence'),
    creationTimeNs: integer(row, 'creation_time_ns'),
    parameters: json<Record<string, string>>(row, 'parameters'),
    fresh: integer(row, 'fresh') === 1n,
  };
}

export const volume = (row: Row | undefined): VolumeRecord | null =>
  row === undefined ? null : volumeRow(row);

export const snapshot = (row: Row | undefined): SnapshotRecord | null =>
  row === undefined ? null : snapshotRow(row);

export function staging(row: Row): StagingRecord {
  return {
    volumeId: text(row, 'volume_id'),
    stagingPath: text(row, 'staging_path'),
    capability: json<VolumeCapability>(row, 'capability'),
  };
}

export function publicationRow(row: Row): PublicationRecord {
  return {
    targetPath: text(row, 'target_path'),
    volumeId: text(row, 'volume_id'),
    stagingPath: text(row, 'staging_path'),
    capability: json<VolumeCapability>(row, 'capability'),
    readOnly: integer(row, 'read_only') === 1n,
  };
}
