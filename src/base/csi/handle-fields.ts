/**
 * The fields in which CSI requests carry handles of volumes, snapshots and group snapshots. A test compares the table with the
 * proto. Knows nothing of what a handle contains.
 */
import type { RpcName } from './service.js';

export interface GivenHandle {
  /** The field as messages name it: `source_volume_ids[1]`. */
  field: string;
  handle: string;
}

/** Paths of fields, by the names of the proto. A field may be repeated. */
export const HANDLE_FIELDS = {
  CreateVolume: ['volume_content_source.snapshot.snapshot_id', 'volume_content_source.volume.volume_id'],
  DeleteVolume: ['volume_id'],
  ControllerPublishVolume: ['volume_id'],
  ControllerUnpublishVolume: ['volume_id'],
  ValidateVolumeCapabilities: ['volume_id'],
  ControllerGetVolume: ['volume_id'],
  ControllerGetVolumeHealth: ['volume_id'],
  ControllerExpandVolume: ['volume_id'],
  ControllerModifyVolume: ['volume_id'],
  CreateSnapshot: ['source_volume_id'],
  DeleteSnapshot: ['snapshot_id'],
  GetSnapshot: ['snapshot_id'],
  ListSnapshots: ['source_volume_id', 'snapshot_id'],
  CreateVolumeGroupSnapshot: ['source_volume_ids'],
  DeleteVolumeGroupSnapshot: ['group_snapshot_id', 'snapshot_ids'],
  GetVolumeGroupSnapshot: ['group_snapshot_id', 'snapshot_ids'],
  GetMetadataAllocated: ['snapshot_id'],
  GetMetadataDelta: ['base_snapshot_id', 'target_snapshot_id'],
  NodeStageVolume: ['volume_id'],
  NodeUnstageVolume: ['volume_id'],
  NodePublishVolume: ['volume_id'],
  NodeUnpublishVolume: ['volume_id'],
  NodeGetVolumeStats: ['volume_id'],
  NodeGetVolumeHealth: ['volume_id'],
  NodeExpandVolume: ['volume_id'],
} as const satisfies Partial<Record<RpcName, readonly string[]>>;

/** The handles of a request, in the order of the table; empty ones and unset messages are left out. */
export function handlesIn(rpc: string, request: object): GivenHandle[] {
  const paths: readonly string[] = Object.hasOwn(HANDLE_FIELDS, rpc)
    ? HANDLE_FIELDS[rpc as keyof typeof HANDLE_FIELDS]
    : [];
  return paths.flatMap((path) => {
    const value = valueAt(request, path);
    if (Array.isArray(value)) {
      return value.flatMap((each, index) => given(`${path}[${index}]`, each));
    }
    return given(path, value);
  });
}

function given(field: string, value: unknown): GivenHandle[] {
  return typeof value === 'string' && value !== '' ? [{ field, handle: value }] : [];
}

function valueAt(request: object, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((message, field) => (message as Record<string, unknown> | null | undefined)?.[field], request);
}
