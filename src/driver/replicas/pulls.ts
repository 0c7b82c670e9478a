/**
 * Pulls snapshots of other nodes into replicas of this one, piece by piece. A router arranges each piece with the node that has
 * the snapshot, and asks this node to fetch it; nothing here knows the other node but its address and the ticket.
 *
 * The row of a replica precedes its first byte. It says which pieces are durable, so a pull that was interrupted, for whatever
 * reason, goes on at the next one. Pieces of different snapshots, or from different bases, never meet in one replica: such a
 * pull begins anew.
 */
import { bestEffort, unreported } from '../../base/best-effort.js';
import { CsiError, messageOf } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { withTimeout } from '../../base/timeout.js';
import type { Backend, PoolReplicas } from '../backends/backend.js';
import { lowWater } from '../backends/pool-levels.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { DescribedSnapshot, ReplicaRecord } from '../catalogue/records.js';
import { fetchData, fetchZeros } from '../transfer/fetch.js';
import type { Ticket } from '../transfer/ticket.js';
import { type OperationLocks, sharedByPlugin, snapshotKey } from '../volumes/operation-locks.js';
import { isSameOrigin } from './described-snapshot.js';
import type { Base } from './open-transfers.js';

/** A piece that another node serves. */
export interface Piece {
  readonly host: string;
  readonly port: number;
  readonly ticket: Ticket;
  readonly baseId: string | null;
  readonly offset: bigint;
  /** Null if this is the last piece. */
  readonly nextOffset: bigint | null;
  readonly dataBytes: bigint;
  /** As `dataBytes`, of this piece and all later ones. */
  readonly remainingBytes: bigint;
  readonly requestSize: number;
  /** `dataBytes`, rounded outwards to requests. */
  readonly writtenBytes: bigint;
  readonly stallMs: number;
}

export interface PullOrder {
  readonly snapshot: DescribedSnapshot;
  /** As in the parameters of a volume: '' for the default. */
  readonly pool: string;
  /** As ReplicaRecord.cloneName. */
  readonly cloneName: string | null;
  /** A call waits for the snapshot. */
  readonly isAsked: boolean;
  readonly piece: Piece;
}

/** complete: volumes can be created from it; running: a piece is being fetched; waiting: the next piece is wanted. */
export type PullStatus = 'complete' | 'running' | 'waiting';

export interface PullState {
  readonly status: PullStatus;
  readonly baseId: string | null;
  /** Of the piece that is being fetched or is wanted. */
  readonly offset: bigint;
  readonly doneBytes: bigint;
  readonly totalBytes: bigint;
  readonly bytesPerSecond: bigint;
  /** Why the last piece was not fetched, for people; null if it was. */
  readonly failure: string | null;
}

export interface PullsDependencies {
  catalogue: AsyncCatalogue;
  registry: BackendRegistry;
  locks: OperationLocks;
  /** Only this user can enter it. */
  directory: string;
  logger: Pick<Logger, 'info' | 'warn'>;
  observe?: ((pool: string, outcome: 'fetched' | 'failed', bytes: bigint) => void) | undefined;
  now?: () => number;
  /** How a piece comes to a device: by the programs, unless a test has another way. */
  fetch?: { data: typeof fetchData; zeros: typeof fetchZeros };
}

/** What this process has pulled of one snapshot. */
interface Progress {
  readonly pool: string;
  readonly startedMs: number;
  /** Of complete pieces. */
  doneBytes: bigint;
  totalBytes: bigint;
  /** The piece that is being fetched; null if none is. */
  piece: Piece | null;
  percent: number;
  failure: string | null;
}

const NS_PER_MS = 1_000_000n;
const ASKED_FOR_NS = 3_600_000n * NS_PER_MS;

export class Pulls {
  readonly #progress = new Map<string, Progress>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #ending = new AbortController();

  constructor(private readonly deps: PullsDependencies) {}

