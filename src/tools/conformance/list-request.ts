/** Describes the lists to request from the driver. Knows no answers. */
import type { Snapshot } from './objects.js';

export interface ListRequest {
  readonly rpc: 'GetMetadataAllocated' | 'GetMetadataDelta';
  readonly ids: Readonly<Record<string, string>>;
}

export function allocatedOf(snapshot: Snapshot): ListRequest {
  return { rpc: 'GetMetadataAllocated', ids: { snapshot_id: snapshot.id } };
}

export function deltaOf(base: Snapshot, target: Snapshot): ListRequest {
  const ids = { base_snapshot_id: base.id, target_snapshot_id: target.id };
  return { rpc: 'GetMetadataDelta', ids };
}
