/**
 * Three nodes and two routers as they run on a world. Real are the catalogues, the copies of the node of the snapshots, the
 * keepers of the others, the routers and the messages; pools and pulls are in memory. What happens at each message and each
 * change of a node is the test's.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { newVolumeId, nodeKey } from '../../../../src/base/csi/handles.js';
import { type NodeRpc, type NodeRpcs, nodeMethod } from '../../../../src/base/csi/node-proto.js';
import { encodeMessage } from '../../../../src/base/csi/proto.js';
import { CsiError } from '../../../../src/base/errors.js';
import type { Backend } from '../../../../src/driver/backends/backend.js';
import type { BackendRegistry } from '../../../../src/driver/backends/registry.js';
import type { AsyncCatalogue } from '../../../../src/driver/catalogue/catalogue-client.js';
import type { CopyRecord, ListedCopy, ReplicaRecord } from '../../../../src/driver/catalogue/records.js';
import { CATALOGUE_STEPS } from '../../../../src/driver/catalogue/schema.js';
import { type Catalogue, catalogueCalls } from '../../../../src/driver/catalogue/sqlite-catalogue.js';
import { SqliteConnection } from '../../../../src/driver/database/connection.js';
import { type NodeSide, nodeRpcs } from '../../../../src/driver/plugin/node-rpcs.js';
import { Copies as CopiesOfNode } from '../../../../src/driver/replicas/copies.js';
import { findCopy } from '../../../../src/driver/replicas/known-copy.js';
import { ReplicaKeeper } from '../../../../src/driver/replicas/replica-keeper.js';
import { OperationLocks } from '../../../../src/driver/volumes/operation-locks.js';
import { newCopy } from '../../../../src/driver/volumes/snapshot-sets.js';
import { Copies } from '../../../../src/router/copies.js';
import type { NodeConnection } from '../../../../src/router/node-connection.js';
import { Recovery } from '../../../../src/router/recovery.js';
import { replicaRecord, snapshotRecord, volumeRecord } from '../../../support/records.js';
import {
  type Held,
  HOLDERS,
  type LateMessage,
  OWNER,
  promiseId,
  type Rows,
  snapshotId,
  TABLES,
  type World,
} from './world.js';

/** A point of a call: before a request, after its answer was made, or before a change of a node that keeps copies. */
export interface Point {
  readonly kind: 'request' | 'answer' | 'change';
  readonly name: string;
  /** The request. */
  readonly message?: LateMessage;
}

/** Resolves when the call goes on. Rejects if the message is lost, or the node killed; a router that is killed never goes on. */
export type Visit = (point: Point) => Promise<void>;

const quiet = { info: () => undefined, warn: () => undefined };
const NEVER = new AbortController().signal;
const AWAY_MS = 600_000;
const EIGHT_DAYS_MS = 8 * 24 * 3_600_000;
const VOLUME = volumeRecord({ volumeId: newVolumeId(nodeKey(OWNER)), pool: 'p' });

/** A real catalogue, which takes the rows of a world and gives them back. */
class RowsInSqlite {
  readonly calls: Catalogue;
  readonly #connection = SqliteConnection.inMemory();
  #loaded: Rows | null = null;

