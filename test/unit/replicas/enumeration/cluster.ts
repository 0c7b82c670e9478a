/**
 * Two nodes and a router as they run on a world: the real ones, with catalogues, pools and the wire between the nodes in memory.
 * What happens at each point of a call, a message or a change of the node that pulls, is the test's.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { nodeKey } from '../../../../src/base/csi/handles.js';
import { NODE_SERVICE, type NodeRpc, nodeMethod } from '../../../../src/base/csi/node-proto.js';
import type { CallContext } from '../../../../src/base/csi/service.js';
import { CsiError, StatusCode } from '../../../../src/base/errors.js';
import type { Backend } from '../../../../src/driver/backends/backend.js';
import { BackendRegistry } from '../../../../src/driver/backends/registry.js';
import type { AsyncCatalogue } from '../../../../src/driver/catalogue/catalogue-client.js';
import type { DescribedSnapshot } from '../../../../src/driver/catalogue/records.js';
import { type NodeSide, nodeRpcs } from '../../../../src/driver/plugin/node-rpcs.js';
import { OpenTransfers } from '../../../../src/driver/replicas/open-transfers.js';
import { Pulls } from '../../../../src/driver/replicas/pulls.js';
import { ReplicaKeeper } from '../../../../src/driver/replicas/replica-keeper.js';
import type { Ticket } from '../../../../src/driver/transfer/ticket.js';
import { OperationLocks, shared, snapshotKey } from '../../../../src/driver/volumes/operation-locks.js';
import { findSource } from '../../../../src/driver/volumes/volume-source.js';
import type { NodeCall, NodeConnection } from '../../../../src/router/node-connection.js';
import { RemoteSources } from '../../../../src/router/remote-sources.js';
import { BLOCK } from '../../../support/records.js';
import { MemoryWire, SourceRows, scanThreads, sizeOf, sourceBackend } from './memory-source.js';
import { MemoryCatalogue, MemoryReplicas } from './memory-target.js';
import { nameOf, type Session, SOURCE, type Source, TARGET, VOLUME_ID, type World } from './world.js';

/** A point of a call: before a request, after its answer was made, or before a change of the node that pulls. */
export interface Point {
  readonly kind: 'request' | 'answer' | 'change';
  readonly name: string;
}

/** Resolves when the call goes on. Rejects if the message is lost; a node that is killed never goes on. */
export type Visit = (point: Point) => Promise<void>;

/** How long ago all that is there seems to have been used, and whether the pool has little space. */
export interface Round {
  readonly laterMs: number;
  readonly isFull: boolean;
}

const quiet = { info: () => undefined, warn: () => undefined };
const never = (): AbortSignal => new AbortController().signal;
const GIB = 1n << 30n;
const LIMITS = { maxRanges: 2, maxBytes: 4096n };
const PORTS = [1, 2, 3, 4].map((port) => 10_900 + port);
/** More than a pull of three pieces that is met by two others. */
const MOST_POINTS = 300;

type Handlers = ReadonlyMap<string, (request: never) => Promise<object>>;

export class Cluster {
  /** What should never happen, whoever is told and goes on. */
  readonly offences: string[] = [];
  /** Rejects when a call goes on for ever. */
  readonly stuck: Promise<never>;
  readonly #pulls: Pulls;
  readonly #locks = new OperationLocks();
  readonly #catalogue: AsyncCatalogue;
  readonly #replicas: MemoryReplicas;
  readonly #wire = new MemoryWire();
  readonly #nodes: readonly NodeConnection[];
  /** Of the transfers that are open. */
  readonly #tickets = new Map<string, Ticket>();
  /** Null until somebody asks for a transfer. */
  #transfers: OpenTransfers | null = null;
  /** What the node of the snapshots has, and had when a transfer was opened that is opened again here. */
  #source: Source;
  #sourceCalls = 0;
  #points = 0;
  #isLast = (_: Point): boolean => false;
  #onStuck: (reason: Error) => void = () => undefined;

