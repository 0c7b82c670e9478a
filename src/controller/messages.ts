/** Records of the catalogue as the messages that tell of them, the same in every answer. */

import type { ControllerPublicationRecord, VolumeRecord } from '../catalogue/records.js';
import type { Volume } from '../csi/messages.js';
import type { ResponseOf } from '../csi/service.js';
import { nodeSegment } from '../domain/topology.js';
import type { ControllerDependencies } from './dependencies.js';

export function volumeMessage(
  { config }: Pick<ControllerDependencies, 'config'>,
  volume: VolumeRecord,
): Volume {
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
    ? publications
        .filter(({ volumeId }) => volumeId === volume.volumeId)
        .map(({ nodeId }) => nodeId)
    : [];
  const condition = await deps.conditionOf?.(volume);
  return {
    published_node_ids: nodeIds,
    ...(condition === undefined ? {} : { volume_condition: condition }),
  };
}