  constructor() {
    for (const step of CATALOGUE_STEPS) this.#connection.exec(step);
    this.calls = catalogueCalls(this.#connection);
    this.calls.registerPool('p', 'uuid');
    this.calls.insertVolume(VOLUME);
  }

  load(rows: Rows): void {
    if (this.#loaded === rows) return;
    for (const table of TABLES) {
      this.#connection.run(`DELETE FROM ${table}`);
      for (const row of rows[table]) {
        const columns = Object.keys(row);
        const places = columns.map(() => '?').join();
        this.#connection.run(`INSERT INTO ${table} (${columns.join()}) VALUES (${places})`, ...Object.values(row));
      }
    }
    this.#loaded = rows;
  }

  get rows(): Rows {
    this.#loaded ??= Object.fromEntries(
      TABLES.map((table) => [table, this.#connection.all(`SELECT * FROM ${table}`)]),
    ) as unknown as Rows;
    return this.#loaded;
  }

  /** As its client, with a gate before each change. */
  client(gate: (change: string) => Promise<void>): AsyncCatalogue {
    const call =
      (_: object, name: string) =>
      async (...args: unknown[]) => {
        const found = (this.calls as unknown as Record<string, Called>)[name] as Called;
        if (found.kind !== 'reads') {
          await gate(name);
          this.#loaded = null;
        }
        return found(...args);
      };
    return new Proxy({}, { get: call }) as AsyncCatalogue;
  }
}

type Called = ((...args: unknown[]) => unknown) & { kind: string };

/** One for each node, because connections are never collected. */
const catalogues = new Map([OWNER, ...HOLDERS].map((id) => [id, new RowsInSqlite()]));

type Handler = (request: object) => Promise<object>;

/** What serves the messages of each node: that of the cluster that runs. */
const sides = new Map<string, NodeSide>();

const handlers = new Map(
  [OWNER, ...HOLDERS].map((id) => {
    const served = nodeRpcs(() => sides.get(id) as NodeSide).map(({ name, handler }): [string, Handler] => {
      const handle = handler((async () => undefined) as never) as unknown as (
        request: object,
        context: object,
      ) => Promise<object>;
      return [name, (request) => handle(request, { ...call(), note: () => undefined })];
    });
    return [id, new Map(served)];
  }),
);

interface Router {
  readonly copies: Copies;
  readonly recovery: Recovery;
}

export class Cluster {
  readonly #routers: readonly Router[];
  readonly #nodes: readonly NodeConnection[];
  readonly #keepers = new Map<string, ReplicaKeeper>();
  /** Pulls that run, by their nodes: nobody ends a replica meanwhile. */
  readonly #pulling = new Set<string>();
  /** Nodes that were killed and have not started again. */
  readonly #down = new Set<string>();
  #laterMs = 0;
  #points = 0;

  constructor(
    readonly world: World,
    private readonly visit: Visit,
  ) {
    this.#load();
    sides.set(OWNER, this.#owner());
    for (const id of HOLDERS) sides.set(id, this.#holder(id));
    this.#nodes = [OWNER, ...HOLDERS].map((id) => connection(id, world));
    this.#routers = [this.#router(), this.#router()];
  }

  async dispose(): Promise<void> {
    for (const { copies } of this.#routers) await copies.stop();
  }

  /**
   * Resolves when everything has ended, or waits for a router that was killed. Nodes that were killed have started again.
   *
   * @param turns of the event loop in which nothing happens: what waits for this waits for more
   */
  async rest(turns = 3): Promise<void> {
    for (let left = turns; left > 0; left -= 1) {
      const before = this.#points;
      await turn();
      if (this.#points !== before) left = turns + 1;
    }
    for (const id of this.#down) await this.#settle(id);
    this.#down.clear();
  }

  /** The world with what the catalogues have now. */
  look(): World {
    for (const [id, node] of this.world.nodes) node.rows = this.#rowsOf(id).rows;
    return this.world;
  }

  /** Something happens that no node does. */
  change(change: (world: World) => unknown): void {
    change(this.look());
    this.#load();
  }

  #load(): void {
    for (const [id, { rows }] of this.world.nodes) this.#rowsOf(id).load(rows);
  }

  /** csi-snapshotter repeats the call with the name. */
  async take(router: number, name: string): Promise<void> {
    const context = { ...call(), encodedRequest: Buffer.from(name) };
    await this.#at(router).copies.createSnapshot(this.#ownerNode, VOLUME.volumeId, context as never);
  }

  /** As the service of the router does it. */
  async delete(router: number, id: string): Promise<void> {
    const { world } = this;
    world.deleted = new Set([...world.deleted, id]);
    const areAllThere = (): boolean => HOLDERS.every((holder) => world.node(holder).reach === 'connected');
    const told = (): World => Object.assign(world, { told: new Set([...world.told, id]) });
    const { catalogues: before } = world;
    const mayAllHear = areAllThere();
    const { copies } = this.#at(router);
    if (world.isRetired) {
      await copies.deleteReplicas(id);
      return;
    }
    const remove = async (): Promise<Buffer> => {
      await this.#point({ kind: 'request', name: 'DeleteSnapshot at a' });
      if (world.owner.reach !== 'connected') throw CsiError.unavailable('the owner is away');
      if (world.lacksRows) throw CsiError.failedPrecondition('rows are lost');
      const catalogue = this.#rowsOf(OWNER).client(async () => undefined);
      if ((await catalogue.snapshotById(id)) !== null) told();
      world.owner.snapshots = without(world.owner.snapshots, id);
      await catalogue.removeSnapshot(id, null);
      await this.#point({ kind: 'answer', name: 'DeleteSnapshot at a' });
      return Buffer.alloc(0);
    };
    await copies.deleteSnapshot(this.#ownerNode, id, call() as never, remove);
    if (mayAllHear && areAllThere() && world.catalogues === before) told();
  }

  async round(router: number): Promise<void> {
    await this.#at(router).copies.round();
  }

  holders(id: string): Promise<readonly NodeConnection[]> {
    return this.#at(0).recovery.holders(id, CsiError.notFound('no such snapshot'), call() as never);
  }

  async deliver(): Promise<void> {
    const { late } = this.world;
    this.world.late = null;
    if (late !== null) await this.#handle(late).catch(() => undefined);
  }

  /** Eight days later, when the pool has little space. */
  async keep(id: string): Promise<void> {
    const { isFull } = this.world.node(id);
    this.world.node(id).isFull = true;
    this.#laterMs = EIGHT_DAYS_MS;
    await this.#keepers.get(id)?.round();
    this.world.node(id).isFull = isFull;
  }

  /** A node that keeps copies starts with the rows of a day on which it had none. */
  async forget(id: string): Promise<void> {
    const catalogue = this.#rowsOf(id);
    catalogue.load({ ...catalogue.rows, replicas: [] });
    await this.#settle(id);
  }

  async #settle(id: string): Promise<void> {
    await this.#keepers.get(id)?.settle(this.#backend(id));
  }

  get #ownerNode(): NodeConnection {
    return this.#nodes[0] as NodeConnection;
  }

  #at(router: number): Router {
    return this.#routers[router] as Router;
  }

  #rowsOf(id: string): RowsInSqlite {
    return catalogues.get(id) as RowsInSqlite;
  }

  async #point(point: Point): Promise<void> {
    this.#points += 1;
    await this.visit(point);
  }

  /** Before each change of a node that keeps copies; a node that is killed there answers nobody. */
  async #gate(id: string, change: string): Promise<void> {
    try {
      await this.#point({ kind: 'change', name: `${change} of ${id}` });
    } catch (thrown) {
      this.#down.add(id);
      throw thrown;
    }
  }

  #owner(): NodeSide {
    const catalogue = this.#ownCatalogue();
    const { world } = this;
    const lacksRows = (): boolean => world.lacksRows;
    const check = async (id: string): Promise<void> => {
      if (!world.owner.snapshots.has(id)) throw CsiError.failedPrecondition('the pool does not hold it');
    };
    const registry = { owning: () => ({ snapshots: { check } }) } as never;
    return {
      copies: new CopiesOfNode({ catalogue, lacksRows }),
      clearance: { isGiven: async () => true },
      successions: { untold: async () => [] },
      findRoom: async () => ({ serves: true, pool: '', holds: false, roomBytes: 0n, newestSequence: 0n }),
      findCopy: (id: string) => findCopy({ catalogue, registry, lacksRows }, id),
      createCopiedSnapshot: ({ name }: { name: string }, nodeId: string | null) => this.#taken(catalogue, name, nodeId),
    } as never;
  }

  /** Promises get ids in the order in which they are chosen, and are listed in that order. */
  #ownCatalogue(): AsyncCatalogue {
    const real = this.#rowsOf(OWNER).client(async () => undefined);
    const own = {
      chooseCopy: (instead: string, copy: CopyRecord) => real.chooseCopy(instead, this.#numbered(copy)),
      insertSnapshot: (snapshot: never, copy: CopyRecord) => real.insertSnapshot(snapshot, this.#numbered(copy)),
      unsettledCopies: async () => (await real.unsettledCopies()).sort(byPromise),
    };
    return new Proxy(own, { get: (target, name) => Reflect.get(target, name) ?? Reflect.get(real, name) }) as never;
  }

  #numbered(copy: CopyRecord): CopyRecord {
    this.world.promises += 1;
    return { ...copy, promiseId: promiseId(this.world.promises) };
  }

  /** As the node's manager does it. */
  async #taken(catalogue: AsyncCatalogue, name: string, nodeId: string | null): Promise<object | null> {
    const { world } = this;
    if (world.lacksRows) throw CsiError.failedPrecondition('rows are lost');
    let row = await catalogue.snapshotByName(name);
    if (row === null && nodeId === null) return null;
    if (row === null) {
      const id = snapshotId(world.taken);
      world.taken += 1;
      world.owner.snapshots = new Set([...world.owner.snapshots, id]);
      const fresh = snapshotRecord(VOLUME, { snapshotId: id, name, state: 'creating', awaitsCopy: true });
      await catalogue.insertSnapshot(fresh, newCopy(id, String(nodeId)));
      row = await catalogue.commitSnapshot(id, 1n, VOLUME.sizeBytes);
    }
    return { snapshot: { snapshot_id: row.snapshotId, ready_to_use: !row.awaitsCopy } };
  }

