/**
 * CSI Controller: volumes, snapshots, lists and capacity.
 *
 * Each handler parses, calls a manager or the catalogue, and turns records into messages. Locks are
 * taken by the managers (volumes/): create locks the name and the source, delete the id and the
 * name; lists, validation and capacity take none, because they answer with what is true when asked.
 */
import type { BackendRegistry } from '../backends/registry.js';
import {
  optionalString,
  parseMap,
  parseSecrets,
  parseVolumeCapabilities,
  requirePresent,
  requireString,
} from '../csi/fields.js';
import { isOrchestratorKey } from '../csi/orchestrator-keys.js';
import { pageScope, paginate } from '../csi/pagination.js';
import type { RequestMessage, ResponseMessage, Service } from '../csi/service.js';
import type { AsyncCatalogue, VolumeRecord } from '../volumes/records.js';
import type { SnapshotManager } from '../volumes/snapshot-manager.js';
import type { VolumeManager } from '../volumes/volume-manager.js';
import { assertSupported, smallestSize, unsupportedReason } from '../volumes/volume-rules.js';
import {
  parseCreateSnapshot,
  parseCreateVolume,
  parsePage,
  parseVolumeParameters,
  refuseTopology,
} from './controller-requests.js';
import { snapshotMessage } from './snapshot-message.js';

export interface ControllerDependencies {
  catalogue: AsyncCatalogue;
  registry: BackendRegistry;
  volumes: VolumeManager;
  snapshots: SnapshotManager;
}

/** What works today; nothing else may be advertised. */
const CAPABILITIES = [
  'CREATE_DELETE_VOLUME',
  'LIST_VOLUMES',
  'GET_CAPACITY',
  'CREATE_DELETE_SNAPSHOT',
  'LIST_SNAPSHOTS',
] as const;

export function createControllerService(deps: ControllerDependencies): Service {
  return {
    name: 'Controller',
    unary: {
      CreateVolume: (request) => createVolume(deps, request),
      DeleteVolume: (request) => deleteVolume(deps, request),
      ValidateVolumeCapabilities: (request) => validateVolumeCapabilities(deps, request),
      ListVolumes: (request) => listVolumes(deps, request),
      GetCapacity: (request) => getCapacity(deps, request),
      ControllerGetCapabilities: async () => ({
        capabilities: CAPABILITIES.map((type) => ({ rpc: { type } })),
      }),
      CreateSnapshot: (request) => createSnapshot(deps, request),
      DeleteSnapshot: (request) => deleteSnapshot(deps, request),
      ListSnapshots: (request) => listSnapshots(deps, request),
    },
    streams: {},
  };
}

async function createVolume(
  deps: ControllerDependencies,
  request: RequestMessage,
): Promise<ResponseMessage> {
  const params = parseCreateVolume(request);
  assertSupported(params.capabilities, 'volume_capabilities');
  return { volume: volumeMessage(await deps.volumes.create(params)) };
}

async function deleteVolume(
  deps: ControllerDependencies,
  request: RequestMessage,
): Promise<ResponseMessage> {
  const volumeId = requireString(request['volume_id'], 'volume_id');
  parseSecrets(request['secrets'], 'secrets');
  await deps.volumes.delete(volumeId);
  return {};
}

async function validateVolumeCapabilities(
  deps: ControllerDependencies,
  request: RequestMessage,
): Promise<ResponseMessage> {
  requirePresent(request['volume_id'], 'volume_id');
  requirePresent(request['volume_capabilities'], 'volume_capabilities');
  const volume = await deps.volumes.find(requireString(request['volume_id'], 'volume_id'));
  parseSecrets(request['secrets'], 'secrets');
  const capabilities = parseVolumeCapabilities(
    request['volume_capabilities'],
    'volume_capabilities',
  );
  const context = parseMap(request['volume_context'], 'volume_context');
  parseMap(request['parameters'], 'parameters');
  const foreign = Object.keys(context).find((key) => !isOrchestratorKey(key));
  if (foreign !== undefined) {
    return notConfirmed(`volume_context['${foreign}'] is not of volume ${volume.volumeId}`);
  }
  const reason = capabilities.map(unsupportedReason).find((found) => found !== null);
  if (reason !== undefined) return notConfirmed(reason);
  return {
    confirmed: {
      volume_context: {},
      volume_capabilities: request['volume_capabilities'],
      parameters: {},
    },
  };
}

