/**
 * ControllerPublishVolume and ControllerUnpublishVolume, if they are enabled: which volume may be used on
 * this node, and how. Local storage needs no attachment, so a publication is only a record, which
 * NodePublishVolume enforces (isPublishedReadOnly).
 *
 * Both RPCs lock the volume. Only one publication at a time compares the number of volumes with the node's maximum.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  optionalString,
  parseBoolean,
  parseMap,
  parseSecrets,
  parseVolumeCapability,
  requireFields,
  requireString,
} from '../../base/csi/fields.js';
import type { RequestOf } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import type { ControllerPublicationRecord } from '../catalogue/records.js';
import { assertContextOf } from '../csi/orchestrator-keys.js';
import { SerialQueue } from '../serial-queue.js';
import { volumeKey } from '../volumes/operation-locks.js';
import { readyVolume } from '../volumes/ready-volume.js';
import type { ControllerDependencies, Handler } from './controller-dependencies.js';
import { assertServed } from './requests.js';

/** CSI's limit for node_id. */
const MAX_NODE_ID_BYTES = 256;

/** Makes the handler of ControllerPublishVolume. Call this once: the handler serializes the publications. */
export function volumePublisher(): Handler<'ControllerPublishVolume'> {
  const queue = new SerialQueue();
  return async (deps, request, context) => {
    requireFields(request, 'volume_id', 'node_id', 'volume_capability');
    const volumeId = requireString(request.volume_id, 'volume_id');
    const nodeId = requireString(request.node_id, 'node_id', { maxBytes: MAX_NODE_ID_BYTES });
    await deps.locks.run(
      [volumeKey(volumeId)],
      async () => {
        await readyVolume(deps.catalogue, volumeId);
        assertThisNode(deps, nodeId);
        const publication = parsePublication(request, volumeId, nodeId);
        await queue.run(() => publish(deps, publication));
      },
      context.signal,
    );
    return { publish_context: {} };
  };
}

export const unpublishVolume: Handler<'ControllerUnpublishVolume'> = async (deps, request, context) => {
  const volumeId = requireString(request.volume_id, 'volume_id');
  const nodeId = optionalString(request.node_id, 'node_id', { maxBytes: MAX_NODE_ID_BYTES });
  parseSecrets(request.secrets, 'secrets');
  await deps.locks.run(
    [volumeKey(volumeId)],
    async () => {
      // An unknown volume or node has no record, and so is not published.
      for (const publication of await deps.catalogue.controllerPublications(volumeId)) {
        if (nodeId !== '' && publication.nodeId !== nodeId) continue;
        await deps.catalogue.removeControllerPublication(volumeId, publication.nodeId);
      }
    },
    context.signal,
  );
  return {};
};

function assertThisNode({ config }: ControllerDependencies, nodeId: string): void {
  if (nodeId === config.nodeId) return;
  throw CsiError.notFound(
    `node_id: node ${nodeId} is not this node; the volume can be published on ${config.nodeId} only`,
  );
}

function parsePublication(
  request: RequestOf<'ControllerPublishVolume'>,
  volumeId: string,
  nodeId: string,
): ControllerPublicationRecord {
  parseSecrets(request.secrets, 'secrets');
  assertContextOf(volumeId, parseMap(request.volume_context, 'volume_context'));
  const capability = parseVolumeCapability(request.volume_capability, 'volume_capability');
  assertServed(capability, 'volume_capability');
  return { volumeId, nodeId, capability, readOnly: parseBoolean(request.readonly, 'readonly') };
}

async function publish(
  { catalogue, config }: ControllerDependencies,
  publication: ControllerPublicationRecord,
): Promise<void> {
  const { volumeId, nodeId } = publication;
  const [existing] = await catalogue.controllerPublications(volumeId);
  if (existing !== undefined) return assertSame(existing, publication);
  const { maxVolumesPerNode } = config;
  if (maxVolumesPerNode > 0) {
    const count = (await catalogue.listControllerPublications()).length;
    if (count >= maxVolumesPerNode) {
      throw CsiError.resourceExhausted(
        `node ${nodeId} has ${count} volumes published and BLOCKDELTA_MAX_VOLUMES_PER_NODE is ` +
          `${maxVolumesPerNode}; unpublish one first`,
      );
    }
  }
  await catalogue.putControllerPublication(publication);
}

function assertSame(here: ControllerPublicationRecord, requested: ControllerPublicationRecord): void {
  const other =
    here.readOnly !== requested.readOnly
      ? 'readonly'
      : isDeepStrictEqual(here.capability, requested.capability)
        ? null
        : 'volume_capability';
  if (other === null) return;
  throw CsiError.alreadyExists(
    `volume ${requested.volumeId} is published on node ${requested.nodeId} with a different ${other}; unpublish it first`,
  );
}
