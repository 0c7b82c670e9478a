/**
 * The read-only RPCs of the controller: volumes, snapshots, their lists, and capacity. Takes no locks:
 * each response reports the state at that moment.
 */

import {
  optionalString,
  parseMap,
  parseSecrets,
  parseVolumeCapabilities,
  requireString,
} from '../../base/csi/fields.js';
import { listResponse, pageScope, paginate, parsePage } from '../../base/csi/pagination.js';
import { isWithin, nodeSegment } from '../../base/csi/topology.js';
import { parseTopology } from '../../base/csi/topology-fields.js';
import { CsiError } from '../../base/errors.js';
import { probeAll } from '../health/storage-observations.js';
import { readyVolume } from '../volumes/ready-volume.js';
import { largestSize, smallestSize } from '../volumes/volume-rules.js';
import type { Handler } from './controller-dependencies.js';
import { snapshotMessage, statusMessage, volumeMessage } from './record-messages.js';
import { unservedReason } from './requests.js';

export const listVolumes: Handler<'ListVolumes'> = async (deps, request) => {
  const { catalogue } = deps;
  const pages = paginate(
    (after, limit) => catalogue.listVolumes({ after, limit }),
    (volume) => volume.volumeId,
    { ...parsePage(request), scope: pageScope('ListVolumes') },
  );
  return listResponse(pages, async (volumes) => {
    const ids = volumes.map(({ volumeId }) => volumeId);
    const publications = deps.config.controllerPublish ? await catalogue.listControllerPublications(ids) : [];
    // A few at a time, so that a long list does not delay the device work of other calls.
    return probeAll(volumes, async (volume) => ({
      volume: volumeMessage(deps, volume),
      status: await statusMessage(deps, volume, publications),
    }));
  });
};

export const getVolume: Handler<'ControllerGetVolume'> = async (deps, request) => {
  const volume = await readyVolume(deps.catalogue, requireString(request.volume_id, 'volume_id'));
  const publications = await deps.catalogue.controllerPublications(volume.volumeId);
  return {
    volume: volumeMessage(deps, volume),
    status: await statusMessage(deps, volume, publications),
  };
};

export const listSnapshots: Handler<'ListSnapshots'> = async (deps, request) => {
  const snapshotId = optionalString(request.snapshot_id, 'snapshot_id');
  const sourceVolumeId = optionalString(request.source_volume_id, 'source_volume_id');
  parseSecrets(request.secrets, 'secrets');
  const filter = { snapshotId, volumeId: sourceVolumeId };
  const pages = paginate(
    (after, limit) => deps.catalogue.listSnapshots({ after, limit }, filter),
    (snapshot) => snapshot.snapshotId,
    { ...parsePage(request), scope: pageScope('ListSnapshots', snapshotId, sourceVolumeId) },
  );
  return listResponse(pages, (snapshots) =>
    snapshots.map((snapshot) => ({ snapshot: snapshotMessage(snapshot, deps.config) })),
  );
};

export const getSnapshot: Handler<'GetSnapshot'> = async (deps, request) => {
  const snapshotId = requireString(request.snapshot_id, 'snapshot_id');
  parseSecrets(request.secrets, 'secrets');
  const snapshot = await deps.catalogue.snapshotById(snapshotId);
  if (snapshot === null || snapshot.state === 'creating') {
    throw CsiError.notFound(`snapshot ${snapshotId} does not exist on this node`);
  }
  return { snapshot: snapshotMessage(snapshot, deps.config) };
};

/**
 * Ignores parameters that have no use here: an orchestrator that gets an error knows no capacity and reports a
 * node without space. CreateVolume names a wrong parameter. A pool that this node does not have may be
 * another node's, so its capacity here is 0.
 */
export const getCapacity: Handler<'GetCapacity'> = async (deps, request) => {
  const requested = request.volume_capabilities;
  const capabilities = requested.length > 0 ? parseVolumeCapabilities(requested, 'volume_capabilities') : [];
  const { pool = '' } = parseMap(request.parameters, 'parameters');
  const place = parseTopology(request.accessible_topology, 'accessible_topology');
  const isElsewhere = !deps.registry.hasPool(pool) || (place !== null && !isWithin(nodeSegment(deps.config), place));
  if (isElsewhere || unservedReason(capabilities) !== null) {
    return { available_capacity: '0' };
  }
  const backend = deps.registry.select(pool);
  const capacity = await backend.capacity();
  return {
    available_capacity: String(capacity.availableBytes),
    maximum_volume_size: { value: String(largestSize(capacity)) },
    minimum_volume_size: { value: String(smallestSize(capabilities, capacity)) },
  };
};