/** CSI's limit for strings holds for this message as well. */
const MAX_MESSAGE_BYTES = 128;

function notConfirmed(reason: string): ResponseMessage {
  const bytes = Buffer.from(reason).subarray(0, MAX_MESSAGE_BYTES);
  // As a stream, so that half a character at the end is held back.
  return { message: new TextDecoder().decode(bytes, { stream: true }) };
}

async function listVolumes(
  deps: ControllerDependencies,
  request: RequestMessage,
): Promise<ResponseMessage> {
  const page = paginate(await deps.catalogue.listVolumes(), (volume) => volume.volumeId, {
    ...parsePage(request),
    scope: pageScope('ListVolumes'),
  });
  return {
    entries: page.entries.map((volume) => ({ volume: volumeMessage(volume) })),
    next_token: page.nextToken,
  };
}

async function getCapacity(
  deps: ControllerDependencies,
  request: RequestMessage,
): Promise<ResponseMessage> {
  refuseTopology(request['accessible_topology'], 'accessible_topology');
  const parameters = parseVolumeParameters(request['parameters']);
  const backend = deps.registry.select(parameters['pool'] ?? '');
  const wanted = request['volume_capabilities'];
  const capabilities =
    Array.isArray(wanted) && wanted.length > 0
      ? parseVolumeCapabilities(wanted, 'volume_capabilities')
      : [];
  if (capabilities.some((capability) => unsupportedReason(capability) !== null)) {
    return { available_capacity: '0' };
  }
  const capacity = await backend.capacity();
  return {
    available_capacity: String(capacity.availableBytes),
    maximum_volume_size: { value: String(capacity.availableBytes) },
    minimum_volume_size: { value: String(smallestSize(capabilities, capacity)) },
  };
}

async function createSnapshot(
  deps: ControllerDependencies,
  request: RequestMessage,
): Promise<ResponseMessage> {
  return { snapshot: snapshotMessage(await deps.snapshots.create(parseCreateSnapshot(request))) };
}

async function deleteSnapshot(
  deps: ControllerDependencies,
  request: RequestMessage,
): Promise<ResponseMessage> {
  const snapshotId = requireString(request['snapshot_id'], 'snapshot_id');
  parseSecrets(request['secrets'], 'secrets');
  await deps.snapshots.delete(snapshotId);
  return {};
}

async function listSnapshots(
  deps: ControllerDependencies,
  request: RequestMessage,
): Promise<ResponseMessage> {
  const snapshotId = optionalString(request['snapshot_id'], 'snapshot_id');
  const sourceVolumeId = optionalString(request['source_volume_id'], 'source_volume_id');
  parseSecrets(request['secrets'], 'secrets');
  const snapshots = (await deps.catalogue.listSnapshots()).filter(
    (snapshot) =>
      (snapshotId === '' || snapshot.snapshotId === snapshotId) &&
      (sourceVolumeId === '' || snapshot.volumeId === sourceVolumeId),
  );
  const page = paginate(snapshots, (snapshot) => snapshot.snapshotId, {
    ...parsePage(request),
    scope: pageScope('ListSnapshots', snapshotId, sourceVolumeId),
  });
  return {
    entries: page.entries.map((snapshot) => ({ snapshot: snapshotMessage(snapshot) })),
    next_token: page.nextToken,
  };
}

function volumeMessage(volume: VolumeRecord): ResponseMessage {
  const source =
    volume.sourceSnapshotId === null
      ? null
      : { snapshot: { snapshot_id: volume.sourceSnapshotId } };
  return {
    volume_id: volume.volumeId,
    capacity_bytes: String(volume.sizeBytes),
    volume_context: {},
    content_source: source,
  };
}