  constructor(
    readonly world: World,
    private readonly visit: Visit,
    private readonly directory: string,
  ) {
    this.#source = world.source;
    this.stuck = new Promise((_, reject) => {
      this.#onStuck = reject;
    });
    this.stuck.catch(() => undefined);
    const gate = (name: string): Promise<void> => this.#point('change', name);
    this.#replicas = new MemoryReplicas(world, gate, (what) => this.offences.push(what));
    this.#catalogue = new MemoryCatalogue(world, gate) as unknown as AsyncCatalogue;
    const fetch = this.#wire.readersOf(this.#replicas);
    const known = { catalogue: this.#catalogue, locks: this.#locks, logger: quiet, now: () => this.world.clockMs };
    this.#pulls = new Pulls({ ...known, registry: this.#registry(), directory: '', fetch });
    const target = this.#handlers({ describeSnapshot: async () => null, pulls: this.#pulls } as never);
    this.#nodes = [this.#connection(SOURCE, this.#sourceHandlers()), this.#connection(TARGET, target)];
  }

  /** Ends what lasts outside of the world. */
  async dispose(): Promise<void> {
    await this.#transfers?.stop();
  }

  /** As a start does, before calls are served. */
  async settle(): Promise<void> {
    const round = { laterMs: 0, isFull: false };
    await this.#keeper(round).settle(this.#kept(round));
  }

  async keep(round: Round): Promise<void> {
    await this.#keeper(round).round();
  }

  /** A router of its own brings the snapshot. */
  async bring(snapshotId: string): Promise<void> {
    const [source, target] = this.#nodes as [NodeConnection, NodeConnection];
    const nodes = { nodes: () => this.#nodes, owning: () => source };
    const remote = new RemoteSources({ ...nodes, logger: quiet as never, now: () => 0 });
    try {
      await remote.bring(target, snapshotId, { pool: '', cloneName: '' }, Infinity);
    } catch (thrown) {
      const { code, message } = CsiError.from(thrown);
      if (code === StatusCode.INTERNAL) this.offences.push(`${nameOf(snapshotId)} was not brought: ${message}`);
      throw thrown;
    } finally {
      await remote.stop();
    }
  }

  /** As `bring`, but the router is lost once it has the answer about a piece. */
  async bringPiece(snapshotId: string): Promise<void> {
    this.#isLast = ({ kind, name }) => kind === 'answer' && name.startsWith('PullSnapshot');
    await this.bring(snapshotId);
  }

  /** A volume is made from the replica. */
  async clone(snapshotId: string): Promise<void> {
    const { world } = this;
    const key = shared(snapshotKey(snapshotId));
    const make = async (): Promise<void> => {
      const ids = { sourceSnapshotId: snapshotId, sourceVolumeId: null, name: '' };
      await findSource(this.#catalogue, this.#registry(), ids, nodeKey(TARGET));
      const row = world.rows.get(snapshotId);
      const [is, was] = [world.disk.get(snapshotId)?.blocks, row && world.truthOf(row)];
      if (is?.join() !== was?.join()) this.offences.push(`a clone of ${nameOf(snapshotId)} has ${is}, not ${was}`);
      await this.#catalogue.replicaUsed(snapshotId, BigInt(world.clockMs) * 1_000_000n);
    };
    await this.#locks.run([key], make, never());
  }

  /** The node of the snapshots is killed and starts again. */
  async restartSource(): Promise<void> {
    this.#wire.end();
    this.world.sessions.clear();
    await this.dispose();
    this.#transfers = null;
  }

  /** Resolves when everything that runs waits for a point, or for a lock. */
  async rest(): Promise<void> {
    for (let turns = 0; turns < 3; turns += 1) {
      await turn();
      if (this.#sourceCalls > 0) turns = 0;
    }
  }

  async #point(kind: Point['kind'], name: string): Promise<void> {
    this.#points += 1;
    if (this.#points >= MOST_POINTS) {
      this.#onStuck(new Error('a call does not end'));
      await new Promise(() => undefined);
    }
    await this.visit({ kind, name });
    if (this.#isLast({ kind, name })) throw CsiError.unavailable('the router is gone');
  }

  #backend(round: Round = { laterMs: 0, isFull: false }): Backend {
    const capacity = async () => ({ totalBytes: GIB, freeBytes: round.isFull ? 0n : GIB });
    return { pool: 'p', replicas: this.#replicas, capacity } as unknown as Backend;
  }

  #registry(): BackendRegistry {
    return new BackendRegistry([this.#backend()]);
  }

  #keeper(round: Round): ReplicaKeeper {
    const { world } = this;
    return new ReplicaKeeper({
      catalogue: this.#catalogue,
      registry: new BackendRegistry([this.#kept(round)]),
      locks: this.#locks,
      pulls: this.#pulls,
      // This node serves nothing.
      transfers: { count: 0, endDeleted: async () => undefined },
      lacksRows: () => world.lacksRows,
      logger: quiet,
      now: () => world.clockMs + round.laterMs,
    });
  }

  /** The pool, which notes what the keeper should not remove. */
  #kept(round: Round): Backend {
    const { world } = this;
    const replicas: Pick<MemoryReplicas, 'delete' | 'list'> = {
      list: () => this.#replicas.list(),
      delete: async (id) => {
        if (world.lacksRows) this.offences.push(`${nameOf(id)} was removed although rows are lost`);
        const isAsked = round.laterMs === 0 && (world.rows.get(id)?.askedNs ?? 0n) > 0n;
        if (round.isFull && isAsked) this.offences.push(`${nameOf(id)} was freed, and a call has just asked`);
        await this.#replicas.delete(id);
      },
    };
    return { ...this.#backend(round), replicas } as unknown as Backend;
  }

  #newTransfers(): OpenTransfers {
    const { devices, serve } = this.#wire;
    const now = (): Source => this.#source;
    return new OpenTransfers({
      catalogue: new SourceRows(now),
      locks: new OperationLocks(),
      scanThreads,
      backendOf: () => sourceBackend(now, devices),
      settings: { ports: PORTS, host: '127.0.0.1', bytesPerSecond: null },
      directory: this.directory,
      logger: quiet,
      limits: LIMITS,
      serve,
    });
  }

  #sourceHandlers(): Handlers {
    const describeSnapshot = async (snapshotId: string): Promise<DescribedSnapshot | null> => {
      const { snapshots, origin } = this.world.source;
      const taken = snapshots.get(snapshotId);
      if (taken?.state !== 'ready') return null;
      const facts = { pristine: false, fileSystem: null, capabilities: [BLOCK], creationTimeNs: 1n };
      const from = { volumeId: VOLUME_ID, catalogueUuid: String(origin), poolUuid: 'p' };
      return { snapshotId, sequence: BigInt(taken.sequence), sizeBytes: sizeOf(taken), ...facts, ...from };
    };
    const transfers: NodeSide['transfers'] = {
      open: (request, signal) => this.#open(request, signal),
      close: async (of) => (await this.#opened()).close(of),
    };
    return this.#handlers({ describeSnapshot, transfers, pulls: { state: async () => null } } as never);
  }

  async #open(request: Session['request'], signal: AbortSignal) {
    const transfers = await this.#opened();
    const then = this.#source.copy();
    const transfer = await transfers.open(request, signal);
    this.#note(request.snapshotId, { request, then }, transfer.ticket);
    return transfer;
  }

  /** With the transfers that were open before. */
  async #opened(): Promise<OpenTransfers> {
    if (this.#transfers !== null) return this.#transfers;
    this.#transfers = this.#newTransfers();
    for (const [key, session] of this.world.sessions) {
      this.#source = session.then;
      const { ticket } = await this.#transfers.open(session.request, never());
      this.#note(key, session, ticket);
    }
    this.#source = this.world.source;
    return this.#transfers;
  }

  #note(key: string, session: Session, ticket: Ticket): void {
    const known = this.#tickets.get(key);
    if (known === ticket) return;
    if (known !== undefined && !this.#wire.hasEnded(known))
      this.offences.push(`two transfers of ${nameOf(key)} were open at once`);
    this.world.sessions.set(key, session);
    this.#tickets.set(key, ticket);
  }

  #handlers(side: NodeSide): Handlers {
    const context = { note: () => undefined, signal: never(), deadline: Infinity } as unknown as CallContext;
    const find = (async () => undefined) as never;
    return new Map(
      nodeRpcs(() => side).map(({ name, handler }) => {
        const handle = handler(find) as unknown as (request: never, context: CallContext) => Promise<object>;
        return [name, (request: never) => handle(request, context)];
      }),
    );
  }

  #connection(id: string, handlers: Handlers): NodeConnection {
    const unary = async ({ path, request }: NodeCall): Promise<Buffer> => {
      const name = path.slice(NODE_SERVICE.length + 2);
      const { requestDeserialize, responseSerialize } = nodeMethod(name as NodeRpc);
      const label = `${name} at the ${id}`;
      await this.#point('request', label);
      if (id === SOURCE) this.#sourceCalls += 1;
      try {
        const handle = handlers.get(name) as (request: never) => Promise<object>;
        return responseSerialize(await handle(requestDeserialize(request) as never));
      } finally {
        if (id === SOURCE) this.#sourceCalls -= 1;
        for (const [key, ticket] of this.#tickets) if (this.#wire.hasEnded(ticket)) this.#forget(key);
        await this.#point('answer', label);
      }
    };
    const address = '127.0.0.1:9810';
    return { id, key: nodeKey(id), address, isConnected: true, unary } as unknown as NodeConnection;
  }

  #forget(key: string): void {
    this.#tickets.delete(key);
    this.world.sessions.delete(key);
  }
}
