/** Converts records of the catalogue to CSI messages, the same way for every response. */

import { type CapabilitySettings, pluginServices } from '../../base/csi/capabilities.js';
import type { ResponseOf } from '../../base/csi/service.js';
import { nodeSegment, type TopologyConfig } from '../../base/csi/topology.js';
import type { ControllerPublicationRecord, SnapshotRecord, VolumeRecord } from '../catalogue/records.js';
import type { TransferSettings } from '../config/transfers.js';
import { NS_PER_SECOND, type Snapshot, type Timestamp, type Volume } from '../csi/messages.js';
import type { ControllerDependencies } from './controller-dependencies.js';

export function volumeMessage({ config }: Pick<ControllerDependencies, 'config'>, volume: VolumeRecord): Volume {
  return {
    volume_id: volume.volumeId,
    capacity_bytes: String(volume.sizeBytes),
    volume_context: {},
    content_source: contentSource(volume),
    accessible_topology: [{ segments: nodeSegment(config) }],
  };
}

function contentSource(volume: VolumeRecord): NonNullable<Volume['content_source']> | null {
  const { sourceSnapshotId, sourceVolumeId } = volume;
  if (sourceSnapshotId !== null) return { snapshot: { snapshot_id: sourceSnapshotId } };
  if (sourceVolumeId !== null) return { volume: { volume_id: sourceVolumeId } };
  return null;
}

type VolumeStatus = NonNullable<ResponseOf<'ControllerGetVolume'>['status']>;

/** VolumeStatus of ListVolumes and ControllerGetVolume. */
export async function statusMessage(
  deps: Pick<ControllerDependencies, 'config' | 'conditionOf'>,
  volume: VolumeRecord,
  publications: readonly ControllerPublicationRecord[],
): Promise<VolumeStatus> {
  const nodeIds = deps.config.controllerPublish
    ? publications.filter(({ volumeId }) => volumeId === volume.volumeId).map(({ nodeId }) => nodeId)
    : [];
  const condition = await deps.conditionOf?.(volume);
  return {
    published_node_ids: nodeIds,
    ...(condition === undefined ? {} : { volume_condition: condition }),
  };
}

export type SnapshotMessageConfig = TopologyConfig &
  CapabilitySettings & { transfers: Pick<TransferSettings, 'ports'> };

export function snapshotMessage(snapshot: SnapshotRecord, config: SnapshotMessageConfig): Snapshot {
  const canBeTold = pluginServices(config).includes('SNAPSHOT_ACCESSIBILITY_CONSTRAINTS');
  // All nodes can pull a snapshot that is served to them.
  const isPlaced = canBeTold && config.transfers.ports.length === 0;
  return {
    snapshot_id: snapshot.snapshotId,
    source_volume_id: snapshot.volumeId,
    size_bytes: String(snapshot.sizeBytes),
    creation_time: timestampMessage(snapshot.creationTimeNs),
    // A snapshot that is still being deleted cannot be restored or cloned.
    ready_to_use: snapshot.state === 'ready' && !snapshot.awaitsCopy,
    group_snapshot_id: snapshot.groupSnapshotId ?? '',
    // Callers take an empty list to mean that all nodes can use the snapshot.
    accessible_topology: isPlaced ? [{ segments: nodeSegment(config) }] : [],
  };
}

/** @param timeNs nanoseconds since the epoch */
export function timestampMessage(timeNs: bigint): Timestamp {
  return { seconds: String(timeNs / NS_PER_SECOND), nanos: Number(timeNs % NS_PER_SECOND) };
}
