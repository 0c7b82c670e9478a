/**
 * CSI Node: makes volumes of this node usable for its workloads.
 *
 * Parses requests and takes locks; stage-volume, unstage-volume, publish-volume, unpublish-volume, expand-volume and
 * volume-stats do the work. Checks first that the fields are present, then that the objects exist, then values and state.
 *
 *   NodeStageVolume, NodeUnstageVolume      volume, staging path
 *   NodePublishVolume, NodeUnpublishVolume  volume, target path
 *   NodeExpandVolume                        volume
 *   the others                              none: they change nothing
 */

import { nodeCapabilities, rpcCapabilities } from '../../base/csi/capabilities.js';
import {
  parseBoolean,
  parseCapacityRange,
  parseMap,
  parsePath,
  parseSecrets,
  parseVolumeCapability,
  requireAbsolutePath,
  requireFields,
  requireString,
} from '../../base/csi/fields.js';
import { RESTORE_TOKEN } from '../../base/csi/restore-proto.js';
import {
  boundTo,
  type CallContext,
  type HandlerWith,
  type RequestOf,
  type RpcName,
  type Service,
} from '../../base/csi/service.js';
import { nodeSegment } from '../../base/csi/topology.js';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import type { VolumeRecord, VolumeUses } from '../catalogue/records.js';
import { assertContextOf, podUidOf } from '../csi/orchestrator-keys.js';
import { assertMountFlags } from '../host/file-system-options.js';
import { isFileSystem } from '../host/file-systems.js';
import { ofVolume } from '../native/pool.js';
import { isPublishedReadOnly } from '../usage/publications.js';
import { seeVolume } from '../usage/volume-view.js';
import { pathKey, volumeKey } from '../volumes/operation-locks.js';
import { ifReady, readyVolume, volumeNotFound } from '../volumes/ready-volume.js';
import { unsupportedReason, unusableReason } from '../volumes/volume-rules.js';
import { expandVolume } from './expand-volume.js';
import type { NodeDependencies } from './node-dependencies.js';
import {
  assertSeenByCaller,
  lookForUse,
  type PathField,
  placesOf,
  publicationPlace,
  type Recorded,
  stagingAt,
  stagingPlace,
  usablePath,
} from './paths.js';
import { publishVolume } from './publish-volume.js';
import { stageVolume } from './stage-volume.js';
import { releasePublication, unpublishUnknown } from './unpublish-volume.js';
import { unstageUnknown, unstageVolume } from './unstage-volume.js';
import { volumeStats } from './volume-stats.js';

type Handler<R extends RpcName> = HandlerWith<NodeDependencies, R>;

export function createNodeService(deps: NodeDependencies): Service<'Node'> {
  return {
    name: 'Node',
    unary: boundTo<NodeDependencies, 'Node'>(deps, {
      NodeStageVolume: stage,
      NodeUnstageVolume: unstage,
      NodePublishVolume: publish,
      NodeUnpublishVolume: unpublish,
      NodeGetVolumeStats: stats,
      NodeExpandVolume: expand,
      NodeGetCapabilities: async ({ config }) => ({
        capabilities: rpcCapabilities(nodeCapabilities(config)),
      }),
      NodeGetInfo: async ({ config }) => ({
        node_id: config.nodeId,
        max_volumes_per_node: String(config.maxVolumesPerNode),
        accessible_topology: { segments: nodeSegment(config) },
      }),
    }),
    streams: {},
  };
}

const stage: Handler<'NodeStageVolume'> = async (node, request, context) => {
  requireFields(request, 'volume_id', 'staging_target_path', 'volume_capability');
  const field = 'staging_target_path';
  return atPlace(node, request, field, context, async (deps, id, given) => {
    const uses = await deps.catalogue.volumeUses(id);
    const volume = ifReady(uses.volume, id);
    const path = requireAbsolutePath(given, field);
    const { publications, copied, restore } = uses;
    const record = stagingAt(uses, path);
    const { resolvedPath, seen } = await usablePlace(deps, volume, path, field, [record, ...publications]);
    const capability = parseServed(volume, request);
    const token = parseSecrets(request.secrets)[RESTORE_TOKEN] ?? null;
    const staged = { volumeId: id, stagingPath: path, resolvedPath, capability };
    const staging = { request: staged, seen, record, publications, copied, restore, token };
    await stageVolume(deps, volume, staging, context);
  });
};

