/** Requests that may succeed: templates for hostile requests that pass the first checks. */
import { blockCapability, type Message, mountCapability } from './csi-client.js';
import type { Random } from './random.js';

/** The known objects. Grows while requests are answered. */
export interface FuzzWorld {
  volumeIds: string[];
  snapshotIds: string[];
  /** The volume each of them is of. */
  sources: Map<string, string>;
  /** Each with its members. */
  groups: { id: string; snapshotIds: string[] }[];
  /** Below the workspace: conforming ones, links, files, directories that hold something. */
  paths: readonly string[];
  /** Directories that are not empty, and so no volume may be published at. Not to stage in, which is conforming. */
  otherPaths: readonly string[];
  stagingPaths: readonly string[];
  targetPaths: readonly string[];
  pool: string;
}

export const NAMES = Array.from({ length: 24 }, (_, index) => `fuzz ${index}`);
const MIB = 1 << 20;

export function plausibleRequest(rpc: string, random: Random, world: FuzzWorld): Message {
  const volume_id = pickVolume(random, world);
  const snapshot_id = random.pick([...world.snapshotIds, 'snap-x']);
  const group = random.pick([...world.groups, { id: 'group-x', snapshotIds: ['snap-x'] }]);
  const volume_capability = rpc === 'CreateVolume' ? blockCapability() : usualCapability(volume_id);
  const seldom = (id: string): string => (random.below(6) === 0 ? id : NOBODY);
  const range = { required_bytes: 16 * MIB, limit_bytes: 16 * MIB };
  switch (rpc) {
    case 'CreateVolume':
      return {
        name: random.pick(NAMES),
        capacity_range: range,
        volume_capabilities: [volume_capability],
        volume_content_source: contentSource(random, world),
      };
    case 'DeleteVolume':
      return { volume_id: seldom(volume_id) };
    case 'ValidateVolumeCapabilities':
      return { volume_id, volume_capabilities: [volume_capability] };
    case 'ControllerPublishVolume':
      return { volume_id, node_id: 'test-node', volume_capability };
    case 'ControllerExpandVolume':
      return { volume_id, capacity_range: { required_bytes: (16 + random.below(3)) * MIB } };
    case 'ControllerModifyVolume':
      return { volume_id, mutable_parameters: { readAheadKiB: String(random.below(4096)) } };
    case 'CreateSnapshot':
      return { source_volume_id: volume_id, name: random.pick(NAMES) };
    case 'DeleteSnapshot':
      return { snapshot_id: seldom(snapshot_id) };
    case 'GetSnapshot':
    case 'GetMetadataAllocated':
      return { snapshot_id };
    case 'GetMetadataDelta':
      return snapshotPair(random, world);
    case 'CreateVolumeGroupSnapshot':
      return {
        name: random.pick(NAMES),
        source_volume_ids: [...new Set([volume_id, random.pick([...world.volumeIds, volume_id])])],
      };
    case 'GetVolumeGroupSnapshot':
    case 'DeleteVolumeGroupSnapshot':
      return { group_snapshot_id: group.id, snapshot_ids: group.snapshotIds };
    default:
      return nodeRequest(rpc, random, world, volume_id);
  }
}

function nodeRequest(rpc: string, random: Random, world: FuzzWorld, volume_id: string): Message {
  const staging_target_path = usual(world.stagingPaths, volume_id);
  const target_path = random.pick(world.targetPaths);
  const volume_capability = usualCapability(volume_id);
  const seldom = random.below(6) === 0 ? volume_id : NOBODY;
  switch (rpc) {
    case 'NodeStageVolume':
      return { volume_id, staging_target_path, volume_capability };
    case 'NodeUnstageVolume':
      return { volume_id: seldom, staging_target_path };
    case 'NodePublishVolume':
      return { volume_id, staging_target_path, target_path, volume_capability };
    case 'NodeUnpublishVolume':
      return { volume_id: seldom, target_path };
    case 'NodeGetVolumeStats':
    case 'NodeExpandVolume':
      return { volume_id, volume_path: random.pick([staging_target_path, target_path]) };
    default:
      return BY_ID_ALONE.includes(rpc) ? { volume_id } : {};
  }
}

/** For what undoes things: or there is soon nothing left to ask about. */
const NOBODY = 'none-exist-id';

/** The same one of them for an id each time, as an orchestrator would. */
function usual<T>(items: readonly T[], id: string): T {
  return items[id.charCodeAt(id.length - 1) % items.length] as T;
}

function usualCapability(volumeId: string): Message {
  return usual([...Array(7).fill(blockCapability()), mountCapability('ext4')], volumeId);
}

/** Few volumes make most of the requests, so that what needs several in a row comes about. */
function pickVolume(random: Random, world: FuzzWorld): string {
  const favourites = world.volumeIds.slice(0, 3);
  return random.pick(
    random.below(3) > 0 ? [...favourites, 'vol-x'] : [...world.volumeIds, 'vol-x'],
  );
}

/** Two snapshots of one volume in the order they were taken, if there are any. */
function snapshotPair(random: Random, { snapshotIds, sources }: FuzzWorld): Message {
  const pairs = snapshotIds.flatMap((base, index) =>
    snapshotIds
      .slice(index + 1)
      .filter((target) => sources.get(target) === sources.get(base))
      .map((target) => ({ base_snapshot_id: base, target_snapshot_id: target })),
  );
  return random.pick([...pairs, { base_snapshot_id: 'snap-x', target_snapshot_id: 'snap-y' }]);
}

const BY_ID_ALONE = [
  'ControllerUnpublishVolume',
  'ControllerGetVolume',
  'ControllerGetVolumeHealth',
  'NodeGetVolumeHealth',
];

function contentSource(random: Random, world: FuzzWorld): Message | null {
  if (random.below(4) > 0) return null;
  if (random.below(2) === 0)
    return { volume: { volume_id: random.pick([...world.volumeIds, '-']) } };
  return { snapshot: { snapshot_id: random.pick([...world.snapshotIds, '-']) } };
}
