/**
 * The transfers that this node serves: each lets one reader fetch one piece of one snapshot for a while, whole or as the
 * difference from a base that the reader has.
 *
 * A transfer holds the snapshot's bytes and its list, not the snapshot: that can be deleted meanwhile, and its bytes go with the
 * transfer. All of this is in memory, so a restart ends every transfer, and the reader's pull asks for another.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { bestEffort, unreported } from '../../base/best-effort.js';
import { CsiError } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import type { Backend, OpenSnapshot } from '../backends/backend.js';
import type { SnapshotScan } from '../backends/snapshot-scan.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { SnapshotRecord } from '../catalogue/records.js';
import type { TransferSettings } from '../config/transfers.js';
import { type DeltaLocksDependencies, lockForDelta } from '../metadata/delta-locks.js';
import type { ScanThreads } from '../native/scan-threads.js';
import { type Piece, type PieceLimits, type Range, type Ranges, writePiece } from '../transfer/piece-list.js';
import { serveTransfer, type TransferServer } from '../transfer/serve.js';
import { newTicket, type Ticket } from '../transfer/ticket.js';
import {
  type OperationLocks,
  type Release,
  sharedByPlugin,
  snapshotKey,
  transferKey,
} from '../volumes/operation-locks.js';
import { scannedRanges } from './scanned-ranges.js';

export interface Base {
  readonly snapshotId: string;
  /** 0: it was compared when the pull began. */
  readonly sizeBytes: bigint;
}

export interface TransferRequest {
  readonly snapshotId: string;
  /** The key of the node that reads. */
  readonly reader: string;
  /** What the reader could start from, the best first. */
  readonly bases: readonly Base[];
  /** Where the piece begins. Only with the one base, or none, that the pieces before had. */
  readonly offset: bigint;
}

export interface Transfer {
  readonly piece: Piece;
  /** Where the piece begins: 0 if none of the bases can be used and the pull has to begin anew. */
  readonly offset: bigint;
  readonly baseId: string | null;
  readonly port: number;
  readonly ticket: Ticket;
  readonly leaseMs: number;
  /** How long the reader may see no progress. */
  readonly stallMs: number;
}

export interface OpenTransfersDependencies extends DeltaLocksDependencies {
  catalogue: Pick<AsyncCatalogue, 'snapshotById' | 'retainedBaseById'>;
  locks: OperationLocks;
  scanThreads: ScanThreads;
  backendOf(pool: string): Backend;
  settings: TransferSettings;
  /** Only this user can enter it. */
  directory: string;
  logger: Pick<Logger, 'info' | 'warn'>;
  leaseMs?: number;
  limits?: PieceLimits;
  /** How a piece is served: by nbdkit, unless a test has another way. */
  serve?: typeof serveTransfer;
}

const LEASE_MS = 600_000;
/** How long the end of a transfer is noted: longer than a snapshot for a clone stays unused. */
const NOTED_MS = 2 * 3_600_000;
const STALL_MS = 60_000;
/** The reader sees each hundredth of the data, and the limit of the rate may be a while ahead or behind. */
const STALL_SHARE = 25n;

interface Open {
  /** What it was opened for. */
  readonly request: TransferRequest;
  readonly transfer: Transfer;
  readonly server: TransferServer;
  /** Of the snapshot. */
  readonly pool: string;
  /** Resolves when nothing is left of it. */
  readonly ended: Promise<void>;
  lease: NodeJS.Timeout | undefined;
}

export class OpenTransfers {
  readonly #open = new Map<string, Open>();
  /** Of the ports that are in use. */
  readonly #ports = new Set<number>();
  /** When the last transfer of each snapshot ended. */
  readonly #ended = new Map<string, number>();
  readonly #ending = new AbortController();

  constructor(private readonly deps: OpenTransfersDependencies) {}

  /**
   * Opens a transfer, or prolongs the one that the same request has opened. Another piece or base for the reader ends the one
   * before. ABORTED while no port is free, NOT_FOUND if the snapshot is not on this node, FAILED_PRECONDITION if it cannot be
   * served, for example because no ports are set.
   */
  async open(request: TransferRequest, signal: AbortSignal): Promise<Transfer> {
    const key = keyOf(request);
    const open = async (): Promise<Transfer> => {
      const known = this.#open.get(key);
      if (known !== undefined && !known.server.hasEnded && isSame(known, request)) {
        this.#prolong(key, known);
        return known.transfer;
      }
      await this.close(request);
      return this.#begin(request, AbortSignal.any([signal, this.#ending.signal]));
    };
    return this.deps.locks.run([transferKey(key)], open, signal);
  }