const unstage: Handler<'NodeUnstageVolume'> = async (node, request, context) => {
  requireFields(request, 'volume_id', 'staging_target_path');
  const field = 'staging_target_path';
  return atPlace(node, request, field, context, async (deps, id, path) => {
    const uses = await deps.catalogue.volumeUses(id);
    const volume = known(uses);
    const place = await stagingPlace(deps, uses, pathToClear(volume, id, path, field));
    if (volume === null) await unstageUnknown(deps, id, place);
    else await unstageVolume(deps, volume, place, context);
  });
};

const publish: Handler<'NodePublishVolume'> = async (node, request, context) => {
  requireFields(request, 'volume_id', 'target_path', 'volume_capability');
  const field = 'target_path';
  return atPlace(node, request, field, context, async (deps, id, given) => {
    const uses = await deps.catalogue.volumeUses(id, given);
    const volume = ifReady(uses.volume, id);
    const path = requireAbsolutePath(given, field);
    const staged = parsePath(request.staging_target_path, 'staging_target_path');
    const stagingPath = staged === '' ? '' : requireAbsolutePath(staged, 'staging_target_path');
    const recordThere = uses.there;
    const known = [recordThere, stagingAt(uses, stagingPath), ...uses.publications];
    const { resolvedPath, seen } = await usablePlace(deps, volume, path, field, known);
    const asked = parseBoolean(request.readonly, 'readonly');
    const readOnly = asked || (deps.config.controllerPublish && (await isPublishedReadOnly(deps, id)));
    const capability = parseServed(volume, request);
    if (stagingPath === '') {
      throw CsiError.failedPrecondition(
        `staging_target_path is empty: volume ${id} must be staged before it is published`,
      );
    }
    const staging = await stagingPlace(deps, uses, stagingPath);
    const podUid = podUidOf(parseMap(request.volume_context, 'volume_context'));
    const use = { volumeId: id, stagingPath, capability, readOnly, podUid };
    const publication = { targetPath: path, resolvedPath, ...use };
    const keepsTarget = context.callerMakesTargets ?? false;
    await publishVolume(deps, volume, { request: publication, seen, recordThere, staging, keepsTarget });
  });
};

const unpublish: Handler<'NodeUnpublishVolume'> = async (node, request, context) => {
  requireFields(request, 'volume_id', 'target_path');
  const field = 'target_path';
  return atPlace(node, request, field, context, async (deps, id, path) => {
    const uses = await deps.catalogue.volumeUses(id);
    const volume = known(uses);
    const place = await publicationPlace(deps, uses, pathToClear(volume, id, path, field));
    const keepsTarget = context.callerMakesTargets ?? false;
    if (volume === null) await unpublishUnknown(deps, id, place, keepsTarget);
    else await releasePublication(deps, volume, place, keepsTarget);
  });
};

/**
 * The common part of the four calls that bring a volume to a path or away from it: locks both, and returns an empty answer.
 * Checks the path only as far as its lock requires. All work of the addon in the call counts for the volume.
 */
async function atPlace<Field extends PathField>(
  node: NodeDependencies,
  request: Readonly<Record<'volume_id' | Field, string>>,
  field: Field,
  { signal }: CallContext,
  work: (deps: NodeDependencies, volumeId: string, path: string) => Promise<void>,
): Promise<object> {
  const volumeId = requireString(request.volume_id, 'volume_id');
  const path = parsePath(request[field], field);
  const deps = { ...node, native: ofVolume(node.native, volumeId) };
  const keys = [volumeKey(volumeId), pathKey(path)];
  await node.locks.run(keys, () => work(deps, volumeId, path), signal);
  return {};
}

