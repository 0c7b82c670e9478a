/**
 * A small world for copies of snapshots: a node with one volume, two nodes that can keep copies, their catalogues and pools, as
 * plain data. What is true is kept apart from what the nodes say: what users have deleted, and which catalogue knows of it.
 */
import { nodeKey } from '../../../../src/base/csi/handles.js';
import type { NodeRpc } from '../../../../src/base/csi/node-proto.js';
import type { Row } from '../../../../src/driver/database/connection.js';

/** The node of the snapshots, and those that keep copies. The first of these has more room. */
export const OWNER = 'a';
export const HOLDERS = ['b', 'c'] as const;

export const TABLES = ['catalogue', 'snapshots', 'copies', 'replicas'] as const;
export type Rows = Readonly<Record<(typeof TABLES)[number], readonly Row[]>>;

/** Without hyphens, where no uuid of a snapshot is. */
const digits = (length: number, value: number): string => value.toString(16).padStart(length, '0');
const SNAPSHOT = `snap-${nodeKey(OWNER)}-00000000-0000-0000-0000-`;
export const snapshotId = (index: number): string => `${SNAPSHOT}${digits(12, index)}`;
/** Later ones are greater, as those that a node chooses. */
export const promiseId = (index: number): string => digits(32, index);
const catalogueUuid = (index: number): string => `catalogue ${index}`;

/** What a pool has of a snapshot of another node. */
export interface Held {
  readonly isComplete: boolean;
  readonly promiseId: string | null;
}

/** Values are never changed, so a copy of the maps is a copy of all. */
export class Node {
  rows: Rows = { catalogue: [], snapshots: [], copies: [], replicas: [] };
  reach: 'connected' | 'away' | 'away for long' = 'connected';
  isFull = false;
  /** Of the node's own snapshots. */
  snapshots: ReadonlySet<string> = new Set();
  replicas: ReadonlyMap<string, Held> = new Map();

  constructor(index: number) {
    this.exchange(index);
  }

  /** Another catalogue, and nothing in the pool. */
  exchange(index: number): void {
    this.rows = {
      catalogue: [{ uuid: catalogueUuid(index), node_id: null }],
      snapshots: [],
      copies: [],
      replicas: [],
    };
    this.snapshots = new Set();
    this.replicas = new Map();
  }

  copy(): Node {
    return Object.assign(Object.create(Node.prototype) as Node, this);
  }
}

/** A change that was asked of a node and that it makes later, whoever has asked. */
export interface LateMessage {
  readonly node: string;
  readonly rpc: NodeRpc | 'Pull';
  readonly request: object;
}

export class World {
  nodes: ReadonlyMap<string, Node> = new Map([OWNER, ...HOLDERS].map((id, index) => [id, new Node(index)]));
  /** The catalogue of the owner of an earlier day. */
  backup: Rows | null = null;
  isRetired = false;
  /** The owner's pool holds snapshots that its catalogue does not know, and nobody has accepted that. */
  lacksRows = false;
  late: LateMessage | null = null;
  /** The snapshots of an earlier catalogue of the owner; null if it was never reinstalled. */
  foreign: ReadonlySet<string> | null = null;
  /** How many snapshots were taken, and promises chosen. */
  taken = 0;
  promises = 0;
  /** How often the owner got another catalogue. */
  catalogues = 0;
  /** Of the users, whatever came of it. */
  deleted: ReadonlySet<string> = new Set();
  /** Those whose deletion the catalogue in use has recorded, or all other nodes have heard of since it is in use. */
  told: ReadonlySet<string> = new Set();
  /** Snapshots whose copy was on a disk that is lost. */
  destroyed: ReadonlySet<string> = new Set();
  /** Promises that only catalogues know that are not in use any more. */
  forgotten: ReadonlySet<string> = new Set();

  copy(): World {
    const nodes = new Map([...this.nodes].map(([id, node]) => [id, node.copy()]));
    return Object.assign(new World(), this, { nodes });
  }

  node(id: string): Node {
    const node = this.nodes.get(id);
    if (node === undefined) throw new Error(`there is no node ${id}`);
    return node;
  }

  get owner(): Node {
    return this.node(OWNER);
  }

  /** The ids of all snapshots that were ever taken. */
  get snapshotIds(): string[] {
    return Array.from({ length: this.taken }, (_, index) => snapshotId(index));
  }

  /** The nodes with a complete copy of the snapshot that is promised, each with its promise. */
  copiesOf(id: string): Map<string, string> {
    const found = new Map<string, string>();
    for (const holder of HOLDERS) {
      const { isComplete = false, promiseId: promise = null } = this.node(holder).replicas.get(id) ?? {};
      if (isComplete && promise !== null) found.set(holder, promise);
    }
    return found;
  }

  /** The owner's row of a snapshot. */
  rowOf(id: string): Row | undefined {
    return this.owner.rows.snapshots.find((row) => row['snapshot_id'] === id);
  }

  /** All that matters of the world: promises are told apart by their order. */
  digest(): string {
    const { nodes, backup, deleted, told, destroyed, forgotten, late, taken, isRetired, lacksRows, foreign } = this;
    const parts = [
      ...[...nodes.values()].map(({ rows, reach, isFull, snapshots, replicas }) => [
        ...[rowsText(rows), reach, isFull, [...snapshots].sort().join()],
        [...replicas].map(([id, { isComplete, promiseId: promise }]) => `${id} ${isComplete} ${promise}`).sort(),
      ]),
      backup && rowsText(backup),
      [deleted, told, destroyed, forgotten].map((ids) => [...ids].sort().join()).join(';'),
      ...[JSON.stringify(late), taken, isRetired, lacksRows, foreign && [...foreign].join()],
    ];
    const text = parts.join('|');
    const ranks = new Map([...new Set(text.match(PROMISE))].sort().map((promise, rank) => [promise, `p${rank}`]));
    return text.replace(PROMISE, (promise) => ranks.get(promise) ?? '');
  }
}

const PROMISE = /\b[0-9a-f]{32}\b/g;
const MATTER = ['uuid', 'snapshot_id', 'name', 'state', 'awaits_copy', 'promise_id', 'node_id', 'next_offset'];

const rowsText = (rows: Rows): string =>
  TABLES.map((table) => rows[table].map((row) => MATTER.map((field) => row[field]).join(' ')).sort()).join(';');