  #backend(id: string): Backend {
    const node = this.world.node(id);
    const put = (snapshot: string, held: Held): void => {
      node.replicas = new Map([...node.replicas, [snapshot, held]]);
    };
    return {
      pool: 'p',
      capacity: async () => ({ totalBytes: 1n << 40n, freeBytes: node.isFull ? 0n : 1n << 40n }),
      replicas: {
        list: async () =>
          [...node.replicas].map(([snapshot, held]) => ({ snapshotId: snapshot, sizeBytes: 1n, ...held })),
        begin: async (snapshot: string) => put(snapshot, { isComplete: false, promiseId: null }),
        complete: async (snapshot: string) => {
          await this.#gate(id, 'completion');
          if (!node.replicas.has(snapshot)) throw CsiError.aborted('the pull was given up');
          put(snapshot, { promiseId: null, ...node.replicas.get(snapshot), isComplete: true });
        },
        promise: async (snapshot: string, promise: string) => {
          await this.#gate(id, 'promise');
          put(snapshot, { isComplete: true, promiseId: promise });
        },
        delete: async (snapshot: string) => {
          await this.#gate(id, 'removal');
          node.replicas = new Map([...node.replicas].filter(([each]) => each !== snapshot));
        },
      },
    } as unknown as Backend;
  }

  #holder(id: string): NodeSide {
    const catalogue = this.#rowsOf(id).client((change) => this.#gate(id, change));
    const backend = this.#backend(id);
    const node = this.world.node(id);
    const registry = { all: [backend], owning: () => backend } as unknown as BackendRegistry;
    const lacksRows = (): boolean => false;
    const keeper = new ReplicaKeeper({
      ...{ catalogue, registry, locks: new OperationLocks(), lacksRows, logger: quiet },
      pulls: { isRunning: (snapshot) => this.#pulling.has(`${id} ${snapshot}`) },
      transfers: { count: 0, endDeleted: async () => undefined },
      now: () => this.#laterMs,
    });
    this.#keepers.set(id, keeper);
    const roomBytes = (): bigint => (node.isFull ? 0n : id === HOLDERS[0] ? 2n : 1n);
    return {
      replicas: keeper,
      copies: { unsettled: async () => [] },
      clearance: { isGiven: async () => true },
      successions: { untold: async () => [] },
      findCopy: (snapshot: string) => findCopy({ catalogue, registry, lacksRows }, snapshot),
      findRoom: async () => ({ serves: false, pool: '', holds: true, roomBytes: roomBytes(), newestSequence: 0n }),
    } as never;
  }

  /** Whatever is there of the snapshot, all of it is there then. The bytes come while the owner is there and holds them. */
  async #pull(id: string, snapshot: string): Promise<void> {
    const { world } = this;
    const catalogue = this.#rowsOf(id).client((change) => this.#gate(id, change));
    const { replicas } = this.#backend(id);
    const held = world.node(id).replicas.get(snapshot);
    const row = (nextOffset: bigint | null): ReplicaRecord => ({
      ...replicaRecord(VOLUME, { snapshotId: snapshot, promiseId: held?.promiseId ?? null, nextOffset }),
      catalogueUuid: this.#rowsOf(OWNER).calls.uuid(),
    });
    if (held?.promiseId != null && (await catalogue.replicaById(snapshot)) === null)
      await catalogue.putReplica(row(null));
    if ((await catalogue.replicaById(snapshot))?.nextOffset === null) return;
    const own = await this.#ownCatalogue().snapshotById(snapshot);
    if (world.owner.reach !== 'connected') throw CsiError.unavailable('the owner is away');
    if (own?.state !== 'ready' || !world.owner.snapshots.has(snapshot)) throw CsiError.notFound('no such snapshot');
    if (world.node(id).isFull) throw CsiError.resourceExhausted(`node ${id} is full`);
    const pulling = `${id} ${snapshot}`;
    this.#pulling.add(pulling);
    try {
      if (held === undefined) {
        await catalogue.putReplica(row(0n));
        await replicas?.begin(snapshot, 1n, null);
      }
      await replicas?.complete(snapshot);
      await catalogue.advanceReplica(snapshot, null, 0n);
    } finally {
      this.#pulling.delete(pulling);
    }
  }

  /** A message at a node. */
  async #handle({ node, rpc, request }: LateMessage): Promise<object> {
    const handler = rpc === 'Pull' ? undefined : handlers.get(node)?.get(rpc);
    if (handler !== undefined) return handler(request);
    await this.#pull(node, (request as { snapshot_id: string }).snapshot_id);
    return {};
  }

  async #send(message: LateMessage): Promise<object> {
    const { node, rpc } = message;
    const name = `${rpc} at ${node}`;
    await this.#point({ kind: 'request', name, message });
    if (this.#down.has(node)) throw CsiError.unavailable(`node ${node} starts`);
    const answer = await this.#handle(message);
    await this.#point({ kind: 'answer', name });
    return answer;
  }

  #router(): Router {
    const { world } = this;
    const assertThere = ({ id, isConnected }: NodeConnection): void => {
      if (!isConnected) throw CsiError.unavailable(`node ${id} is away`);
    };
    const sources = {
      ask: async <R extends NodeRpc>(node: NodeConnection, rpc: R, request: NodeRpcs[R][0]): Promise<object> => {
        assertThere(node);
        const { requestSerialize, requestDeserialize, responseSerialize, responseDeserialize } = nodeMethod(rpc);
        const sent = requestDeserialize(
          requestSerialize(rpc === 'CreateCopiedSnapshot' ? named(request as never) : request),
        );
        return responseDeserialize(responseSerialize(await this.#send({ node: node.id, rpc, request: sent })));
      },
      pull: async (node: NodeConnection, id: string) => {
        assertThere(node);
        await this.#send({ node: node.id, rpc: 'Pull', request: { snapshot_id: id } });
      },
      closeTransfer: async () => undefined,
    } as never;
    const nodes = () => (world.isRetired ? this.#nodes.slice(1) : this.#nodes);
    const copies = new Copies({
      ...{ nodes, sources, logger: quiet as never, now: () => AWAY_MS, roundMs: 3_600_000 },
      successions: { clear: async () => undefined, tell: async () => undefined },
      patience: () => new Promise(() => undefined),
    });
    return { copies, recovery: new Recovery({ nodes, sources, isRetired: () => world.isRetired }) };
  }
}

function call() {
  return { deadline: Infinity, signal: NEVER };
}

const keys = new Map([OWNER, ...HOLDERS].map((id) => [id, nodeKey(id)]));

function connection(id: string, world: World): NodeConnection {
  const node = world.node(id);
  return {
    ...{ id, key: keys.get(id) },
    get isConnected() {
      return node.reach === 'connected';
    },
    get unreachableSince() {
      return { connected: null, away: AWAY_MS, 'away for long': 0 }[node.reach];
    },
  } as NodeConnection;
}

const byPromise = (one: ListedCopy, other: ListedCopy): number => (one.promiseId < other.promiseId ? -1 : 1);

const without = (ids: ReadonlySet<string>, id: string): Set<string> => new Set([...ids].filter((each) => each !== id));

/** The name of the snapshot as the whole request. */
const named = ({ request, ...rest }: { request?: Buffer }): never =>
  ({ ...rest, request: encodeMessage('CreateSnapshotRequest', { name: request?.toString() ?? '' }) }) as never;
