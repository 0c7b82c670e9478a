/**
 * Decides which node this catalogue serves.
 *
 * The node id is part of every handle and of every volume's topology, so a catalogue keeps the node id that it began with. A
 * start under another node id would silently change the topology of all volumes, so such a start is refused before any pool is
 * touched. The usual cause is that the node id comes from the host name, and that the host name is the name of a pod.
 */

import { nodeKey } from '../../base/csi/handles.js';
import { CsiError } from '../../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';

export interface NodeIdentity {
  readonly nodeId: string;
  /** The key in the node's handles. A handle with any other key belongs to another node. */
  readonly key: string;
}

export interface NodeIdentityDependencies {
  catalogue: Pick<AsyncCatalogue, 'nodeId' | 'adoptNodeId'>;
  /** Names the catalogue in the refusal. */
  stateDirectory: string;
}

/** Call this function once, before anything is served. FAILED_PRECONDITION if the catalogue belongs to another node. */
export async function claimNodeIdentity(
  { catalogue, stateDirectory }: NodeIdentityDependencies,
  nodeId: string,
): Promise<NodeIdentity> {
  const recorded = await catalogue.nodeId();
  if (recorded !== null && recorded !== nodeId) {
    throw CsiError.failedPrecondition(
      `the catalogue in ${stateDirectory} belongs to node '${recorded}', and this start has the node id ` +
        `'${nodeId}' (from BLOCKDELTA_NODE_ID, or the host name without it): set BLOCKDELTA_NODE_ID=${recorded}; ` +
        'to serve another node from this directory, retire this one first (docs/configuration.md, "Node identity")',
    );
  }
  if (recorded === null) await catalogue.adoptNodeId(nodeId);
  return { nodeId, key: nodeKey(nodeId) };
}
