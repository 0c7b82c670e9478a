/**
 * Refuses requests for objects of other nodes. Every handle names its node by a key; a node that does not
 * know the object would otherwise take it for one that was deleted: DeleteSnapshot would succeed and leave
 * the snapshot where it is, and a delta would be "not found", which means a full backup.
 *
 * Comes before the handlers, for all services, and knows RPCs only by the table of base/csi/handle-fields.ts.
 */

import { type GivenHandle, handlesIn } from '../../base/csi/handle-fields.js';
import { nodeKeyOf } from '../../base/csi/handles.js';
import type { AnyService, AnyStreamHandler, AnyUnaryHandler } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import type { NodeIdentity } from '../volumes/node-identity.js';

/**
 * These release what is mounted on this node, and only what a record or a device proves to be the volume's.
 * Their answer is about this node whatever the handle says, and a node must always be able to release.
 */
const ALWAYS_SERVED: readonly string[] = ['NodeUnstageVolume', 'NodeUnpublishVolume'];

/** The service, with handlers that fail for handles of other nodes before they do anything. */
export function refusingForeignHandles(service: AnyService, identity: NodeIdentity): AnyService {
  const guard = (rpc: string, request: object): void => {
    const foreign = handlesIn(rpc, request).find(({ handle }) => isForeign(handle, identity));
    if (foreign !== undefined) throw refusal(rpc, foreign, identity);
  };
  const unary = mapHandlers<AnyUnaryHandler>(
    service.unary,
    (rpc, handler) => async (request, context) => {
      guard(rpc, request);
      return handler(request, context);
    },
  );
  const streams = mapHandlers<AnyStreamHandler>(
    service.streams,
    (rpc, handler) => async (request, context, writer) => {
      guard(rpc, request);
      return handler(request, context, writer);
    },
  );
  return { ...service, unary, streams } as AnyService;
}

function mapHandlers<Handler>(
  handlers: Readonly<Record<string, unknown>>,
  guarded: (rpc: string, handler: Handler) => Handler,
): Record<string, Handler> {
  return Object.fromEntries(
    Object.entries(handlers).map(([rpc, handler]) => [
      rpc,
      ALWAYS_SERVED.includes(rpc) ? (handler as Handler) : guarded(rpc, handler as Handler),
    ]),
  );
}

function isForeign(handle: string, { key }: NodeIdentity): boolean {
  const found = nodeKeyOf(handle);
  return found !== null && found !== key;
}

/**
 * For the source of a new volume RESOURCE_EXHAUSTED, CSI's code for what this topology cannot provide, on
 * which an orchestrator tries another node. Otherwise FAILED_PRECONDITION, on which callers try again later
 * and give nothing up. Never NOT_FOUND, and never OK.
 */
function refusal(
  rpc: string,
  { field, handle }: GivenHandle,
  { nodeId, key }: NodeIdentity,
): CsiError {
  const message =
    `${field}: ${handle} belongs to the node with the key ${nodeKeyOf(handle)}, and this is node ${nodeId} ` +
    `with the key ${key}; call the plugin of that node`;
  return rpc === 'CreateVolume'
    ? CsiError.resourceExhausted(message)
    : CsiError.failedPrecondition(message);
}
