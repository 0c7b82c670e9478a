/** A snapshot as CSI tells of it, the same wherever it is told: created, listed, asked for, or in a group. */

import type { SnapshotRecord } from '../catalogue/records.js';
import { type CapabilitySettings, pluginServices } from '../csi/capabilities.js';
import type { Snapshot, Timestamp } from '../csi/messages.js';
import { nodeSegment, type TopologyConfig } from '../domain/topology.js';

const NS_PER_SECOND = 1_000_000_000n;

export type SnapshotMessageConfig = TopologyConfig & CapabilitySettings;

export function snapshotMessage(snapshot: SnapshotRecord, config: SnapshotMessageConfig): Snapshot {
  const isPlaced = pluginServices(config).includes('SNAPSHOT_ACCESSIBILITY_CONSTRAINTS');
  return {
    snapshot_id: snapshot.snapshotId,
    source_volume_id: snapshot.volumeId,
    size_bytes: String(snapshot.sizeBytes),
    creation_time: timestampMessage(snapshot.creationTimeNs),
    // One whose deletion has not completed still takes its space, and nothing can be made of it.
    ready_to_use: snapshot.state === 'ready',
    group_snapshot_id: snapshot.groupSnapshotId ?? '',
    // Only what is advertised may be told: elsewhere a snapshot is taken to be usable everywhere.
    accessible_topology: isPlaced ? [{ segments: nodeSegment(config) }] : [],
  };
}

/** google.protobuf.Timestamp of ns since the epoch. */
export function timestampMessage(timeNs: bigint): Timestamp {
  return { seconds: String(timeNs / NS_PER_SECOND), nanos: Number(timeNs % NS_PER_SECOND) };
}