  /**
   * Fetches the piece, and waits for its end up to `waitMs`. If a piece of the snapshot is being fetched already, waits for that
   * one. Changes nothing if another piece is wanted. RESOURCE_EXHAUSTED if the pool has no room for the rest of the snapshot,
   * FAILED_PRECONDITION if the pool cannot hold replicas, ABORTED if the base is gone.
   */
  async pull(order: PullOrder, waitMs: number, signal: AbortSignal): Promise<PullState> {
    const { snapshotId } = order.snapshot;
    const { baseId, offset } = order.piece;
    const isBegun = baseId === null || offset > 0n ? [] : [sharedByPlugin(snapshotKey(baseId))];
    const begin = (): Promise<void> => this.#begin(order);
    if (!this.isRunning(snapshotId)) {
      await this.deps.locks.run([snapshotKey(snapshotId), ...isBegun], begin, signal);
    }
    const running = this.#running.get(snapshotId);
    if (running !== undefined) await withTimeout(running, waitMs, () => undefined, signal);
    const state = await this.state(snapshotId);
    if (state === null) throw CsiError.aborted(`the pull of snapshot ${snapshotId} was given up; try again`);
    return state;
  }

  /** Null if nothing of the snapshot is here. */
  async state(snapshotId: string): Promise<PullState | null> {
    const record = await this.deps.catalogue.replicaById(snapshotId);
    return record === null ? null : this.stateOf(record);
  }

