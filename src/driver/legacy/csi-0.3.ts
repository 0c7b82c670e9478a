/** CSI v0.3 in terms of v1. docs/legacy.md has a row for each RPC. */

import type { Message, ResponseOf } from '../../base/csi/service.js';
import { describeSegment, isWithin } from '../../base/csi/topology.js';
import { parseTopology } from '../../base/csi/topology-fields.js';
import { CsiError } from '../../base/errors.js';
import { limitedText } from '../csi/messages.js';
import type { ControllerHandlers } from './generated/csi/v0/Controller.js';
import type { IdentityHandlers } from './generated/csi/v0/Identity.js';
import type { NodeHandlers } from './generated/csi/v0/Node.js';
import type { Snapshot } from './generated/csi/v0/Snapshot.js';
import type { Topology__Output } from './generated/csi/v0/Topology.js';
import type { Volume } from './generated/csi/v0/Volume.js';
import {
  capabilities,
  capability,
  knownTypes,
  mapResponse,
  type Translations,
} from './translation.js';
import type { FieldNames, V1Calls } from './v1-calls.js';

const CONTROLLER_TYPES = [
  'CREATE_DELETE_VOLUME',
  'PUBLISH_UNPUBLISH_VOLUME',
  'LIST_VOLUMES',
  'GET_CAPACITY',
  'CREATE_DELETE_SNAPSHOT',
  'LIST_SNAPSHOTS',
] as const;
const NODE_TYPES = ['STAGE_UNSTAGE_VOLUME'] as const;

export const identity: Translations<IdentityHandlers> = {
  GetPluginInfo: async (_request, v1) => v1.call('GetPluginInfo', {}),
  GetPluginCapabilities: async (_request, v1) => {
    const { capabilities: given = [] } = await v1.call('GetPluginCapabilities', {});
    const types = given.map(({ service }) => service?.type);
    return {
      capabilities: [
        ...(types.includes('CONTROLLER_SERVICE')
          ? [{ service: { type: 'CONTROLLER_SERVICE' as const } }]
          : []),
        ...(types.includes('VOLUME_ACCESSIBILITY_CONSTRAINTS')
          ? [{ service: { type: 'ACCESSIBILITY_CONSTRAINTS' as const } }]
          : []),
      ],
    };
  },
  Probe: async (_request, v1) => v1.call('Probe', {}),
};

export const controller: Translations<ControllerHandlers> = {
  CreateVolume: async (request, v1) => {
    const source = request.volume_content_source;
    const snapshot = source?.snapshot;
    const { volume } = await v1.call('CreateVolume', {
      name: request.name,
      capacity_range: request.capacity_range,
      volume_capabilities: capabilities(request.volume_capabilities, 'volume_capabilities'),
      parameters: request.parameters,
      secrets: request.controller_create_secrets,
      volume_content_source:
        source === null ? null : snapshot ? { snapshot: { snapshot_id: snapshot.id } } : {},
      accessibility_requirements: request.accessibility_requirements,
    });
    return { volume: volumeOf(volume) };
  },
  DeleteVolume: async (request, v1) =>
    v1.call('DeleteVolume', {
      volume_id: request.volume_id,
      secrets: request.controller_delete_secrets,
    }),
  ControllerPublishVolume: async (request, v1) => {
    const { publish_context } = await v1.call('ControllerPublishVolume', {
      volume_id: request.volume_id,
      node_id: request.node_id,
      volume_capability: capability(request.volume_capability, 'volume_capability'),
      readonly: request.readonly,
      secrets: request.controller_publish_secrets,
      volume_context: request.volume_attributes,
    });
    return { publish_info: publish_context ?? {} };
  },
  ControllerUnpublishVolume: async (request, v1) =>
    v1.call('ControllerUnpublishVolume', {
      volume_id: request.volume_id,
      node_id: request.node_id,
      secrets: request.controller_unpublish_secrets,
    }),
  ValidateVolumeCapabilities: async (request, v1) => {
    const { confirmed, message } = await v1.call('ValidateVolumeCapabilities', {
      volume_id: request.volume_id,
      volume_context: request.volume_attributes,
      volume_capabilities: capabilities(request.volume_capabilities, 'volume_capabilities'),
    });
    if (!confirmed) return { supported: false, message: message ?? '' };
    const problem = await placeProblem(request.volume_id, request.accessible_topology, v1);
    return problem === null ? { supported: true } : { supported: false, message: problem };
  },
  ListVolumes: async (request, v1) => {
    const { max_entries, starting_token } = request;
    const list = await v1.list('ListVolumes', { max_entries, starting_token });
    return mapResponse(list, ({ entries = [], next_token = '' }) => ({
      entries: entries.map(({ volume }) => ({ volume: volumeOf(volume) })),
      next_token,
    }));
  },
  GetCapacity: async (request, v1) => {
    const { available_capacity = '0' } = await v1.call('GetCapacity', {
      volume_capabilities: capabilities(request.volume_capabilities, 'volume_capabilities'),
      parameters: request.parameters,
      accessible_topology: request.accessible_topology,
    });
    return { available_capacity };
  },
  ControllerGetCapabilities: async (_request, v1) => {
    const { capabilities: given = [] } = await v1.call('ControllerGetCapabilities', {});
    const types = given.map(({ rpc }) => rpc?.type);
    return {
      capabilities: knownTypes(types, CONTROLLER_TYPES).map((type) => ({ rpc: { type } })),
    };
  },
  CreateSnapshot: async (request, v1) => {
    const { snapshot } = await v1.call('CreateSnapshot', {
      source_volume_id: request.source_volume_id,
      name: request.name,
      secrets: request.create_snapshot_secrets,
      parameters: request.parameters,
    });
    return { snapshot: snapshotOf(snapshot) };
  },
  DeleteSnapshot: async (request, v1) =>
    v1.call('DeleteSnapshot', {
      snapshot_id: request.snapshot_id,
      secrets: request.delete_snapshot_secrets,
    }),
  ListSnapshots: async (request, v1) => {
    const { max_entries, starting_token, source_volume_id, snapshot_id } = request;
    const fields = { max_entries, starting_token, source_volume_id, snapshot_id };
    const list = await v1.list('ListSnapshots', fields);
    return mapResponse(list, ({ entries = [], next_token = '' }) => ({
      entries: entries.map(({ snapshot }) => ({ snapshot: snapshotOf(snapshot) })),
      next_token,
    }));
  },
};