/** Where the path leads, and what is seen there. Throws if no volume may be used there. */
async function usablePlace(
  deps: NodeDependencies,
  volume: VolumeRecord,
  path: string,
  field: PathField,
  records: readonly (Recorded | null)[],
) {
  const known = placesOf(records.filter((record) => record !== null));
  const seen = await seeVolume(deps, volume, lookForUse(deps, [path, ...known]));
  const resolvedPath = usablePath(deps, seen.look, path, field);
  await assertSeenByCaller(deps, { path, field, resolved: resolvedPath }, seen.look.mounts);
  return { resolvedPath, seen };
}

const stats: Handler<'NodeGetVolumeStats'> = async (deps, request) => {
  requireFields(request, 'volume_id', 'volume_path');
  const volumeId = requireString(request.volume_id, 'volume_id');
  const path = parsePath(request.volume_path, 'volume_path');
  parsePath(request.staging_target_path, 'staging_target_path');
  return volumeStats(deps, await readyVolume(deps.catalogue, volumeId), path);
};

const expand: Handler<'NodeExpandVolume'> = async (deps, request, context) => {
  requireFields(request, 'volume_id', 'volume_path');
  const volumeId = requireString(request.volume_id, 'volume_id');
  const volumePath = parsePath(request.volume_path, 'volume_path');
  return deps.locks.run(
    [volumeKey(volumeId)],
    async () => {
      const volume = await readyVolume(deps.catalogue, volumeId);
      parseSecrets(request.secrets);
      parsePath(request.staging_target_path, 'staging_target_path');
      const range = parseCapacityRange(request.capacity_range, 'capacity_range');
      const capability = parseOptionalCapability(request.volume_capability);
      return expandVolume(deps, volume, { volumePath, range, capability }, context);
    },
    context.signal,
  );
};

function parseOptionalCapability(value: RequestOf<'NodeExpandVolume'>['volume_capability']): VolumeCapability | null {
  if (value === null) return null;
  const capability = parseVolumeCapability(value, 'volume_capability');
  const reason = unsupportedReason(capability);
  if (reason !== null) throw CsiError.invalidArgument(`volume_capability: ${reason}`);
  return capability;
}

/** The volume, in any state that may leave something to clean up; null if the id means nothing here. */
function known({ volume }: VolumeUses): VolumeRecord | null {
  return volume?.state === 'deleted' ? null : volume;
}

function pathToClear(volume: VolumeRecord | null, volumeId: string, path: string, field: string): string {
  // With neither a volume nor a path there is nothing that could be cleaned up.
  if (volume === null && !path.startsWith('/')) throw volumeNotFound(volumeId);
  return requireAbsolutePath(path, field);
}

/** The capability. FAILED_PRECONDITION if it is not supported. Also checks the other fields that stage and publish share. */
function parseServed(
  volume: VolumeRecord,
  request: RequestOf<'NodeStageVolume'> | RequestOf<'NodePublishVolume'>,
): VolumeCapability {
  parseSecrets(request.secrets);
  parseMap(request.publish_context, 'publish_context');
  assertContextOf(volume.volumeId, parseMap(request.volume_context, 'volume_context'));
  const capability = parseVolumeCapability(request.volume_capability, 'volume_capability');
  const reason = unsupportedReason(capability) ?? unusableReason(volume, capability);
  if (reason !== null) {
    throw CsiError.failedPrecondition(
      `volume ${volume.volumeId} cannot be used with this volume_capability: ${reason}`,
    );
  }
  if (capability.accessType === 'mount') {
    const type = isFileSystem(capability.fsType) ? capability.fsType : null;
    assertMountFlags(capability.mountFlags, 'volume_capability.mount.mount_flags', type);
  }
  return capability;
}
