/**
 * Decides which node a call goes to: the table of all RPCs, and the rule for handles. Pure. A test compares the
 * table with the proto, and docs/router.md shows it.
 */

import { type GivenHandle, handlesIn } from '../base/csi/handle-fields.js';
import { nodeKeyOf } from '../base/csi/handles.js';
import type { RpcName } from '../base/csi/service.js';
import { CsiError } from '../base/errors.js';

/**
 * - router: the router answers.
 * - handle: the node in the handles of the request.
 * - copied: as handle; with a copy on another node if its class says so (copies.ts).
 * - everywhere: as handle, and then all other nodes if that node does not know the object.
 * - placed: a node chosen by source and topology (create-volume.ts).
 * - capacity: the sum over the nodes of the topology.
 * - list: all nodes, one after the other, unless a handle names one.
 * - common: what all reachable nodes have in common.
 */
export type Route = 'router' | 'handle' | 'copied' | 'everywhere' | 'placed' | 'capacity' | 'list' | 'common';

/** Every RPC that the router serves: the RPCs of all services except Node. */
export const ROUTES = {
  GetPluginInfo: 'router',
  GetPluginCapabilities: 'common',
  Probe: 'router',
  CreateVolume: 'placed',
  DeleteVolume: 'handle',
  ControllerPublishVolume: 'handle',
  ControllerUnpublishVolume: 'handle',
  ValidateVolumeCapabilities: 'handle',
  ListVolumes: 'list',
  ControllerListVolumeHealth: 'list',
  ControllerGetVolumeHealth: 'handle',
  GetCapacity: 'capacity',
  ControllerGetCapabilities: 'common',
  CreateSnapshot: 'copied',
  DeleteSnapshot: 'everywhere',
  ListSnapshots: 'list',
  GetSnapshot: 'handle',
  ControllerExpandVolume: 'handle',
  ControllerGetVolume: 'handle',
  ControllerModifyVolume: 'handle',
  GroupControllerGetCapabilities: 'common',
  CreateVolumeGroupSnapshot: 'handle',
  DeleteVolumeGroupSnapshot: 'handle',
  GetVolumeGroupSnapshot: 'handle',
  GetMetadataAllocated: 'handle',
  GetMetadataDelta: 'handle',
} as const satisfies Partial<Record<RpcName, Route>>;

/** The node that a request is for: its key, and the handle that names it. */
export interface Owner {
  readonly key: string;
  readonly handle: string;
}

/**
 * The owner of all objects that the request names. Null if the request names none, or only strings that are not handles,
 * because every node answers such a request alike.
 *
 * @throws CsiError INVALID_ARGUMENT if the handles are of several nodes
 */
export function ownerIn(rpc: string, request: object): Owner | null {
  let first: (Owner & { readonly field: string }) | null = null;
  for (const { field, handle } of handlesIn(rpc, request)) {
    const key = nodeKeyOf(handle);
    if (key === null) continue;
    first ??= { field, handle, key };
    if (key !== first.key) throw spansNodes(rpc, first, { field, handle });
  }
  return first;
}

/** The key of the node that a field names by a handle. INVALID_ARGUMENT if it is no handle. */
export function requireKey(handle: string, field: string, kind: 'volume' | 'snapshot'): string {
  const key = nodeKeyOf(handle);
  if (key !== null) return key;
  throw CsiError.invalidArgument(`${field} is not the handle of a ${kind}`);
}

function spansNodes(rpc: string, first: GivenHandle, other: GivenHandle): CsiError {
  const what = rpc.includes('Group')
    ? 'a group lies on one node'
    : 'changes are computed between snapshots of one volume, which lies on one node';
  return CsiError.invalidArgument(
    `${first.field} ${first.handle} and ${other.field} ${other.handle} belong to different nodes: ${what}`,
  );
}
