/** The nodes that the router serves, by the keys in their handles, each with its connection. */
import type { Logger } from 'pino';
import { nodeKey } from '../base/csi/handles.js';
import { CsiError } from '../base/errors.js';
import type { TlsFiles } from '../base/listening/tls-files.js';
import { NodeConnection } from './node-connection.js';
import type { Clock, NodeEntry, NodeSource } from './node-list.js';

export interface NodesOptions {
  readonly driverName: string;
  readonly tls: TlsFiles;
  readonly peerName: string;
  readonly logger: Logger;
  readonly source: Pick<NodeSource, 'description' | 'completeSince' | 'knowsRetired'>;
  readonly now: Clock;
}

/** A node that complete lists have lacked for this time counts as missing. */
const MISSING_AFTER_MS = 3_600_000;

export class Nodes {
  #byKey = new Map<string, NodeConnection>();
  #retired: ReadonlySet<string> = new Set();
  /** When nodes were last listed with an address, by their keys. */
  readonly #lastListed = new Map<string, number>();
  /** Called whenever a node can be reached again. */
  onConnected: (key: string) => void = () => undefined;
  #isListed = false;
  #hasAnswered = false;

  constructor(private readonly options: NodesOptions) {
    options.tls.onChange(() => {
      for (const node of this.#byKey.values()) node.renew();
    });
  }

  /** The nodes in the order of their keys. Pages of lists have the same order. */
  get all(): readonly NodeConnection[] {
    return [...this.#byKey.values()];
  }

  /**
   * Whether a node has ever answered, or the list is known to be empty. Sidecars wait for readiness when they start, because
   * they ask for capabilities once. A node that goes away later does not end readiness: a restart of the router would abort
   * the calls to all other nodes.
   */
  get isReady(): boolean {
    this.#hasAnswered ||= this.all.some(({ hasAnswered }) => hasAnswered);
    return this.#isListed && (this.#hasAnswered || this.#byKey.size === 0);
  }

  /** Applies a new list. Keeps the connections of nodes that have not moved. */
  update(listed: readonly NodeEntry[]): void {
    const { logger } = this.options;
    const entries = listed.filter(({ retired }) => retired !== true);
    const retired = listed.filter((entry) => entry.retired === true).map(({ id }) => id);
    this.#retired = new Set(retired.map(nodeKey));
    const now = this.options.now();
    for (const { key, address } of this.all) if (address !== null) this.#lastListed.set(key, now);
    for (const [key, at] of this.#lastListed) {
      if (now - at >= MISSING_AFTER_MS) this.#lastListed.delete(key);
    }
    this.#hasAnswered ||= this.all.some(({ hasAnswered }) => hasAnswered);
    this.#isListed = true;
    const before = this.#byKey;
    const connections = entries.map((entry) => {
      const known = before.get(nodeKey(entry.id));
      if (known?.id === entry.id && known.address === entry.address) return known;
      return new NodeConnection({
        ...this.options,
        entry,
        onConnected: () => this.onConnected(nodeKey(entry.id)),
        unreachableSince: known?.id === entry.id ? known.unreachableSince : null,
      });
    });
    connections.sort((a, b) => (a.key < b.key ? -1 : 1));
    this.#byKey = new Map(connections.map((node) => [node.key, node]));
    for (const node of before.values()) if (!connections.includes(node)) node.close();
    for (const node of connections) if (before.get(node.key) !== node) void node.connect();
    logger.info({ nodes: connections.map(({ id }) => id), retired }, 'the list of nodes has changed');
  }

  /** Whether it is known which nodes are retired. */
  get knowsRetired(): boolean {
    return this.options.source.knowsRetired;
  }

  /** Whether the list says that the node with this key is gone. */
  isRetired(key: string): boolean {
    return this.#retired.has(key);
  }

  /** Whether complete lists have lacked the node with this key for an hour. */
  isMissing(key: string): boolean {
    const { now, source } = this.options;
    const listed = this.#lastListed.get(key) ?? -Infinity;
    const missing = now() - Math.max(source.completeSince ?? Infinity, listed);
    return !this.#byKey.has(key) && !this.isRetired(key) && missing >= MISSING_AFTER_MS;
  }

  /**
   * The node with this key, reachable or not. Throws UNAVAILABLE if the node is not listed, and FAILED_PRECONDITION if it is
   * missing or retired. A call that removes something of a node that is not retired is always UNAVAILABLE, because its caller
   * would give up and never repeat the call.
   */
  owning(key: string, handle: string, removes = false): NodeConnection {
    const node = this.#byKey.get(key);
    if (node !== undefined) return node;
    const { description } = this.options.source;
    if (this.isRetired(key)) {
      throw CsiError.failedPrecondition(
        `${handle} belongs to the node with the key ${key}, which ${description} says is retired: restore its copy, or remove ` +
          'what refers to it',
      );
    }
    const message =
      `${handle} belongs to the node with the key ${key}, which is not in ${description}: list the node, or, if it is gone, ` +
      'list it as retired';
    if (removes || !this.isMissing(key)) throw CsiError.unavailable(message);
    throw CsiError.failedPrecondition(message);
  }

  /** A node for a request that every node answers alike, if possible a connected node. UNAVAILABLE if there is no node. */
  any(): NodeConnection {
    const { all } = this;
    const node = all.find(({ isConnected }) => isConnected) ?? all[0];
    if (node !== undefined) return node;
    throw CsiError.unavailable(`no node is in ${this.options.source.description}: list one`);
  }

  close(): void {
    for (const node of this.#byKey.values()) node.close();
    this.#byKey.clear();
  }
}
