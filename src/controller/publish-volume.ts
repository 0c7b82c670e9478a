/**
 * ControllerPublishVolume and ControllerUnpublishVolume, where they are switched on: which volume may
 * be used on this node, and how. Nothing has to be done for it in storage of the node itself, so a
 * publication is a record; NodePublishVolume keeps to it (volumes/controller-publications.ts).
 *
 * Both lock the volume. What is left of the node's maximum is looked at by one publication at a time.
 */
import { isDeepStrictEqual } from 'node:util';
import { CsiError } from '../base/errors.js';
import { SerialQueue } from '../base/serial-queue.js';
import type { ControllerPublicationRecord } from '../catalogue/records.js';
import {
  optionalString,
  parseBoolean,
  parseMap,
  parseSecrets,
  parseVolumeCapability,
  requireFields,
  requireString,
} from '../csi/fields.js';
import { isOrchestratorKey } from '../csi/orchestrator-keys.js';
import type { RequestOf, ResponseOf, UnaryHandler } from '../csi/service.js';
import { volumeKey } from '../volumes/operation-locks.js';
import type { ControllerDependencies } from './dependencies.js';
import { assertServed } from './served-capabilities.js';

/** CSI's own limit for this string. */
const MAX_NODE_ID_BYTES = 256;

/** ControllerPublishVolume, one for the life of the service. */
export function volumePublisher(
  deps: ControllerDependencies,
): UnaryHandler<'ControllerPublishVolume'> {
  const queue = new SerialQueue('controller publications');
  return async (request) => {
    requireFields(request, 'volume_id', 'node_id', 'volume_capability');
    const volumeId = requireString(request.volume_id, 'volume_id');
    const nodeId = requireString(request.node_id, 'node_id', { maxBytes: MAX_NODE_ID_BYTES });
    await deps.locks.run([volumeKey(volumeId)], async () => {
      await deps.volumes.find(volumeId);
      assertThisNode(deps, nodeId);
      const publication = parsePublication(request, volumeId, nodeId);
      await queue.run(() => publish(deps, publication));
    });
    return { publish_context: {} };
  };
}

export async function unpublishVolume(
  deps: ControllerDependencies,
  request: RequestOf<'ControllerUnpublishVolume'>,
): Promise<ResponseOf<'ControllerUnpublishVolume'>> {
  const volumeId = requireString(request.volume_id, 'volume_id');
  const nodeId = optionalString(request.node_id, 'node_id', { maxBytes: MAX_NODE_ID_BYTES });
  parseSecrets(request.secrets, 'secrets');
  await deps.locks.run([volumeKey(volumeId)], async () => {
    // A volume or a node that is not known has no record, and is unpublished for certain.
    for (const publication of await deps.catalogue.controllerPublications(volumeId)) {
      if (nodeId !== '' && publication.nodeId !== nodeId) continue;
      await deps.catalogue.removeControllerPublication(volumeId, publication.nodeId);
    }
  });
  return {};
}

function assertThisNode({ config }: ControllerDependencies, nodeId: string): void {
  if (nodeId === config.nodeId) return;
  throw CsiError.notFound(
    `node_id: node ${nodeId} is not known here; the volume can be published on ${config.nodeId} alone`,
  );
}

function parsePublication(
  request: RequestOf<'ControllerPublishVolume'>,
  volumeId: string,
  nodeId: string,
): ControllerPublicationRecord {
  parseSecrets(request.secrets, 'secrets');
  const context = parseMap(request.volume_context, 'volume_context');
  if (Object.keys(context).some((key) => !isOrchestratorKey(key))) {
    throw CsiError.invalidArgument(
      `volume_context is not the one volume ${volumeId} was created with`,
    );
  }
  const capability = parseVolumeCapability(request.volume_capability, 'volume_capability');
  assertServed(capability, 'volume_capability');
  return { volumeId, nodeId, capability, readOnly: parseBoolean(request.readonly, 'readonly') };
}

async function publish(
  { catalogue, config }: ControllerDependencies,
  wanted: ControllerPublicationRecord,
): Promise<void> {
  const { volumeId, nodeId } = wanted;
  const existing = await catalogue.controllerPublications(volumeId);
  const here = existing.find((publication) => publication.nodeId === nodeId);
  if (here !== undefined) return assertSame(here, wanted);
  const [elsewhere] = existing;
  if (elsewhere !== undefined) {
    throw CsiError.failedPrecondition(
      `volume ${volumeId} is published on node ${elsewhere.nodeId}, and is for one node at a time; unpublish it there first`,
    );
  }
  const { maxVolumesPerNode } = config;
  const all = maxVolumesPerNode === 0 ? [] : await catalogue.listControllerPublications();
  const count = all.filter((publication) => publication.nodeId === nodeId).length;
  if (maxVolumesPerNode > 0 && count >= maxVolumesPerNode) {
    throw CsiError.resourceExhausted(
      `node ${nodeId} has ${count} volumes published and BLOCKDELTA_MAX_VOLUMES_PER_NODE is ` +
        `${maxVolumesPerNode}; unpublish one first`,
    );
  }
  await catalogue.putControllerPublication(wanted);
}

function assertSame(here: ControllerPublicationRecord, wanted: ControllerPublicationRecord): void {
  const other =
    here.readOnly !== wanted.readOnly
      ? 'readonly'
      : isDeepStrictEqual(here.capability, wanted.capability)
        ? null
        : 'volume_capability';
  if (other === null) return;
  throw CsiError.alreadyExists(
    `volume ${wanted.volumeId} is published on node ${wanted.nodeId} with another ${other}; unpublish it first`,
  );
}
