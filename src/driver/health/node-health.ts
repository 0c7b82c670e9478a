/**
 * Volume and pool health as this node sees it: the health of the storage, and of the file systems and
 * devices where volumes are staged and published.
 *
 * The handlers take no locks, for the reason given in node/volume-stats.ts.
 */
import { parsePath, parseSecrets, requireAbsolutePath, requireString } from '../../base/csi/fields.js';
import { boundTo, type HandlerWith, type RpcName, type UnaryHandlers } from '../../base/csi/service.js';
import type { NativeRunner } from '../native/pool.js';
import { type VolumeView, viewForRelease } from '../usage/volume-view.js';
import { readyVolume } from '../volumes/ready-volume.js';
import { healthMessage } from './controller-health.js';
import { type HealthDependencies, PoolProbe, PROBE_AGE_MS } from './storage-observations.js';
import { observeUse } from './use-observations.js';
import {
  type HealthEntry,
  poolConditions,
  type StorageObservations,
  summary,
  type VolumeCondition,
  volumeConditions,
} from './volume-health.js';

/** What looking at a volume in use takes. */
type LookDependencies = HealthDependencies & { native: NativeRunner };

export interface NodeHealthDependencies extends LookDependencies {
  /** The names of the configured pools. */
  pools: readonly string[];
}

type Handler<R extends RpcName> = HandlerWith<NodeHealthDependencies, R>;

export function nodeHealthRpcs(deps: NodeHealthDependencies): UnaryHandlers<'Node'> {
  return boundTo<NodeHealthDependencies, 'Node'>(deps, {
    NodeGetVolumeHealth: getVolumeHealth,
    NodeGetStorageHealth: getStorageHealth,
  });
}

/** The health in one sentence, for CSI 1.12 and before. Answers share pool probes: orchestrators ask every minute. */
export function nodeConditionOf(deps: LookDependencies): (view: VolumeView) => Promise<VolumeCondition> {
  const probe = new PoolProbe(deps, PROBE_AGE_MS);
  return async (view) => summary(await conditionsOf(deps, probe, view));
}

const getVolumeHealth: Handler<'NodeGetVolumeHealth'> = async (deps, request) => {
  const volumeId = requireString(request.volume_id, 'volume_id');
  const paths = (['volume_publish_path', 'staging_target_path'] as const).map(
    (field) => [field, parsePath(request[field], field)] as const,
  );
  const volume = await readyVolume(deps.catalogue, volumeId);
  for (const [field, path] of paths) if (path !== '') requireAbsolutePath(path, field);
  const view = await viewForRelease(deps, volume);
  const conditions = await conditionsOf(deps, new PoolProbe(deps), view);
  if (conditions.length > 0) await readyVolume(deps.catalogue, volumeId);
  return { volume_health: healthMessage(volumeId, conditions) };
};

/** The paths of a request change nothing: the node checks every place where the volume is staged or published. */
async function conditionsOf(deps: LookDependencies, probe: PoolProbe, view: VolumeView): Promise<HealthEntry[]> {
  return volumeConditions(await storageOf(probe, view), await observeUse(deps, view));
}

/** Does not probe a pool that could not be asked for the device, because a second failure may take long. */
async function storageOf(probe: PoolProbe, { volume, poolFailure }: VolumeView): Promise<StorageObservations> {
  if (poolFailure === null) return probe.volume(volume);
  const pool = { failure: poolFailure.message, capacity: null };
  return { sizeBytes: volume.sizeBytes, pool, pending: null, condition: null, copyFailure: null };
}

const getStorageHealth: Handler<'NodeGetStorageHealth'> = async (deps, request) => {
  parseSecrets(request.secrets);
  const probe = new PoolProbe(deps);
  const conditions = await Promise.all(deps.pools.map(async (name) => poolConditions(name, await probe.pool(name))));
  return { backend_health: conditions.flat() };
};