  stateOf({ snapshotId, baseId, nextOffset, sizeBytes }: ReplicaRecord): PullState {
    const progress = this.#progress.get(snapshotId);
    const {
      doneBytes: before = 0n,
      totalBytes = sizeBytes,
      piece = null,
      percent = 0,
      failure = null,
    } = progress ?? {};
    const doneBytes = before + ((piece?.dataBytes ?? 0n) * BigInt(percent)) / 100n;
    const elapsedMs = BigInt(Math.max(1, Math.round(this.#now() - (progress?.startedMs ?? 0))));
    const isRunning = this.isRunning(snapshotId);
    return {
      status: nextOffset === null ? 'complete' : isRunning ? 'running' : 'waiting',
      baseId,
      offset: nextOffset ?? sizeBytes,
      doneBytes,
      totalBytes,
      bytesPerSecond: progress === undefined ? 0n : (doneBytes * 1000n) / elapsedMs,
      failure,
    };
  }

  isRunning(snapshotId: string): boolean {
    return this.#running.has(snapshotId);
  }

  /** The replicas that a pull of the snapshot could start from, the newest first; each was checked just now. */
  async bases(snapshot: DescribedSnapshot): Promise<Base[]> {
    const { catalogue, registry } = this.deps;
    const bases: Base[] = [];
    for (const record of await catalogue.replicasOf(snapshot.volumeId)) {
      const { snapshotId, sizeBytes } = record;
      if (record.nextOffset !== null || !isSameOrigin(record, snapshot) || record.sequence >= snapshot.sequence)
        continue;
      const replicas = registry.owning(record.pool).replicas;
      const isWhole = await replicas?.check(snapshotId, sizeBytes).then(
        () => true,
        () => false,
      );
      if (isWhole === true) bases.push({ snapshotId, sizeBytes });
    }
    return bases;
  }

  /** What a router brings forward: replicas that are not complete and that a call has asked for within the last hour. */
  async asked(): Promise<{ record: ReplicaRecord; state: PullState }[]> {
    const sinceNs = this.#nowNs() - ASKED_FOR_NS;
    const records = await this.deps.catalogue.listReplicas();
    return records
      .filter(({ nextOffset, askedNs }) => nextOffset !== null && askedNs >= sinceNs)
      .map((record) => ({ record, state: this.stateOf(record) }));
  }

  /** Bytes that the pool has for replicas. They leave more room than writers need, so that no pull is the reason why one is freed. */
  async room(backend: Pick<Backend, 'capacity' | 'pool'>): Promise<bigint> {
    const { totalBytes, freeBytes } = await backend.capacity('recent');
    const room = freeBytes - replicaReserve(totalBytes) - this.pendingBytes(backend.pool);
    return room < 0n ? 0n : room;
  }

  /** Bytes that running pulls will still write to the pool. */
  pendingBytes(pool: string): bigint {
    let bytes = 0n;
    for (const [snapshotId, progress] of this.#progress) {
      if (progress.pool === pool && this.isRunning(snapshotId)) bytes += progress.totalBytes - progress.doneBytes;
    }
    return bytes;
  }

  /** Ends all pulls. Their rows and durable pieces stay. */
  async stop(): Promise<void> {
    this.#ending.abort(CsiError.unavailable('the plugin is stopping'));
    await Promise.all(this.#running.values());
  }

  async #begin(order: PullOrder): Promise<void> {
    this.#ending.signal.throwIfAborted();
    const { snapshot, piece, isAsked } = order;
    const { snapshotId } = snapshot;
    const { catalogue, registry } = this.deps;
    if (this.isRunning(snapshotId)) return;
    const record = await this.#settled(order);
    const nowNs = this.#nowNs();
    if (record !== null && isAsked) await catalogue.replicaAsked(snapshotId, nowNs);
    if (record?.nextOffset === null) {
      // Of an attempt that failed after the replica was complete.
      this.#progress.delete(snapshotId);
      return;
    }
    const goesOn = record !== null && record.baseId === piece.baseId;
    // The router has read the state before another router had the piece fetched.
    if (piece.offset > 0n && !(goesOn && record.nextOffset === piece.offset)) return;
    const backend = goesOn ? registry.owning(record.pool) : registry.select(order.pool);
    const replicas = replicasOf(backend);
    await this.#assertRoom(backend, order);
    await replicas.makeRoom(this.pendingBytes(backend.pool) + piece.writtenBytes);
    if (piece.offset === 0n && !goesOn) {
      await this.#assertBase(backend, order);
      const { cloneName } = order;
      const times = { askedNs: isAsked ? nowNs : 0n, usedNs: nowNs };
      const row = { ...snapshot, pool: backend.pool, baseId: piece.baseId, cloneName, ...times };
      // Before the row, because `begin` goes on with whatever is there: even without a row, if rows were lost.
      await replicasOf(record === null ? backend : registry.owning(record.pool)).delete(snapshotId);
      await catalogue.putReplica({ ...row, promiseId: null, nextOffset: 0n });
    }
    if (piece.offset === 0n) await replicas.begin(snapshotId, snapshot.sizeBytes, piece.baseId);
    this.#start(order, backend.pool, replicas);
  }

  /**
   * The row, which a kill or a catalogue that could not be written may have left behind what the pool holds. A part of a snapshot
   * of another origin is removed: nothing goes on with it.
   */
  async #settled(order: PullOrder): Promise<ReplicaRecord | null> {
    const { snapshot } = order;
    const { snapshotId } = snapshot;
    const { catalogue, registry } = this.deps;
    const record = await catalogue.replicaById(snapshotId);
    if (record === null) return this.#adopted(order);
    if (record.nextOffset === null) return record;
    const replicas = replicasOf(registry.owning(record.pool));
    const held = (await replicas.list()).find((each) => each.snapshotId === snapshotId);
    if (held?.isComplete === true) {
      // What completed it may have failed at its last step.
      await replicas.complete(held.snapshotId);
      await catalogue.advanceReplica(snapshotId, null, this.#nowNs());
      return catalogue.replicaById(snapshotId);
    }
    if (held !== undefined && isSameOrigin(record, snapshot)) return record;
    if (held !== undefined) await replicas.delete(snapshotId);
    await catalogue.removeReplica(snapshotId);
    return null;
  }

  /**
   * The row of a complete replica that has lost it, if it is promised: its own node may be lost before it is pulled again. Null if
   * there is none.
   */
  async #adopted({ snapshot, cloneName }: PullOrder): Promise<ReplicaRecord | null> {
    const { snapshotId, sizeBytes } = snapshot;
    for (const { pool, replicas } of this.deps.registry.all) {
      const held = (await replicas?.list())?.find((each) => each.snapshotId === snapshotId);
      if (held?.promiseId == null) continue;
      await replicas?.check(snapshotId, sizeBytes);
      const { promiseId } = held;
      const row = { ...snapshot, pool, cloneName, promiseId, baseId: null, nextOffset: null };
      await this.deps.catalogue.putReplica({ ...row, askedNs: 0n, usedNs: this.#nowNs() });
      return this.deps.catalogue.replicaById(snapshotId);
    }
    return null;
  }

  #start({ snapshot, piece }: PullOrder, pool: string, replicas: PoolReplicas): void {
    const { snapshotId } = snapshot;
    const known = this.#progress.get(snapshotId) ?? { pool, startedMs: this.#now(), doneBytes: 0n };
    const { doneBytes, startedMs } = known;
    const totalBytes = doneBytes + piece.remainingBytes;
    const progress: Progress = { pool, startedMs, doneBytes, totalBytes, piece, percent: 0, failure: null };
    this.#progress.set(snapshotId, progress);
    const running = this.#fetch(snapshot, piece, replicas, progress).then(
      () => {
        this.deps.observe?.(pool, 'fetched', piece.dataBytes);
        progress.doneBytes += piece.dataBytes;
        if (piece.nextOffset === null) this.#progress.delete(snapshotId);
      },
      (thrown) => {
        this.deps.observe?.(pool, 'failed', piece.dataBytes);
        progress.failure = messageOf(thrown);
        this.deps.logger.warn(
          { snapshot: snapshotId, err: CsiError.from(thrown) },
          'a piece of a snapshot was not pulled',
        );
      },
    );
    const ended = running.then(() => {
      progress.piece = null;
      this.#running.delete(snapshotId);
    });
    this.#running.set(snapshotId, ended);
  }

  async #fetch(
    { snapshotId, sizeBytes }: DescribedSnapshot,
    piece: Piece,
    replicas: PoolReplicas,
    progress: Progress,
  ): Promise<void> {
    const { catalogue, locks, directory, fetch = { data: fetchData, zeros: fetchZeros } } = this.deps;
    const { signal } = this.#ending;
    const onPercent = (percent: number): void => {
      progress.percent = percent;
    };
    const device = await replicas.open(snapshotId);
    try {
      const asked = { ...piece, devicePath: device.path, directory, signal };
      await fetch.data({ ...asked, onPercent });
      // Requests are rounded outwards, so the data may have filled a part of what reads as zeros.
      await fetch.zeros({ ...asked, sizeBytes }, (ranges) => device.punch(ranges));
      await device.flush();
    } finally {
      await device.close();
    }
    const lasts = piece.nextOffset === null;
    if (!lasts) return catalogue.advanceReplica(snapshotId, piece.nextOffset, this.#nowNs());
    const release = await locks.acquireInTurn([snapshotKey(snapshotId)], signal);
    try {
      await replicas.complete(snapshotId);
      await catalogue.advanceReplica(snapshotId, null, this.#nowNs());
    } finally {
      release();
    }
    if (piece.baseId !== null) {
      await bestEffort(() => catalogue.replicaUsed(piece.baseId ?? '', this.#nowNs()), unreported);
    }
    this.deps.logger.info(
      { snapshot: snapshotId, base: piece.baseId, bytes: progress.totalBytes },
      'pulled a snapshot',
    );
  }

  async #assertBase(backend: Backend, { snapshot, piece: { baseId } }: PullOrder): Promise<void> {
    if (baseId === null) return;
    const record = await this.deps.catalogue.replicaById(baseId);
    const isBase = record?.nextOffset === null && isSameOrigin(record, snapshot) && record.pool === backend.pool;
    if (isBase) return replicasOf(backend).check(baseId, record.sizeBytes);
    throw CsiError.aborted(
      `snapshot ${snapshot.snapshotId} cannot be pulled from the base ${baseId}, which pool '${backend.pool}' does not have; ` +
        'try again',
    );
  }

  async #assertRoom(backend: Backend, { snapshot: { snapshotId }, piece }: PullOrder): Promise<void> {
    const room = await this.room(backend);
    const wanted = piece.remainingBytes - piece.dataBytes + piece.writtenBytes;
    if (room >= wanted) return;
    throw CsiError.resourceExhausted(
      `pool '${backend.pool}' has ${room} bytes for replicas, and the rest of snapshot ${snapshotId} takes ` +
        `${wanted}: add space to the pool, or make the volume on another node`,
    );
  }

  #now(): number {
    return (this.deps.now ?? Date.now)();
  }

  #nowNs(): bigint {
    return BigInt(this.#now()) * NS_PER_MS;
  }
}

/** Free bytes below which a pool frees replicas: more than it keeps for writers. */
export const replicaReserve = (totalBytes: bigint): bigint => (lowWater(totalBytes) * 5n) / 4n;

function replicasOf({ pool, replicas }: Backend): PoolReplicas {
  if (replicas !== undefined) return replicas;
  throw CsiError.failedPrecondition(
    `pool '${pool}' cannot hold snapshots of other nodes: make the volume in another pool, or on the node of its source`,
  );
}
