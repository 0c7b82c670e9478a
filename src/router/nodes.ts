/** The nodes that the router serves, by the keys in their handles, each with its connection. */
import type { Logger } from 'pino';
import { nodeKey } from '../base/csi/handles.js';
import { CsiError } from '../base/errors.js';
import type { TlsFiles } from '../base/listening/tls-files.js';
import { NodeConnection } from './node-connection.js';
import type { NodeEntry } from './node-list.js';

export interface NodesOptions {
  readonly driverName: string;
  readonly tls: TlsFiles;
  readonly peerName: string;
  readonly logger: Logger;
  /** Where the list of nodes comes from, for messages. */
  readonly source: string;
}

export class Nodes {
  #byKey = new Map<string, NodeConnection>();
  #isListed = false;
  #hasAnswered = false;

  constructor(private readonly options: NodesOptions) {
    options.tls.onChange(() => {
      for (const node of this.#byKey.values()) node.renew();
    });
  }

  /** In the order of their keys, which lists are paged in. */
  get all(): readonly NodeConnection[] {
    return [...this.#byKey.values()];
  }

  /**
   * Whether a node has ever answered, or the list is known to be empty. Sidecars wait for it when they start,
   * because they ask for capabilities once. A node that goes away later changes nothing: a router that is
   * restarted because of it would cut the calls of all others.
   */
  get isReady(): boolean {
    this.#hasAnswered ||= this.all.some(({ hasAnswered }) => hasAnswered);
    return this.#isListed && (this.#hasAnswered || this.#byKey.size === 0);
  }

  /** Keeps the connections of nodes that have not moved. */
  update(entries: readonly NodeEntry[]): void {
    const { logger } = this.options;
    this.#hasAnswered ||= this.all.some(({ hasAnswered }) => hasAnswered);
    this.#isListed = true;
    const before = this.#byKey;
    const connections = entries.map((entry) => {
      const known = before.get(nodeKey(entry.id));
      if (known?.id === entry.id && known.address === entry.address) return known;
      return new NodeConnection({ ...this.options, entry });
    });
    connections.sort((a, b) => (a.key < b.key ? -1 : 1));
    this.#byKey = new Map(connections.map((node) => [node.key, node]));
    for (const node of before.values()) if (!connections.includes(node)) node.close();
    for (const node of connections) if (before.get(node.key) !== node) void node.connect();
    logger.info({ nodes: connections.map(({ id }) => id) }, 'the list of nodes has changed');
  }

  /** The node with this key, reachable or not. Throws UNAVAILABLE if it is not listed. */
  owning(key: string, handle: string): NodeConnection {
    const node = this.#byKey.get(key);
    if (node !== undefined) return node;
    throw CsiError.unavailable(
      `${handle} belongs to the node with the key ${key}, which is not in ${this.options.source}: ` +
        'list the node, or, if it was retired, remove what refers to its objects',
    );
  }

  /** A node for what every node answers alike, one that is connected if possible. */
  any(): NodeConnection {
    const { all } = this;
    const node = all.find(({ isConnected }) => isConnected) ?? all[0];
    if (node !== undefined) return node;
    throw CsiError.unavailable(`no node is in ${this.options.source}: list one`);
  }

  close(): void {
    for (const node of this.#byKey.values()) node.close();
    this.#byKey.clear();
  }
}
