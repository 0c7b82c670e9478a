/**
 * The nodes that the router serves, and where they listen. A source of nodes (file-discovery.ts, kubernetes-discovery.ts) gives
 * whole lists; the last list counts.
 */
import { parseHostPort, parseNodeId } from '../base/settings/values.js';

/** Returns milliseconds that never go back. Their origin does not matter. */
export type Clock = () => number;

export interface NodeEntry {
  readonly id: string;
  /** host:port; null if the node is known but its address is not. */
  readonly address: string | null;
  /** An operator has said that the node is gone, and that nothing of it is used any more. It is not called. */
  readonly retired?: boolean;
}

/** A source of lists. */
export interface NodeSource {
  /** The file or the selector, for messages. */
  readonly description: string;
  /** Since when, by the router's clock, the list in force is known to be complete and current; null if this is unknown. */
  readonly completeSince: number | null;
  /** Whether the list in force says which nodes are retired. */
  readonly knowsRetired: boolean;
  /**
   * Calls the listener for the first list and for each later one. Rejects with a StartError if there can
   * be no first list because of a mistake in the settings.
   */
  start(listener: (nodes: readonly NodeEntry[]) => void): Promise<void>;
  stop(): void;
}

const MAX_NODES = 10_000;

/** @throws Error with a message for the operator if the text is not a list of nodes */
export function parseNodeList(text: string): NodeEntry[] {
  const value: unknown = JSON.parse(text);
  const list = isObject(value) ? value['nodes'] : undefined;
  if (!Array.isArray(list)) throw new Error('it is not an object with a list "nodes"');
  if (list.length > MAX_NODES) throw new Error(`it lists more than ${MAX_NODES} nodes`);
  const nodes = list.map((entry: unknown, index) => parseEntry(entry, `nodes[${index}]`));
  assertDistinct(nodes);
  return nodes;
}

function parseEntry(entry: unknown, place: string): NodeEntry {
  if (!isObject(entry)) throw new Error(`${place} is not an object`);
  const { id, address, retired = false } = entry;
  if (typeof id !== 'string') throw new Error(`${place}.id is not a string`);
  if (typeof retired !== 'boolean') throw new Error(`${place}.retired is not true or false`);
  if (retired) return { id: parseNodeId(id), address: null, retired };
  if (typeof address !== 'string') throw new Error(`${place}.address is not a string`);
  const { port } = parseHostPort(`${place}.address`, address);
  if (port === 0) throw new Error(`${place}.address is '${address}', which has no port`);
  return { id: parseNodeId(id), address };
}

function assertDistinct(nodes: readonly NodeEntry[]): void {
  const ids = new Set<string>();
  for (const { id } of nodes) {
    if (ids.has(id)) throw new Error(`node '${id}' is listed twice`);
    ids.add(id);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