  /** Succeeds if there is none. */
  async close(of: Pick<TransferRequest, 'snapshotId' | 'reader'>): Promise<void> {
    const open = this.#open.get(keyOf(of));
    await open?.server.close();
    await open?.ended;
  }

  /** Ends the transfers of snapshots of a pool that were deleted meanwhile. */
  async endDeleted(pool: string): Promise<void> {
    for (const open of [...this.#open.values()]) {
      const { snapshotId, reader } = open.request;
      if (open.pool !== pool || (await this.deps.catalogue.snapshotById(snapshotId)) !== null) continue;
      this.deps.logger.warn(
        { snapshot: snapshotId, pool },
        'a transfer was ended: its snapshot is deleted, and the pool is low on space',
      );
      await this.close({ snapshotId, reader });
    }
  }

  /** How many transfers are open. */
  get count(): number {
    return this.#open.size;
  }

  /** When the last transfer of the snapshot ended, ms since the epoch; now if one is open, and 0 if none was since the start. */
  lastUse(snapshotId: string): number {
    const isOpen = [...this.#open.values()].some(({ request }) => request.snapshotId === snapshotId);
    return isOpen ? Date.now() : (this.#ended.get(snapshotId) ?? 0);
  }

  async stop(): Promise<void> {
    this.#ending.abort(CsiError.unavailable('the plugin is stopping'));
    await Promise.all([...this.#open.values()].map(({ ended }) => ended));
  }

  async #begin(request: TransferRequest, signal: AbortSignal): Promise<Transfer> {
    const port = this.#takePort();
    const listPath = join(this.deps.directory, `${port}.list`);
    const undo: (() => Promise<unknown>)[] = [
      async () => this.#ports.delete(port),
      () => rm(listPath, { force: true }),
    ];
    const clear = async (): Promise<void> => {
      for (const step of undo.reverse()) await bestEffort(step, unreported);
    };
    try {
      await rm(listPath, { force: true });
      const { device, pool, ...prepared } = await this.#prepare(request, listPath, signal);
      undo.push(() => device.close());
      const ticket = newTicket();
      const { directory, settings, serve = serveTransfer } = this.deps;
      const { host, bytesPerSecond } = settings;
      const { dataBytes } = prepared.piece;
      const serving = { devicePath: device.path, listPath, dataBytes, ticket, host, port, bytesPerSecond, directory };
      const server = await serve({ ...serving, signal: this.#ending.signal });
      const leaseMs = this.deps.leaseMs ?? LEASE_MS;
      const atRateMs = bytesPerSecond === null ? 0 : Number((dataBytes * 1000n) / STALL_SHARE / bytesPerSecond);
      const transfer = { ...prepared, port: server.port, ticket, leaseMs, stallMs: STALL_MS + atRateMs };
      this.#add(request, { transfer, server, pool }, clear);
      return transfer;
    } catch (thrown) {
      await clear();
      throw thrown;
    }
  }

  #add(request: TransferRequest, of: Pick<Open, 'transfer' | 'server' | 'pool'>, clear: () => Promise<void>): void {
    const key = keyOf(request);
    const ended = of.server.exited.then(async () => {
      clearTimeout(open.lease);
      await clear();
      this.#noteEnd(request.snapshotId);
      if (this.#open.get(key) === open) this.#open.delete(key);
    });
    const open: Open = { ...of, request, ended, lease: undefined };
    this.#open.set(key, open);
    this.#prolong(key, open);
  }

  #noteEnd(snapshotId: string): void {
    const now = Date.now();
    for (const [id, endedMs] of this.#ended) if (now - endedMs > NOTED_MS) this.#ended.delete(id);
    this.#ended.set(snapshotId, now);
  }

  #prolong(key: string, open: Open): void {
    clearTimeout(open.lease);
    open.lease = setTimeout(() => {
      this.deps.logger.info({ transfer: key }, 'a transfer has ended, because nobody has prolonged it');
      void open.server.close();
    }, open.transfer.leaseMs).unref();
  }

  /** Chooses the base, writes the list and opens the device, while the snapshots are locked. */
  async #prepare(request: TransferRequest, listPath: string, signal: AbortSignal): Promise<Prepared> {
    const { snapshotId } = request;
    const { catalogue, scanThreads, limits } = this.deps;
    const bases = [...request.bases.map((base) => base.snapshotId), null];
    for (const baseId of bases) {
      const release = await this.#lock(snapshotId, baseId, signal);
      try {
        const snapshot = readyOn(await catalogue.snapshotById(snapshotId), snapshotId);
        const backend = this.deps.backendOf(snapshot.pool);
        if (backend.snapshots.open === undefined) throw notServed(snapshot);
        await backend.snapshots.check(snapshotId, snapshot.sizeBytes);
        const changed = await this.#scanFrom(backend, snapshot, request.bases, baseId);
        if (changed === null) continue;
        const offset = baseId === (request.bases[0]?.snapshotId ?? null) ? request.offset : 0n;
        const ranges = (scan: SnapshotScan) =>
          scannedRanges(scanThreads, scan, offset, { group: snapshot.pool, peer: this, signal });
        // Without a base, what changed is what the snapshot holds.
        const held = baseId === null ? all(snapshot) : ranges(await backend.changes.scan(snapshotId, null));
        const piece = await writePiece(listPath, ranges(changed), held, limits);
        return { baseId, offset, piece, pool: snapshot.pool, device: await backend.snapshots.open(snapshotId) };
      } finally {
        release();
      }
    }
    throw CsiError.internal('a transfer without a base was refused');
  }

  #lock(snapshotId: string, baseId: string | null, signal: AbortSignal): Promise<Release> {
    if (baseId !== null) return lockForDelta(this.deps, { targetId: snapshotId, baseId }, signal);
    return this.deps.locks.acquireFor([sharedByPlugin(snapshotKey(snapshotId))], signal);
  }

  /** How to find what differs from the base; null if nothing sound can be found from it, or it is not what the reader has. */
  async #scanFrom(
    backend: Backend,
    { snapshotId, volumeId, sequence }: SnapshotRecord,
    offered: readonly Base[],
    baseId: string | null,
  ): Promise<SnapshotScan | null> {
    if (baseId === null) return backend.changes.scan(snapshotId, null);
    const { catalogue } = this.deps;
    const known = await catalogue.snapshotById(baseId);
    const retained = known === null ? await catalogue.retainedBaseById(baseId) : null;
    const base = known?.state === 'ready' ? known : retained?.invalidated === null ? retained : null;
    const { sizeBytes } = offered.find((each) => each.snapshotId === baseId) ?? {};
    const isSame = sizeBytes === 0n || sizeBytes === base?.sizeBytes;
    if (base === null || !isSame || base.volumeId !== volumeId || base.sequence >= sequence) return null;
    try {
      if (known !== null) await backend.snapshots.check(baseId, known.sizeBytes);
      return await backend.changes.scan(snapshotId, baseId);
    } catch (thrown) {
      this.deps.logger.warn(
        { snapshot: snapshotId, base: baseId, err: CsiError.from(thrown) },
        'no transfer from a base',
      );
      return null;
    }
  }

  #takePort(): number {
    const { ports } = this.deps.settings;
    if (ports.length === 0) {
      throw CsiError.failedPrecondition(
        'this node serves no snapshots to other nodes: set BLOCKDELTA_TRANSFER_PORTS on it',
      );
    }
    const port = ports.find((each) => !this.#ports.has(each));
    if (port === undefined) {
      throw CsiError.aborted(
        `all ${ports.length} ports of BLOCKDELTA_TRANSFER_PORTS are in use by transfers; the call is tried again`,
      );
    }
    this.#ports.add(port);
    return port;
  }
}

interface Prepared extends Pick<Transfer, 'baseId' | 'offset' | 'piece'> {
  readonly pool: string;
  readonly device: OpenSnapshot;
}

const keyOf = ({ snapshotId, reader }: Pick<TransferRequest, 'snapshotId' | 'reader'>): string =>
  `${snapshotId} for ${reader}`;

/** Whether the request is the one that has opened the transfer, or asks to prolong it: by its offset and its one base, or none. */
function isSame({ request: first, transfer }: Open, { offset, bases }: TransferRequest): boolean {
  const ids = bases.map(({ snapshotId }) => snapshotId);
  if (offset === first.offset && isDeepStrictEqual(bases, first.bases)) return true;
  return offset === transfer.offset && isDeepStrictEqual(ids, transfer.baseId === null ? [] : [transfer.baseId]);
}

async function* all({ sizeBytes }: SnapshotRecord): Ranges & AsyncGenerator<readonly Range[]> {
  yield [{ offset: 0n, size: sizeBytes }];
}

function readyOn(snapshot: SnapshotRecord | null, snapshotId: string): SnapshotRecord {
  if (snapshot?.state === 'ready') return snapshot;
  throw CsiError.notFound(`snapshot ${snapshotId} does not exist on this node, or is being deleted`);
}

const notServed = ({ snapshotId, pool }: SnapshotRecord): CsiError =>
  CsiError.failedPrecondition(
    `snapshot ${snapshotId} is in pool '${pool}', whose snapshots cannot be read from other nodes: make the volume on the ` +
      'node of the snapshot',
  );