export const node: Translations<NodeHandlers> = {
  NodeStageVolume: async (request, v1) =>
    v1.call('NodeStageVolume', {
      volume_id: request.volume_id,
      publish_context: request.publish_info,
      staging_target_path: request.staging_target_path,
      volume_capability: capability(request.volume_capability, 'volume_capability'),
      secrets: request.node_stage_secrets,
      volume_context: request.volume_attributes,
    }),
  NodeUnstageVolume: async ({ volume_id, staging_target_path }, v1) =>
    v1.call('NodeUnstageVolume', { volume_id, staging_target_path }),
  NodePublishVolume: async (request, v1) =>
    v1.call('NodePublishVolume', {
      volume_id: request.volume_id,
      publish_context: request.publish_info,
      staging_target_path: request.staging_target_path,
      target_path: request.target_path,
      volume_capability: capability(request.volume_capability, 'volume_capability'),
      readonly: request.readonly,
      secrets: request.node_publish_secrets,
      volume_context: request.volume_attributes,
    }),
  NodeUnpublishVolume: async ({ volume_id, target_path }, v1) =>
    v1.call('NodeUnpublishVolume', { volume_id, target_path }),
  NodeGetId: async (_request, v1) => {
    const { node_id = '' } = await v1.call('NodeGetInfo', {});
    return { node_id };
  },
  NodeGetCapabilities: async (_request, v1) => {
    const { capabilities: given = [] } = await v1.call('NodeGetCapabilities', {});
    const types = given.map(({ rpc }) => rpc?.type);
    return { capabilities: knownTypes(types, NODE_TYPES).map((type) => ({ rpc: { type } })) };
  },
  NodeGetInfo: async (_request, v1) => v1.call('NodeGetInfo', {}),
};

export const fieldNames: FieldNames = {
  CreateVolume: {
    secrets: 'controller_create_secrets',
    'volume_content_source.snapshot.snapshot_id': 'volume_content_source.snapshot.id',
  },
  DeleteVolume: { secrets: 'controller_delete_secrets' },
  ControllerPublishVolume: {
    secrets: 'controller_publish_secrets',
    volume_context: 'volume_attributes',
  },
  ControllerUnpublishVolume: { secrets: 'controller_unpublish_secrets' },
  ValidateVolumeCapabilities: { volume_context: 'volume_attributes' },
  CreateSnapshot: { secrets: 'create_snapshot_secrets' },
  DeleteSnapshot: { secrets: 'delete_snapshot_secrets' },
  NodeStageVolume: {
    secrets: 'node_stage_secrets',
    volume_context: 'volume_attributes',
    publish_context: 'publish_info',
  },
  NodePublishVolume: {
    secrets: 'node_publish_secrets',
    volume_context: 'volume_attributes',
    publish_context: 'publish_info',
  },
};

type V1Volume = ResponseOf<'CreateVolume'>['volume'];
type V1Snapshot = ResponseOf<'CreateSnapshot'>['snapshot'];

/** The content source of a clone of a volume has no form in v0.3. */
function volumeOf(volume: V1Volume): Message<Volume> {
  if (!volume) throw CsiError.internal('the response has no volume');
  const snapshotId = volume.content_source?.snapshot?.snapshot_id;
  return {
    id: volume.volume_id ?? '',
    capacity_bytes: volume.capacity_bytes ?? '0',
    attributes: volume.volume_context ?? {},
    content_source: snapshotId === undefined ? null : { snapshot: { id: snapshotId } },
    accessible_topology: [...(volume.accessible_topology ?? [])],
  };
}

const NS_PER_SECOND = 1_000_000_000n;

function snapshotOf(snapshot: V1Snapshot): Message<Snapshot> {
  if (!snapshot) throw CsiError.internal('the response has no snapshot');
  const { seconds = '0', nanos = 0 } = snapshot.creation_time ?? {};
  return {
    id: snapshot.snapshot_id ?? '',
    source_volume_id: snapshot.source_volume_id ?? '',
    size_bytes: snapshot.size_bytes ?? '0',
    created_at: `${BigInt(seconds) * NS_PER_SECOND + BigInt(nanos)}`,
    // Nothing is uploaded after the cut.
    status: { type: 'READY' },
  };
}

/** Why the volume is not usable in one of the places; null if it is in all. v1 does not ask that. */
async function placeProblem(
  volumeId: string,
  places: readonly Topology__Output[],
  v1: V1Calls,
): Promise<string | null> {
  if (places.length === 0) return null;
  const asked = places.map((place, index) => parseTopology(place, `accessible_topology[${index}]`));
  const { volume } = await v1.call('ControllerGetVolume', { volume_id: volumeId });
  const own = (volume?.accessible_topology ?? []).map(({ segments }) => segments ?? {});
  const elsewhere = asked.find(
    (place) => place !== null && !own.some((segments) => isWithin(segments, place)),
  );
  if (!elsewhere) return null;
  return limitedText(`the volume is usable in ${own.map(describeSegment).join('; ')} only`);
}
