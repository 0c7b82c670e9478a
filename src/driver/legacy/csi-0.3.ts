/** CSI v0.3 in terms of v1. docs/engineering/legacy.md has a row for each RPC. */
import { describeSegment, isWithin } from '../../base/csi/topology.js';
import { parseTopology } from '../../base/csi/topology-fields.js';
import { limitedText, NS_PER_SECOND } from '../csi/messages.js';
import { as, asList, asTypes, availableCapacity, present, type Translations, validated } from './translation.js';
import type { Edge, Message, V1Calls } from './v1-calls.js';

const CONTROLLER_TYPES = [
  'CREATE_DELETE_VOLUME',
  'PUBLISH_UNPUBLISH_VOLUME',
  'LIST_VOLUMES',
  'GET_CAPACITY',
  'CREATE_DELETE_SNAPSHOT',
  'LIST_SNAPSHOTS',
];
const NODE_TYPES = ['STAGE_UNSTAGE_VOLUME'];
/** The types of plugin services that v0.3 knows, by their names in v1. */
const SERVICE_TYPES = {
  CONTROLLER_SERVICE: 'CONTROLLER_SERVICE',
  VOLUME_ACCESSIBILITY_CONSTRAINTS: 'ACCESSIBILITY_CONSTRAINTS',
} as const;

export const edge: Edge = {
  packageName: 'csi.v0',
  names: {
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
  },
  conversions: {
    volume_content_source: (source: Message | null) => {
      const snapshot = source?.['snapshot'];
      return source === null || !snapshot ? source : { snapshot: { snapshot_id: snapshot.id } };
    },
  },
};

export const translations: Translations = {
  GetPluginInfo: as('GetPluginInfo'),
  GetPluginCapabilities: as('GetPluginCapabilities', ({ capabilities = [] }) => {
    const types = capabilities.map(({ service }: Message) => service?.type);
    const known = Object.entries(SERVICE_TYPES).filter(([type]) => types.includes(type));
    return { capabilities: known.map(([, type]) => ({ service: { type } })) };
  }),
  Probe: as('Probe'),
  CreateVolume: as('CreateVolume', volumeOf),
  DeleteVolume: as('DeleteVolume'),
  ControllerPublishVolume: as('ControllerPublishVolume', ({ publish_context }) => ({
    publish_info: publish_context ?? {},
  })),
  ControllerUnpublishVolume: as('ControllerUnpublishVolume'),
  ValidateVolumeCapabilities: async (request, v1) => {
    const answer = (await validated(request, v1)) as Message;
    if (!answer['supported']) return answer;
    const { volume_id, accessible_topology } = request;
    const problem = await placeProblem(volume_id, accessible_topology, v1);
    return problem === null ? answer : { supported: false, message: problem };
  },
  ListVolumes: asList('ListVolumes', volumeOf),
  GetCapacity: availableCapacity,
  ControllerGetCapabilities: asTypes('ControllerGetCapabilities', CONTROLLER_TYPES),
  CreateSnapshot: as('CreateSnapshot', snapshotOf),
  DeleteSnapshot: as('DeleteSnapshot'),
  ListSnapshots: asList('ListSnapshots', snapshotOf),
  NodeStageVolume: as('NodeStageVolume'),
  NodeUnstageVolume: as('NodeUnstageVolume'),
  NodePublishVolume: as('NodePublishVolume'),
  NodeUnpublishVolume: as('NodeUnpublishVolume'),
  NodeGetId: as('NodeGetInfo', ({ node_id = '' }) => ({ node_id })),
  NodeGetCapabilities: asTypes('NodeGetCapabilities', NODE_TYPES),
  NodeGetInfo: as('NodeGetInfo'),
};

/** v0.3 cannot express the content source of a volume's clone. */
function volumeOf(answer: Message): Message {
  const volume = present(answer['volume'], 'volume');
  const snapshotId = volume['content_source']?.snapshot?.snapshot_id;
  return {
    volume: {
      id: volume['volume_id'] ?? '',
      capacity_bytes: volume['capacity_bytes'] ?? '0',
      attributes: volume['volume_context'] ?? {},
      content_source: snapshotId === undefined ? null : { snapshot: { id: snapshotId } },
      accessible_topology: volume['accessible_topology'] ?? [],
    },
  };
}

function snapshotOf(answer: Message): Message {
  const snapshot = present(answer['snapshot'], 'snapshot');
  const { seconds = '0', nanos = 0 } = snapshot['creation_time'] ?? {};
  return {
    snapshot: {
      id: snapshot['snapshot_id'] ?? '',
      source_volume_id: snapshot['source_volume_id'] ?? '',
      size_bytes: snapshot['size_bytes'] ?? '0',
      created_at: `${BigInt(seconds) * NS_PER_SECOND + BigInt(nanos)}`,
      // Nothing is uploaded after the snapshot is taken.
      status: { type: 'READY' },
    },
  };
}

/** Why the volume is not usable in one of the places; null if it is usable in all. v1 has no such check. */
async function placeProblem(volumeId: string, places: readonly Message[], v1: V1Calls): Promise<string | null> {
  if (places.length === 0) return null;
  const asked = places.map((place, index) => parseTopology(place as never, `accessible_topology[${index}]`));
  const { volume } = await v1.call('ControllerGetVolume', { volume_id: volumeId });
  const own: Record<string, string>[] = (volume?.accessible_topology ?? []).map(
    ({ segments }: Message) => segments ?? {},
  );
  const elsewhere = asked.find((place) => place !== null && !own.some((segments) => isWithin(segments, place)));
  if (!elsewhere) return null;
  return limitedText(`the volume is usable in ${own.map(describeSegment).join('; ')} only`);
}
