/** Volumes, snapshots and groups as the suite knows them, and the message fields that describe them. */
import type { Message } from '../client/connection.js';
import type { AccessType, StringMap } from './options.js';

export type { Message };

export interface Volume {
  readonly id: string;
  readonly access: AccessType;
  readonly capability: Message;
  sizeBytes: number;
  readonly context: StringMap;
  readonly stagingPath: string;
  readonly targetPath: string;
}

export interface Snapshot {
  readonly id: string;
  /** 0 if the driver does not report the size. */
  readonly sizeBytes: number;
  readonly sourceVolumeId: string;
  readonly groupId: string;
}

export interface Group {
  readonly id: string;
  readonly snapshots: readonly Snapshot[];
}

export interface VolumeSpec {
  readonly access: AccessType;
  readonly sizeBytes?: number;
  readonly snapshotId?: string;
  readonly volumeId?: string;
}

export function groupRequest(group: Group): Message {
  return { group_snapshot_id: group.id, snapshot_ids: group.snapshots.map(({ id }) => id) };
}

export function groupOf(group: Message): Group {
  return {
    id: String(group['group_snapshot_id']),
    snapshots: (group['snapshots'] as Message[]).map(snapshotOf),
  };
}

export function snapshotOf(snapshot: Message): Snapshot {
  return {
    id: String(snapshot['snapshot_id']),
    sizeBytes: Number(snapshot['size_bytes']),
    sourceVolumeId: String(snapshot['source_volume_id']),
    groupId: String(snapshot['group_snapshot_id'] ?? ''),
  };
}

export function capabilityOf(access: AccessType, fsType: string): Message {
  const mode = { access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  return access === 'block' ? { block: {}, ...mode } : { mount: { fs_type: fsType }, ...mode };
}

export function sourceOf({ snapshotId, volumeId }: VolumeSpec): Message {
  if (snapshotId !== undefined) {
    return { volume_content_source: { snapshot: { snapshot_id: snapshotId } } };
  }
  if (volumeId !== undefined) return { volume_content_source: { volume: { volume_id: volumeId } } };
  return {};
}
