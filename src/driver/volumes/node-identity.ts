/**
 * Which node this catalogue serves, and which node keys its handles carry.
 *
 * The node id is part of every handle and of every volume's topology, so a catalogue keeps the one it
 * began with. A start under another id would change the topology of all volumes without a word: it is
 * refused before any pool is touched. The usual cause is a host name used as node id that is a pod's.
 */

import { nodeKey } from '../../base/csi/handles.js';
import { CsiError } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';

export interface NodeIdentity {
  readonly nodeId: string;
  /** The key in new handles. */
  readonly key: string;
  /**
   * The keys of all handles that are this node's: its own, and those it has made under other node ids. A
   * handle with any other key belongs to another node.
   */
  readonly keys: ReadonlySet<string>;
}

export interface NodeIdentityDependencies {
  catalogue: Pick<AsyncCatalogue, 'nodeId' | 'adoptNodeId' | 'nodeKeys'>;
  /** Names the catalogue in the refusal. */
  stateDirectory: string;
  logger: Pick<Logger, 'warn'>;
}

/**
 * Call it once, before anything is served. FAILED_PRECONDITION if the catalogue belongs to another node.
 *
 * A catalogue without a recorded id is new, or was written by a version that recorded none. That one gets
 * the present id even if its handles carry another key: the id they were made with cannot be computed
 * from the key, and may be the name of a pod that is gone.
 */
export async function settleNodeIdentity(
  { catalogue, stateDirectory, logger }: NodeIdentityDependencies,
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
  const key = nodeKey(nodeId);
  const others = (await catalogue.nodeKeys()).filter((each) => each !== key);
  if (recorded === null) {
    await catalogue.adoptNodeId(nodeId, others);
    if (others.length > 0) {
      logger.warn(
        { nodeId, key, otherKeys: others },
        'the catalogue has handles from other node ids; they are served as before, in the topology of this one',
      );
    }
  }
  return { nodeId, key, keys: new Set([key, ...others]) };
}
