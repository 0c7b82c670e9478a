/**
 * Volume health as the controller sees it: the health of the storage, which is the same from everywhere.
 *
 * node-health.ts covers what only the node can see (file systems, devices under published paths). The
 * handlers take no locks. If a handler finds a condition, it reads the volume's record again, so that a
 * volume that is just being deleted is not reported as lost.
 */

import { parseSecrets, requireString } from '../../base/csi/fields.js';
import { listResponse, pageScope, paginate, parsePage } from '../../base/csi/pagination.js';
import { boundTo, type HandlerWith, type RpcName, type UnaryHandlers } from '../../base/csi/service.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { VolumeHealth } from '../csi/messages.js';
import { readyVolume } from '../volumes/ready-volume.js';
import { type HealthDependencies, PoolProbe, PROBE_AGE_MS, probeAll } from './storage-observations.js';
import { type HealthEntry, summary, type VolumeCondition, volumeConditions } from './volume-health.js';

type Handler<R extends RpcName> = HandlerWith<HealthDependencies, R>;

export function controllerHealthRpcs(deps: HealthDependencies): UnaryHandlers<'Controller'> {
  return boundTo<HealthDependencies, 'Controller'>(deps, {
    ControllerGetVolumeHealth: getVolumeHealth,
    ControllerListVolumeHealth: listVolumeHealth,
  });
}

/** The health in one sentence, for CSI 1.12 and before. Answers share pool probes, because a list may be long. */
export function storageConditionOf(deps: HealthDependencies): (volume: VolumeRecord) => Promise<VolumeCondition> {
  const probe = new PoolProbe(deps, PROBE_AGE_MS);
  return async (volume) => {
    const conditions = volumeConditions(await probe.volume(volume), null);
    if (conditions.length === 0) return summary([]);
    const now = await deps.catalogue.volumeById(volume.volumeId);
    return summary(now?.state === 'ready' ? conditions : []);
  };
}

const getVolumeHealth: Handler<'ControllerGetVolumeHealth'> = async (deps, request) => {
  const volumeId = requireString(request.volume_id, 'volume_id');
  const volume = await readyVolume(deps.catalogue, volumeId);
  parseSecrets(request.secrets);
  const conditions = volumeConditions(await new PoolProbe(deps).volume(volume), null);
  if (conditions.length > 0) await readyVolume(deps.catalogue, volumeId);
  return { volume_health: healthMessage(volumeId, conditions) };
};

const listVolumeHealth: Handler<'ControllerListVolumeHealth'> = async (deps, request) => {
  const wanted = { ...parsePage(request), scope: pageScope('ControllerListVolumeHealth') };
  parseSecrets(request.secrets);
  const found = await adverse(deps);
  const pages = paginate(
    (after, limit) => found.filter(([volumeId]) => volumeId > after).slice(0, limit),
    ([volumeId]) => volumeId,
    wanted,
  );
  return listResponse(pages, (entries) => entries.map((entry) => healthMessage(...entry)));
};

/** The volumes with something wrong, in the order of their ids. */
async function adverse(deps: HealthDependencies): Promise<(readonly [volumeId: string, conditions: HealthEntry[]])[]> {
  const probe = new PoolProbe(deps);
  const volumes = await deps.catalogue.listVolumes();
  const probed = await probeAll(volumes, async (volume) => {
    const conditions = volumeConditions(await probe.volume(volume), null);
    return [volume.volumeId, conditions] as const;
  });
  const found = probed.filter(([, conditions]) => conditions.length > 0);
  if (found.length === 0) return [];
  const still = new Set((await deps.catalogue.listVolumes()).map(({ volumeId }) => volumeId));
  return found.filter(([volumeId]) => still.has(volumeId));
}

export function healthMessage(volumeId: string, conditions: readonly HealthEntry[]): VolumeHealth {
  return {
    volume_id: volumeId,
    health_statuses: conditions.map(({ status, reason, message }) => ({ status, reason, message })),
  };
}
