/** Which node this catalogue serves, and which node keys its handles carry. */
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import { nodeKey } from '../domain/identifiers.js';

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

/** Call it once, before anything is served. */
export async function nodeIdentity(
  catalogue: Pick<AsyncCatalogue, 'nodeKeys'>,
  nodeId: string,
): Promise<NodeIdentity> {
  const key = nodeKey(nodeId);
  return { nodeId, key, keys: new Set([key, ...(await catalogue.nodeKeys())]) };
}
